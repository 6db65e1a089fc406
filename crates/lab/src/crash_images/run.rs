//! The run itself: on from station to station, images made, imported and looked at.

use anyhow::Result;

use super::Options;
use super::expected::Steps;
use super::filer::Filer;
use super::media::{Media, Piece};
use super::stations::{self, Station, What};
use crate::recording::{Event, Recording};

/// Failures after which a run has said enough.
const FAILURES_MAX: u64 = 5;

/// What was looked at. The full sets and failures are counted besides.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) borders: u64,
    pub(super) full: u64,
    pub(super) cuts: u64,
    pub(super) failed: u64,
}

/// One way through a recording.
pub(super) struct Run<'a> {
    pub(super) options: &'a Options,
    pub(super) seed: u64,
    pub(super) steps: Steps<'a>,
    pub(super) filer: Filer,
    pub(super) events: &'a [Event],
    pub(super) counts: Counts,
}

impl Run<'_> {
    /// Goes through the recording once.
    pub(super) fn all(mut self, recording: &Recording, stations: Vec<Station>) -> Result<Counts> {
        let mut media = Media::new(recording);
        let mut known = Known::default();
        let mut stations = stations.into_iter().peekable();
        for (index, event) in self.events.iter().enumerate() {
            while let Some(Station { what: What::Cut(number, mut draw), .. }) =
                stations.next_if(|station| station.event == index && matches!(station.what, What::Cut(..)))
            {
                let uncertain = media.uncertain(event);
                let survivors: Vec<_> = uncertain.into_iter().flat_map(|piece| piece.survivors(&mut draw)).collect();
                self.counts.cuts += 1;
                self.look(&media, &survivors, &known, index, &What::Cut(number, draw))?;
            }
            media.apply(event);
            known.answered = stations::steps_of(event).unwrap_or(known.answered);
            if let Some(Station { what, .. }) = stations.next_if(|station| station.event == index) {
                self.border(&media, &mut known, index, &what)?;
            }
            if self.counts.failed >= if self.options.lying.is_some() { 1 } else { FAILURES_MAX } {
                println!("enough failures; the rest is not looked at");
                break;
            }
        }
        Ok(self.counts)
    }

    fn border(&mut self, media: &Media<'_>, known: &mut Known, index: usize, what: &What) -> Result<()> {
        self.counts.borders += 1;
        if let Some(steps) = self.look(media, &[], known, index, what)? {
            known.durable = steps;
        }
        let cached = media.cached();
        if !cached.is_empty() {
            self.counts.full += 1;
            self.look(media, &cached, known, index, what)?;
        }
        Ok(())
    }

    /// Makes the images, has them imported, and says how many steps explain what is found.
    fn look(
        &mut self,
        media: &Media<'_>,
        survivors: &[Piece<'_>],
        known: &Known,
        index: usize,
        what: &What,
    ) -> Result<Option<usize>> {
        media.write(&self.filer.images(), survivors)?;
        let least = known.answered.max(known.durable);
        let most = self.events[index..]
            .iter()
            .find_map(|event| stations::steps_of(event).filter(|steps| *steps > known.answered));
        let most = most.unwrap_or_else(|| self.steps.count()).max(least);
        let found = match self.filer.tree() {
            Ok(tree) => self.steps.explain(&tree, least, most),
            Err(error) => Err(format!("{error:#}")),
        };
        match found {
            Ok(steps) => Ok(Some(steps)),
            Err(error) => {
                self.counts.failed += 1;
                self.tell(known, index, what, survivors.len(), &error);
                Ok(None)
            }
        }
    }

    fn tell(&self, known: &Known, index: usize, what: &What, pieces: usize, error: &str) {
        let answered = known.answered;
        let place = format!("event {index}, {answered} steps answered, {pieces} pieces of caches");
        match &self.options.lying {
            None => println!("FAIL {place}: {error}"),
            Some(_) => {
                println!("as it must, the lie is noticed at {place}: {}", error.lines().next().unwrap_or_default())
            }
        }
        println!("     again: {}", self.options.again(what, self.seed));
    }
}

/// What must be found.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Steps that the client was told of.
    answered: usize,
    /// Steps that stood on the medium at the last border.
    durable: usize,
}
