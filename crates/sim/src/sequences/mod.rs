//! All short sequences of requests, and every cut of the power in them.
//!
//! The random histories go deep into few places; this goes into every place near the beginning. Each sequence of up to three
//! letters of an [`ALPHABET`] is run on a small pool that was just imported, and behind it a group is synced. What the last
//! letter and that sync did to the disks gives the states that a cut may leave ([`Cuts`](crate::disk::Cuts)); the states of the letters before
//! are those of a shorter sequence. Each state is imported by the real server and compared with what the oracle allows
//! there; the pool must be sound, and requests of which it has the effect, sent again, get their first answer.
//!
//! A sequence of several requests, none of which speaks of what an earlier one has made, is also run with all of them
//! waiting for one write of the log.

mod alphabet;
mod run;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

pub use alphabet::{ALPHABET, Letter};
pub use run::World;

use crate::panics::quietly;

/// The disks of a pool, by name: as words of `tally pool create`.
pub const LAYOUTS: [(&str, &[&str]); 3] = [
    ("slog", &["/d/data", "log", "/d/slog"]),
    ("alone", &["/d/data"]),
    ("mirrors", &["mirror", "/d/a", "/d/b", "log", "mirror", "/d/slog-a", "/d/slog-b"]),
];

/// Letters of a sequence that is run on every layout; longer ones are run on the first alone.
const EVERYWHERE_MAX: usize = 2;

/// A sequence on a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Its place in [`LAYOUTS`].
    pub layout: usize,
    /// Their places in [`ALPHABET`].
    pub letters: Vec<usize>,
}

/// What was met in all sequences together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Sequences that were run.
    pub sequences: u64,
    /// Sequences with a request about something that was not there.
    pub impossible: u64,
    /// States that were imported and compared.
    pub states: u64,
    /// Log records that their imports replayed.
    pub replayed: u64,
    /// Requests that were sent again there, and answered from memory.
    pub remembered: u64,
}

/// What was found wrong.
#[derive(Clone, Debug)]
pub struct Finding {
    /// In which sequence.
    pub case: Case,
    /// Where the cut fell, and what was wrong behind it.
    pub message: String,
}

impl Case {
    /// Every sequence of up to so many letters, on its layouts.
    #[must_use]
    pub fn all(letters_max: usize) -> Vec<Self> {
        let mut cases = Vec::new();
        let mut sequences: Vec<Vec<usize>> = vec![vec![]];
        for length in 1..=letters_max {
            let longer = |letters: &Vec<usize>| {
                let letters = letters.clone();
                (0..ALPHABET.len()).map(move |letter| [&letters[..], &[letter]].concat())
            };
            sequences = sequences.iter().flat_map(longer).collect();
            let layouts = if length <= EVERYWHERE_MAX { LAYOUTS.len() } else { 1 };
            let on = |layout| sequences.iter().map(move |letters| Self { layout, letters: letters.clone() });
            cases.extend((0..layouts).flat_map(on));
        }
        cases
    }

    /// The same cases, so that any beginning has something of everything.
    #[must_use]
    pub fn mixed(cases: &[Self]) -> Vec<Self> {
        // A prime, so that every case is met once.
        const STRIDE: usize = 7919;
        (0..cases.len()).map(|number| cases[number * STRIDE % cases.len()].clone()).collect()
    }

    /// The names of its letters.
    #[must_use]
    pub fn name(&self) -> String {
        let names: Vec<&str> = self.letters.iter().map(|letter| ALPHABET[*letter].name).collect();
        names.join(",")
    }

    /// Reads [`Case::name`].
    #[must_use]
    pub fn named(layout: usize, names: &str) -> Option<Self> {
        let letter = |name: &str| ALPHABET.iter().position(|letter| letter.name == name);
        Some(Self { layout, letters: names.split(',').map(letter).collect::<Option<_>>()? })
    }
}

/// Runs cases until so many states were met, on so many threads; ends with the first finding.
pub fn explore(
    cases: &[Case],
    states_max: u64,
    threads: usize,
    tell: &(dyn Fn(usize, u64) + Sync),
) -> Result<Totals, Finding> {
    let worlds: Vec<World> = LAYOUTS.iter().map(|(_, vdevs)| World::new(vdevs)).collect();
    let (next, states) = (AtomicUsize::new(0), AtomicU64::new(0));
    let outcome = Mutex::new(Ok(Totals::default()));
    let explore = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = cases.get(number) else { return };
            if states.load(Ordering::Relaxed) >= states_max || outcome.lock().is_err() {
                return;
            }
            let result = worlds[case.layout].run(&case.letters, false);
            let mut outcome = outcome.lock();
            match (result, &mut *outcome) {
                (Ok(found), Ok(totals)) => {
                    *totals += found;
                    states.fetch_add(found.states, Ordering::Relaxed);
                    tell(number, totals.states);
                }
                (Err(message), Ok(_)) => *outcome = Err(Finding { case: case.clone(), message }),
                (_, Err(_)) => {}
            }
        }
    };
    quietly(|| {
        std::thread::scope(|scope| {
            (0..threads).for_each(|_| {
                scope.spawn(explore);
            });
        });
    });
    outcome.into_inner()
}

impl std::ops::AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.sequences += other.sequences;
        self.impossible += other.impossible;
        self.states += other.states;
        self.replayed += other.replayed;
        self.remembered += other.remembered;
    }
}
