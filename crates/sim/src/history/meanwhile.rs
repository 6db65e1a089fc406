//! While requests run, and groups are synced: names that exist are found, and listings end and are whole.
//!
//! A listing goes on piece by piece, with changes between its pieces. What it must name is told by places. A name
//! stands in a place of its directory; a RENAME within the directory takes its place along, and one that replaces a
//! name leaves that one where it was (rules F21). A place that was there from the beginning to the end is listed
//! exactly once, under whatever name; one that came in the meantime, once or not at all.
//!
//! Inside of a sync's device writes all of this is looked at by the thread that syncs. Beside a syncing thread another
//! one looks names up while requests are carried out: a name that was there before and behind the look, and was never
//! gone in between, was there.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use nfs3_types::nfs3::*;
use parking_lot::Mutex;
use tally_base::ObjectId;
use tally_nfs::service::Step;
use tally_vfs::{Attributes, Cred, Names};

use super::{Checked, State};
use crate::chance::{Chance, Stream};
use crate::client::{Call, Client, bytes_of, handle, name_in, told};
use crate::machine::Server;
use crate::op::{NAMES, Object, Op};

/// Bytes of one answer to a READDIR: so few that a directory takes several.
const PIECE_BYTES: u64 = 200;
/// Pieces beyond one for each name: the end may need one of its own, and so may `.` and `..`.
const PIECES_SPARE: usize = 4;
/// The number of the client that only looks, beside all others.
const LOOKER: u8 = 8;

/// A listing that goes on between requests.
pub(super) struct Listing {
    dir: Object,
    has_attributes: bool,
    cookie: u64,
    pieces: usize,
    /// Which place each name stands in now.
    names: HashMap<Vec<u8>, usize>,
    places: Vec<Place>,
}

/// A place in the directory.
#[derive(Clone, Copy, Default)]
struct Place {
    /// It was there when the listing began.
    is_old: bool,
    is_listed: bool,
}

impl Listing {
    /// The request for its next piece.
    fn call(&self, count: u32) -> Call {
        let (dir, cookie, cookieverf) = (handle(&self.dir.handle), self.cookie, cookieverf3::default());
        if self.has_attributes {
            // An entry with attributes and a handle takes some 200 bytes.
            let arguments = READDIRPLUS3args { dir, cookie, cookieverf, dircount: count, maxcount: 3 * count };
            return Call::new(NFS_PROGRAM::NFSPROC3_READDIRPLUS, &arguments);
        }
        Call::new(NFS_PROGRAM::NFSPROC3_READDIR, &READDIR3args { dir, cookie, cookieverf, count })
    }

    /// An operation was carried out, and has changed something.
    fn follow(&mut self, op: &Op) {
        let is_here = |dir: &Object| dir.dataset == self.dir.dataset && dir.model == self.dir.model;
        let place = match op {
            Op::Remove { dir, name } | Op::Rmdir { dir, name } if is_here(dir) => {
                self.names.remove(name.as_bytes());
                return;
            }
            Op::Rename { from_dir, from, to_dir, .. } => {
                let place = if is_here(from_dir) { self.names.remove(from.as_bytes()) } else { None };
                if !is_here(to_dir) {
                    return;
                }
                place.filter(|_| is_here(from_dir))
            }
            _ if op.names().iter().any(|(dir, _)| is_here(dir)) => None,
            _ => return,
        };
        let Some((_, name)) = op.names().last().copied() else { return };
        if !self.names.contains_key(name.as_bytes()) {
            let place = place.unwrap_or_else(|| {
                self.places.push(Place::default());
                self.places.len() - 1
            });
            self.names.insert(name.as_bytes().to_vec(), place);
        }
    }

    /// A piece of the listing names these.
    fn take(&mut self, entries: &[(Vec<u8>, u64)]) -> Checked<()> {
        for (name, cookie) in entries {
            if *cookie <= self.cookie {
                return Err(format!("cookie {cookie} behind {}", self.cookie));
            }
            self.cookie = *cookie;
            if matches!(&name[..], b"." | b"..") {
                continue;
            }
            let shown = String::from_utf8_lossy(name);
            let place = self.names.get(name).ok_or_else(|| format!("{shown}, which is not there"))?;
            if std::mem::replace(&mut self.places[*place].is_listed, true) {
                return Err(format!("{shown}, which it has named before"));
            }
        }
        Ok(())
    }

    /// It has come to its end: nothing that stayed is missing.
    fn check_whole(&self) -> Checked<()> {
        let missing = |place: &usize| self.places[*place].is_old && !self.places[*place].is_listed;
        match self.names.iter().find(|(_, place)| missing(place)) {
            None => Ok(()),
            Some((name, _)) => Err(format!("everything but {}, which stayed", String::from_utf8_lossy(name))),
        }
    }
}

/// What is being looked at meanwhile.
#[derive(Default)]
pub(super) struct Meanwhile {
    listing: Option<Listing>,
    /// How often each name was taken away from its directory.
    gone: HashMap<Name, u64>,
}

/// A name, by its dataset and directory.
type Name = (usize, ObjectId, &'static str);

impl Meanwhile {
    /// An operation was carried out, and has changed something.
    pub(super) fn follow(&mut self, op: &Op) {
        if let Some(listing) = &mut self.listing {
            listing.follow(op);
        }
        if let Op::Remove { dir, name } | Op::Rmdir { dir, name } | Op::Rename { from_dir: dir, from: name, .. } = op {
            *self.gone.entry((dir.dataset, dir.model.id, name)).or_default() += 1;
        }
    }

    /// Nothing of it goes on: another life begins, or a dataset has gone.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }
}

impl State {
    /// Looks at something while everything is under way.
    pub(super) fn meanwhile(&mut self, chance: &mut Chance) -> Checked<()> {
        if self.is_in_trouble() || self.rotten.is_some() {
            self.meanwhile.end();
            return Ok(());
        }
        self.list_on(chance)?;
        if chance.one_in(2) { self.look_all_up(chance) } else { Ok(()) }
    }

    /// Every name of a directory that exists is found, and no other.
    fn look_all_up(&mut self, chance: &mut Chance) -> Checked<()> {
        let part = self.some_part(chance);
        let dir = self.directory(chance, part);
        for name in NAMES {
            self.look_up_in(&dir, name)?;
        }
        Ok(())
    }

    /// The next piece of the listing, or the first one of another.
    fn list_on(&mut self, chance: &mut Chance) -> Checked<()> {
        let goes_on = self.meanwhile.listing.take();
        let Some(mut listing) = goes_on.or_else(|| self.begin_listing(chance)) else { return Ok(()) };
        let model = &self.parts[listing.dir.dataset].oracle.live;
        if !self.parts[listing.dir.dataset].is_there || model.getattr(listing.dir.model).is_err() {
            return Ok(());
        }
        let told = self.read_told(&listing.call(PIECE_BYTES as u32 + 8 * chance.below(40) as u32))?;
        if self.is_off() {
            return Ok(());
        }
        let dir = Arc::clone(&listing.dir);
        if told.status != nfsstat3::NFS3_OK {
            return Err(format!("a listing of {dir:?} ends with {}", told.status));
        }
        self.totals.pieces_listed += 1;
        listing.pieces += 1;
        let fault = |what: String| format!("a listing of {dir:?}, piece by piece, names {what}");
        listing.take(&told.entries).map_err(fault)?;
        if told.eof {
            return listing.check_whole().map_err(fault);
        }
        if told.entries.is_empty() || listing.pieces > listing.places.len() + PIECES_SPARE {
            return Err(format!("a listing of {dir:?} comes to no end"));
        }
        self.meanwhile.listing = Some(listing);
        Ok(())
    }

    fn begin_listing(&self, chance: &mut Chance) -> Option<Listing> {
        let part = self.some_part(chance);
        let dir = self.directory(chance, part);
        let model = &self.parts[dir.dataset].oracle.live;
        let listed = model.readdir(&Cred::root(), dir.model, 0, usize::MAX, false).ok()?;
        let names = listed.entries.into_iter().map(|entry| entry.name.to_vec());
        let names: HashMap<_, _> = names.filter(|name| !matches!(&name[..], b"." | b"..")).zip(0..).collect();
        let places = vec![Place { is_old: true, is_listed: false }; names.len()];
        Some(Listing { dir, has_attributes: chance.one_in(2), cookie: 0, pieces: 0, names, places })
    }
}

// ---- beside a thread that syncs ----

/// What a look must find: a name that is there now.
struct Wanted {
    dir: Object,
    name: &'static str,
    gone: u64,
}

impl State {
    /// A name that is there, if chance hits one.
    fn wanted(&self, chance: &mut Chance) -> Option<Wanted> {
        let part = self.some_part(chance);
        let (dir, name) = (self.directory(chance, part), chance.pick(&NAMES));
        let model = &self.parts[dir.dataset].oracle.live;
        model.lookup(&Cred::root(), dir.model, name.as_bytes()).ok()?;
        let gone = self.gone(&dir, name);
        Some(Wanted { dir, name, gone })
    }

    fn gone(&self, dir: &Object, name: &'static str) -> u64 {
        self.meanwhile.gone.get(&(dir.dataset, dir.model.id, name)).copied().unwrap_or(0)
    }

    /// Whether a look that gave this has missed a name that was there all the time.
    fn check_look(&mut self, wanted: &Wanted, status: nfsstat3) -> Checked<()> {
        self.totals.looks_beside += 1;
        let was_there = self.gone(&wanted.dir, wanted.name) == wanted.gone && !self.is_in_trouble();
        if was_there && status != nfsstat3::NFS3_OK {
            return Err(format!("LOOKUP of {} in {:?} beside changes gives {status}", wanted.name, wanted.dir));
        }
        Ok(())
    }
}

/// Looks names up until everything else is over.
pub(super) fn look_beside(state: &Mutex<State>, server: &Server, is_over: &AtomicBool) -> Checked<()> {
    let mut chance = {
        let state = state.lock();
        Chance::of(state.plan.seed, Stream::Beside, state.totals.lives)
    };
    let mut client = Client::new(LOOKER, 0, chance.next() as u32);
    while !is_over.load(Ordering::Relaxed) {
        let wanted = state.lock().wanted(&mut chance);
        let Some(wanted) = wanted else {
            std::thread::yield_now();
            continue;
        };
        let arguments = LOOKUP3args { what: name_in(&wanted.dir.handle, wanted.name) };
        let call = Call::new(NFS_PROGRAM::NFSPROC3_LOOKUP, &arguments);
        let record = client.record(&call);
        let opened = server.service.open(record, client.link(), Instant::now());
        let mut job = opened.map_err(|refusal| format!("LOOKUP is refused: {refusal:?}"))?;
        let Step::Reply(reply) = server.service.run(&mut job) else { return Err("LOOKUP waits".into()) };
        server.service.finish(&mut job, &reply);
        let told = told(call.procedure, &bytes_of(&reply))?;
        state.lock().check_look(&wanted, told.status)?;
    }
    Ok(())
}
