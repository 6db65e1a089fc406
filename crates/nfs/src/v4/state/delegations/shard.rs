//! The delegations of some of the clients: places, found by number, and what leads to them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use foldhash::HashMap;
use tally_base::FileTime;
use tally_vfs::Delegation;

use super::look::Look;
use super::recall::{Next, Recall};
use super::{Keeps, Referred};
use crate::v4::state::ClientId;
use crate::v4::state::OwnerName;
use crate::v4::state::bounds::{DELEGATIONS_MAX, DELEGATIONS_OF_CLIENT_MAX};
use crate::v4::state::places::{OF_DELEGATIONS, PLACES_MAX, Places};
use crate::v4::state::shards::Count;
use crate::v4::state::stateid::{Asker, FileId, Mounted, Named, Place, Revoked, Seal, Stateid};
use crate::v4::status::Status;

const _: () = assert!(DELEGATIONS_MAX < PLACES_MAX);

/// How long a client is left alone that was asked to give back what it does not use: it has to find that out, and returns it one by one.
const FEWER_EVERY: Duration = Duration::from_secs(10);

/// What all shards have together.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) all: Count,
    pub(super) recalled: Count,
    pub(super) revoked: Count,
    /// In which second somebody was asked for what he does not use, as all have so many.
    asked_in: AtomicU64,
}

impl Totals {
    /// Whether somebody may be asked now: one a second.
    pub(super) fn may_ask_one(&self, now: Duration) -> bool {
        self.asked_in.swap(now.as_secs() + 1, Relaxed) <= now.as_secs()
    }
}

/// Whose, of what, to which owner of its opens, and with which request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) client: ClientId,
    pub(super) file: FileId,
    pub(super) owner: OwnerName,
    pub(super) by: Option<Referred>,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// The file system is asked. Whether somebody is kept out by it meanwhile.
    Giving { is_in_the_way: bool },
    /// Its client has it.
    Given,
    /// And is asked for it.
    Recalled(Recall),
    /// It is given back below.
    Ending,
    /// It was taken.
    Revoked(Revoked),
}

/// What a stateid names, or will.
#[derive(Debug)]
pub(super) struct State {
    pub(super) tag: u32,
    pub(super) asked: Asked,
    pub(super) keeps: Keeps,
    pub(super) handle: Bytes,
    /// The file's, when it was given.
    pub(super) change: u64,
    look: Look,
    life: Life,
}

impl State {
    pub(super) fn recall(&self) -> Option<&Recall> {
        if let Life::Recalled(recall) = &self.life { Some(recall) } else { None }
    }

    pub(super) fn revoked(&self) -> Option<Revoked> {
        if let Life::Revoked(why) = self.life { Some(why) } else { None }
    }

    /// Whether it is given back, and in nobody's way any more.
    pub(super) fn is_ending(&self) -> bool {
        self.life == Life::Ending
    }

    /// The time that the file has got from its client by a look.
    pub(super) fn noted_modified(&self) -> Option<FileTime> {
        self.look.noted_modified()
    }

    /// Whether its client was told of it.
    fn is_granted(&self) -> bool {
        matches!(self.life, Life::Given | Life::Recalled(_) | Life::Revoked(_))
    }
}

impl Named for State {
    /// Their seqid is always the first.
    fn place(&self) -> Place<'_> {
        let Asked { client, file, .. } = &self.asked;
        let seqid = u32::from(self.is_granted());
        Place { tag: self.tag, client: *client, is_of_minor_0: false, file, revoked: self.revoked(), seqid }
    }
}

/// What a client has.
#[derive(Debug, Default)]
struct Client {
    all: usize,
    revoked: [usize; Revoked::COUNT],
    /// When it was asked last to give back what it does not use.
    asked_for_fewer: Option<Duration>,
}

impl Client {
    fn may_be_asked_for_fewer(&self, now: Duration) -> bool {
        self.asked_for_fewer.is_none_or(|asked| asked + FEWER_EVERY <= now)
    }
}

#[derive(Debug)]
pub(super) struct Shard {
    places: Places<State>,
    clients: HashMap<ClientId, Client>,
    /// What is not revoked.
    by_file: HashMap<(ClientId, FileId), u64>,
    /// All of each client.
    of_client: BTreeSet<(ClientId, u64)>,
    recalled: BTreeSet<(ClientId, u64)>,
    totals: Arc<Totals>,
    lease: Duration,
}

impl Shard {
    pub(super) fn new(number: u32, totals: Arc<Totals>, lease: Duration) -> Self {
        let (clients, by_file, of_client, recalled) = Default::default();
        Self { places: Places::new(number | OF_DELEGATIONS), clients, by_file, of_client, recalled, totals, lease }
    }

    pub(super) fn get(&self, number: u64) -> Option<&State> {
        self.places.get(number)
    }

    /// Table D6.
    pub(super) fn look(&self, seal: &Seal, asked: Stateid, asker: &Asker<'_>) -> Result<u64, Status> {
        self.places.look(seal, asked, asker)
    }

    /// What a client has of a file, or is about to have, and was not revoked.
    pub(super) fn of_file(&self, client: ClientId, file: &FileId) -> Option<u64> {
        self.by_file.get(&(client, *file)).copied()
    }

    /// How many clients have any.
    pub(super) fn count_clients(&self) -> usize {
        self.clients.len()
    }

    /// Who of these clients has most, of those that may be asked for what they do not use.
    pub(super) fn who_has_most(&self, now: Duration) -> Option<(usize, ClientId)> {
        let may_be = self.clients.iter().filter(|(_, known)| known.may_be_asked_for_fewer(now));
        may_be.map(|(client, known)| (known.all, *client)).max()
    }

    /// A client is asked for what it does not use, if it has more than this and was left alone for long enough. How many it may keep.
    pub(super) fn ask_for_fewer(&mut self, client: ClientId, most: usize, now: Duration) -> Option<u32> {
        let known = self.clients.get_mut(&client)?;
        if known.all <= most || !known.may_be_asked_for_fewer(now) {
            return None;
        }
        known.asked_for_fewer = Some(now);
        Some(known.all as u32 / 2)
    }

    /// A place for one that may be given; none where there is no room, and then nothing has changed.
    pub(super) fn begin(&mut self, seal: &Seal, asked: Asked, keeps: Keeps) -> Option<u64> {
        if self.count(asked.client) >= DELEGATIONS_OF_CLIENT_MAX {
            return None;
        }
        self.totals.all.take(1, DELEGATIONS_MAX).then(|| self.add(seal, asked, keeps))
    }

    /// The same for one that is about to be given back, and was told to nobody: also where there is no room, or nobody ever would. Each is held by a worker, so that there are as many
    /// besides as there are of those.
    pub(super) fn begin_orphan(&mut self, seal: &Seal, asked: Asked) -> u64 {
        let _ = self.totals.all.next();
        self.add(seal, asked, Keeps { kind: Delegation::Read, times: false })
    }

    fn add(&mut self, seal: &Seal, asked: Asked, keeps: Keeps) -> u64 {
        self.clients.entry(asked.client).or_default().all += 1;
        let number = self.places.add(|number| {
            let tag = seal.tag(number);
            let life = Life::Giving { is_in_the_way: false };
            State { tag, asked, keeps, handle: Bytes::new(), change: 0, look: Look::default(), life }
        });
        self.by_file.insert((asked.client, asked.file), number);
        self.of_client.insert((asked.client, number));
        number
    }

    /// The file system has given it. False: it cannot be kept, and is given back.
    pub(super) fn grant(&mut self, number: u64, (handle, change): (Bytes, u64), recalled: Option<Duration>) -> bool {
        let Some(state) = self.places.get_mut(number) else { return false };
        if state.life != (Life::Giving { is_in_the_way: false }) {
            state.life = Life::Ending;
            return false;
        }
        (state.handle, state.change, state.life) = (handle, change, Life::Given);
        if let Some(now) = recalled {
            self.begin_recall(number, Recall::told(now, self.lease));
        }
        true
    }

    /// Somebody is kept out by it. Whether its client is to be asked from now on.
    pub(super) fn recall(&mut self, number: u64, now: Duration) -> bool {
        let Some(state) = self.places.get_mut(number) else { return false };
        match &mut state.life {
            Life::Giving { is_in_the_way } => *is_in_the_way = true,
            Life::Given => {
                self.begin_recall(number, Recall::begun(now, self.lease));
                return true;
            }
            Life::Recalled(_) | Life::Ending | Life::Revoked(_) => {}
        }
        false
    }

    fn begin_recall(&mut self, number: u64, recall: Recall) {
        let state = self.places.get_mut(number).expect("it is given");
        state.life = Life::Recalled(recall);
        self.recalled.insert((state.asked.client, number));
        let _ = self.totals.recalled.next();
    }

    /// For who looks at what its client has.
    pub(super) fn look_of(&mut self, number: u64) -> Option<&mut Look> {
        let state = self.places.get_mut(number)?;
        matches!(state.life, Life::Given | Life::Recalled(_)).then_some(&mut state.look)
    }

    /// That of one that is asked for.
    pub(super) fn recall_of(&mut self, number: u64) -> Option<&mut Recall> {
        match &mut self.places.get_mut(number)?.life {
            Life::Recalled(recall) => Some(recall),
            _ => None,
        }
    }

    /// Of those that are asked for, the time to give them back begins when this says so of their mount, if it does.
    pub(super) fn begin_at(&mut self, when: &dyn Fn(&Mounted) -> Option<Duration>) {
        for (_, number) in &self.recalled {
            let Some(state) = self.places.get_mut(*number) else { continue };
            if let (Life::Recalled(recall), Some(at)) = (&mut state.life, when(&state.asked.file.of)) {
                recall.begins_at(at);
            }
        }
    }

    /// Those that are asked for, of one client or of all, of which this is to be done: client by client.
    pub(super) fn due(&self, of: Option<ClientId>, what: Next, now: Duration) -> impl Iterator<Item = (ClientId, u64)> {
        let (first, last) = of.map_or((ClientId(0), ClientId(u64::MAX)), |client| (client, client));
        let is_due = move |(_, number): &(ClientId, u64)| {
            self.get(*number).and_then(State::recall).is_some_and(|recall| recall.next(now) == what)
        };
        self.recalled.range((first, 0)..=(last, u64::MAX)).copied().filter(is_due)
    }

    /// It is about to be given back below.
    pub(super) fn end(&mut self, number: u64) {
        self.forget_recall(number);
        if let Some(state) = self.places.get_mut(number).filter(|state| state.revoked().is_none()) {
            state.life = Life::Ending;
        }
    }

    fn forget_recall(&mut self, number: u64) {
        let Some(client) = self.get(number).map(|state| state.asked.client) else { return };
        if self.recalled.remove(&(client, number)) {
            self.totals.recalled.give(1);
        }
    }

    /// It was taken from its client, who is told so.
    pub(super) fn revoke(&mut self, number: u64, why: Revoked) {
        self.forget_recall(number);
        let Some(state) = self.places.get_mut(number).filter(|state| state.revoked().is_none()) else { return };
        state.life = Life::Revoked(why);
        let Asked { client, file, .. } = state.asked;
        self.by_file.remove(&(client, file));
        self.clients.get_mut(&client).expect("it has this").revoked[why as usize] += 1;
        let _ = self.totals.revoked.next();
    }

    /// What is at the place of a stateid goes.
    pub(super) fn remove_at(&mut self, index: u32) {
        let (number, _) = self.places.at(index).expect("it was looked at");
        self.remove(number);
    }

    /// One goes, if it still is that one.
    pub(super) fn remove(&mut self, number: u64) {
        self.forget_recall(number);
        let Some(state) = self.places.remove(number) else { return };
        let Asked { client, file, .. } = state.asked;
        self.of_client.remove(&(client, number));
        self.totals.all.give(1);
        let known = self.clients.get_mut(&client).expect("it has this");
        known.all -= 1;
        match state.life {
            Life::Revoked(why) => {
                known.revoked[why as usize] -= 1;
                self.totals.revoked.give(1);
            }
            _ => drop(self.by_file.remove(&(client, file))),
        }
        if known.all == 0 {
            self.clients.remove(&client);
        }
    }

    /// All that a client has goes. Gives the files of those that it was not told to have lost.
    pub(super) fn forget(&mut self, client: ClientId) -> Vec<FileId> {
        let all = self.numbers(client);
        let living = all.iter().filter_map(|number| self.get(*number)).filter(|state| state.revoked().is_none());
        let files = living.map(|state| state.asked.file).collect();
        all.into_iter().for_each(|number| self.remove(number));
        files
    }

    fn numbers(&self, client: ClientId) -> Vec<u64> {
        self.of_client.range((client, 0)..=(client, u64::MAX)).map(|(_, number)| *number).collect()
    }

    /// Those of mounts that are over: what was not granted yet goes, and its OPEN will see.
    pub(super) fn revoke_of(&mut self, is_over: &dyn Fn(&Mounted) -> bool) -> Vec<ClientId> {
        let over = self.by_file.iter().filter(|((_, file), _)| is_over(&file.of));
        let over: Vec<_> = over.map(|((client, _), number)| (*client, *number)).collect();
        let told = |(client, number): (ClientId, u64)| match self.get(number)?.is_granted() {
            true => {
                self.revoke(number, Revoked::Admin);
                Some(client)
            }
            false => {
                self.remove(number);
                None
            }
        };
        over.into_iter().filter_map(told).collect()
    }

    pub(super) fn mounts(&self) -> impl Iterator<Item = Mounted> {
        self.by_file.keys().map(|(_, file)| file.of)
    }

    /// What was revoked of a client's and not freed yet, by why.
    pub(super) fn revoked(&self, client: ClientId) -> [usize; Revoked::COUNT] {
        self.clients.get(&client).map_or([0; Revoked::COUNT], |known| known.revoked)
    }

    /// Whether a client has one for writing of such a mount, or may be about to be given one.
    pub(super) fn may_write(&self, client: ClientId, is_there: &dyn Fn(&Mounted) -> bool) -> bool {
        let states = self.of_client.range((client, 0)..=(client, u64::MAX)).filter_map(|(_, number)| self.get(*number));
        let mut living = states.filter(|state| state.revoked().is_none() && is_there(&state.asked.file.of));
        living.any(|state| state.keeps.kind == Delegation::Write || !state.is_granted())
    }

    /// Whether a client has one that is not revoked.
    pub(super) fn holds(&self, client: ClientId) -> bool {
        self.clients.get(&client).is_some_and(|known| known.all > known.revoked.iter().sum())
    }

    /// How many a client has, or is about to have.
    pub(super) fn count(&self, client: ClientId) -> usize {
        self.clients.get(&client).map_or(0, |known| known.all)
    }
}

#[cfg(test)]
impl Shard {
    pub(super) fn count_all(&self) -> usize {
        self.of_client.len()
    }

    pub(super) fn count_recalled(&self) -> usize {
        self.recalled.len()
    }

    pub(super) fn count_revoked(&self) -> usize {
        self.clients.values().map(|known| known.revoked.iter().sum::<usize>()).sum()
    }

    /// G1 to G3.
    pub(super) fn check(&self) {
        let all: Vec<_> = self.places.all().collect();
        assert_eq!(all.len(), self.of_client.len());
        assert_eq!(all.len(), self.clients.values().map(|known| known.all).sum::<usize>());
        let of = |is: &dyn Fn(&State) -> bool| all.iter().filter(|(_, state)| is(state)).count();
        assert_eq!(of(&|state| state.revoked().is_none()), self.by_file.len());
        assert_eq!(of(&|state| state.recall().is_some()), self.recalled.len());
        for (number, state) in &all {
            let Asked { client, file, .. } = state.asked;
            assert!(self.of_client.contains(&(client, *number)));
            assert!(state.revoked().is_some() || self.by_file.get(&(client, file)) == Some(number));
            assert_eq!(state.recall().is_some(), self.recalled.contains(&(client, *number)));
        }
    }
}
