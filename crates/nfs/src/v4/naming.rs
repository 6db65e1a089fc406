//! Who owners are by name (RFC 7530 §5.9, RFC 8881 §5.9): `alice@example.org`, where it is said what the domain of this machine's users and groups is.
//!
//! ```text
//!  GETATTR, READDIR ─▶ told ─┬─▶ known: at once, also what is old; then it is asked for beside
//!  SETATTR, OPEN, CREATE ─▶ id ┘   not known ─▶ asked, once however many ask ─▶ a queue ─▶ two threads of its own ─▶ the name service
//!                                    │ a moment without a worker, twice in a compound                                │
//!                                    ▼                                                                               │
//!                                  goes on ◀──────────────────────── answered, or the moment is over ◀───────────────┘
//! ```
//!
//! *Nobody waits for the name service but its own threads.* The machine's lists of users may stand on another machine (LDAP), and whoever asks for one may be told nothing for ever. So whoever needs an answer is parked
//! as one is who waits for a delegation, without a worker; then an owner is told as a number, and who sets one comes again (DELAY).
//!
//! *What hangs costs its moment once.* As soon as one answer is later than anybody waits, nobody waits until there is one in time.
//!
//! *Strangers ask nothing.* Names are told and taken of objects of exports alone, under their rules, and who may not set an owner is told so before anybody is asked.

use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use tally_base::Promise;

use super::parking::{Over, Parking};
use super::status::Status;
use asking::Asking;
use known::{Known, Question};

mod asking;
mod known;

pub(super) use asking::Ticket;
pub(super) use known::Found;

/// Threads that ask the name service. Where one of them is told nothing another one may still be.
const THREADS: usize = 2;
/// Longest name of a user or group, bytes: Linux makes none of more than 32, and directories of other systems have a few.
const NAME_BYTES_MAX: usize = 128;

/// Whose a name or a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A user's.
    User,
    /// A group's.
    Group,
}

/// The users and groups of this machine. Whoever asks may wait for as long as a directory of users says nothing.
pub trait NameService: Send + Sync {
    /// The name of who has this number; nothing, where nobody has it.
    ///
    /// # Errors
    ///
    /// It cannot be said for now.
    fn name(&self, kind: Kind, id: u32) -> io::Result<Option<String>>;

    /// The number of who has this name; nothing, where nobody has it.
    ///
    /// # Errors
    ///
    /// It cannot be said for now.
    fn id(&self, kind: Kind, name: &str) -> io::Result<Option<u32>>;
}

/// How owners are told and taken: by numbers alone, or by names of a domain as well.
#[derive(Default)]
pub(super) struct Naming(Option<Named>);

struct Named {
    domain: String,
    desk: Arc<Desk>,
    parking: Parking,
}

/// What is known, and what is being asked.
struct Desk {
    known: Known,
    asking: Asking,
}

/// Whom a client means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meant {
    /// This number.
    Id(u32),
    /// Who is called so in the domain.
    Called(Box<str>),
}

impl Naming {
    /// By names of this domain as well, as this service knows them: it is asked from here on. `parking` is where requests wait.
    ///
    /// # Errors
    ///
    /// A thread cannot be started.
    pub(super) fn of_domain(domain: &str, service: &Arc<dyn NameService>, parking: Parking) -> io::Result<Self> {
        let desk = Arc::new(Desk { known: Known::default(), asking: Asking::default() });
        let named = Named { domain: domain.to_owned(), desk, parking };
        for number in 0..THREADS {
            let (desk, parking, service) = (named.desk.clone(), named.parking.clone(), service.clone());
            let name = format!("names-{number}");
            thread::Builder::new().name(name).spawn(move || desk.answer_all(&*service, &parking))?;
        }
        Ok(Self(Some(named)))
    }

    /// Who is meant, by number or by name. A name that nobody has is nobody's, and what is given to nobody is given away (rules V38).
    ///
    /// # Errors
    ///
    /// `BadOwner` of what is no number and no name of the domain, `Inval` of nothing.
    pub(super) fn meant(&self, said: &[u8]) -> Result<Meant, Status> {
        if said.is_empty() {
            return Err(Status::Inval);
        }
        let said = std::str::from_utf8(said).map_err(|_| Status::BadOwner)?;
        if said.bytes().all(|byte| byte.is_ascii_digit()) {
            // The highest one stands for none.
            return said.parse().ok().filter(|id| *id != u32::MAX).map(Meant::Id).ok_or(Status::BadOwner);
        }
        let named = self.0.as_ref().ok_or(Status::BadOwner)?;
        let (name, domain) = said.rsplit_once('@').ok_or(Status::BadOwner)?;
        let is_one = named.domain.eq_ignore_ascii_case(domain) && is_name(name);
        if is_one { Ok(Meant::Called(name.into())) } else { Err(Status::BadOwner) }
    }

    /// Who has this name of the domain, as of now.
    pub(super) fn id(&self, kind: Kind, name: &str, now: Instant) -> Found<u32> {
        self.0.as_ref().map_or(Found::Nobody, |named| named.desk.id(kind, name, now))
    }

    /// Under which name somebody is known, as of now.
    pub(super) fn name(&self, kind: Kind, id: u32, now: Instant) -> Found<Arc<str>> {
        self.0.as_ref().map_or(Found::Nobody, |named| named.desk.name(kind, id, now))
    }

    /// For who asked: a place to wait in until all that was asked by then is answered, or a moment is over. Nothing, where there is no room.
    pub(super) fn wait_for(&self, asked: Ticket) -> Option<Box<dyn Promise>> {
        let named = self.0.as_ref()?;
        // Before it is asked whether it is open: what is answered from here on is noticed.
        let parked = named.parking.park_for_names(asked)?;
        let is_open = named.desk.asking.is_open(asked, Instant::now());
        Some(if is_open { Box::new(parked) } else { Box::new(Over) })
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        self.desk.asking.end();
    }
}

impl Desk {
    fn name(&self, kind: Kind, id: u32, now: Instant) -> Found<Arc<str>> {
        let look = || self.known.name(kind, id);
        self.found(look, Question::Name(kind, id), now)
    }

    fn id(&self, kind: Kind, name: &str, now: Instant) -> Found<u32> {
        let look = || self.known.id(kind, name);
        self.found(look, Question::Id(kind, name.into()), now)
    }

    /// What is known, and what is asked to know more.
    fn found<T>(&self, look: impl Fn() -> Option<known::Remembered<T>>, question: Question, now: Instant) -> Found<T> {
        let remembered = look();
        let is_known = || look().is_some_and(|remembered| remembered.is_fresh(now));
        if remembered.as_ref().is_some_and(|remembered| remembered.is_fresh(now)) {
            return known::found(remembered, None);
        }
        // Who gives something to a name means who has it now: it may be somebody else's than it was, or was made a moment ago.
        let is_told = matches!(question, Question::Name(..));
        let asked = self.asking.ask(question, now, is_known);
        known::found(remembered.filter(|_| is_told), asked)
    }

    /// The life of a thread that asks.
    fn answer_all(&self, service: &dyn NameService, parking: &Parking) {
        while let Some((question, ticket)) = self.asking.next() {
            // A bug in what is asked costs that question alone.
            let _ = catch_unwind(AssertUnwindSafe(|| self.known.learn(&question, service, Instant::now)))
                .inspect_err(|_| self.known.learn_nothing(&question, Instant::now()));
            let oldest = self.asking.answered(&question, ticket, Instant::now());
            parking.wake_named(oldest);
        }
    }
}

/// Whether somebody may be called so: not as what would be taken for a number, or for a name of another domain.
fn is_name(name: &str) -> bool {
    let is_odd = |c: char| c == '@' || c == char::REPLACEMENT_CHARACTER || c.is_control();
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
    name.len() <= NAME_BYTES_MAX && !is_number && !name.contains(is_odd)
}

/// Tells the owners of one operation, and compares them.
pub(super) struct Teller<'a> {
    naming: &'a Naming,
    asked: Cell<Option<Ticket>>,
    in_doubt: Cell<bool>,
}

impl<'a> Teller<'a> {
    /// Who has told nobody yet.
    pub(super) fn new(naming: &'a Naming) -> Self {
        Self { naming, asked: Cell::new(None), in_doubt: Cell::new(false) }
    }

    /// As a client is told an owner: by its name, or as a number where it has none, or nobody knows it by now.
    pub(super) fn told(&self, kind: Kind, id: u32) -> String {
        let Some(named) = &self.naming.0 else { return id.to_string() };
        match named.desk.name(kind, id, Instant::now()) {
            Found::Is(name) => format!("{name}@{}", named.domain),
            Found::Nobody => id.to_string(),
            Found::Unknown(asked) => {
                self.note(asked);
                id.to_string()
            }
        }
    }

    /// Whether a client means this owner. Where nobody knows it by now it may be, and is in doubt.
    pub(super) fn is(&self, kind: Kind, id: u32, said: &[u8]) -> bool {
        if self.naming.0.is_none() {
            return false;
        }
        let name = match self.naming.meant(said) {
            Ok(Meant::Id(meant)) => return meant == id,
            Ok(Meant::Called(name)) => name,
            Err(_) => return false,
        };
        // Of the owner that there is the name is asked for, and not of whatever name somebody says whose that is.
        match self.naming.name(kind, id, Instant::now()) {
            Found::Is(known) => *known == *name,
            Found::Nobody => false,
            Found::Unknown(asked) => {
                self.note(asked);
                self.in_doubt.set(true);
                true
            }
        }
    }

    fn note(&self, asked: Option<Ticket>) {
        self.asked.set(self.asked.get().max(asked));
    }

    /// What is worth a moment's wait.
    pub(super) fn asked(&self) -> Option<Ticket> {
        self.asked.get()
    }

    /// Whether some owner was taken for another one, as nobody knew.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.in_doubt.get()
    }
}

#[cfg(test)]
mod tests;
