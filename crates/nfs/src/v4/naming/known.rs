//! What the name service has said, and for how long that is believed.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quick_cache::sync::Cache;

use super::asking::Ticket;
use super::{Kind, NameService, is_name};

/// For how long a name is taken for right. Behind that it is told all the same, and asked for beside.
pub(super) const KNOWN_FOR: Duration = Duration::from_secs(600);
/// For how long it is taken for right whose a name is. Behind that nothing is given to it before that is said anew.
pub(super) const ID_KNOWN_FOR: Duration = Duration::from_secs(60);
/// For how long nobody is asked again who has none: an administrator who makes a user does not wait for longer.
pub(super) const NOBODY_FOR: Duration = Duration::from_secs(30);
/// For how long nobody is asked again of whom it could not be said.
pub(super) const FAILED_FOR: Duration = Duration::from_secs(5);
/// Of so many users, and so many groups, in either direction; of more those that are asked for least are asked anew.
pub(super) const KNOWN_MAX: usize = 4096;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Question {
    Name(Kind, u32),
    Id(Kind, Box<str>),
}

/// What comes of asking what is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::v4) enum Found<T> {
    Is(T),
    /// There is none.
    Nobody,
    /// Nobody can say; where it is worth a moment's wait, for this.
    Unknown(Option<Ticket>),
}

#[derive(Clone, Debug)]
enum Said<T> {
    Is(T),
    Nobody,
    Failed,
}

/// What was said.
#[derive(Clone, Debug)]
pub(super) struct Remembered<T> {
    said: Said<T>,
    until: Instant,
    /// It was said since that there is none: a directory that begins anew says so of everybody, so that counts when it is said again.
    is_doubted: bool,
}

impl<T> Remembered<T> {
    /// Whether nobody has to be asked again.
    pub(super) fn is_fresh(&self, now: Instant) -> bool {
        now < self.until
    }
}

/// What that comes to, where this was asked.
pub(super) fn found<T>(remembered: Option<Remembered<T>>, asked: Option<Ticket>) -> Found<T> {
    match remembered.map(|remembered| remembered.said) {
        Some(Said::Is(found)) => Found::Is(found),
        Some(Said::Nobody) => Found::Nobody,
        Some(Said::Failed) => Found::Unknown(None),
        None => Found::Unknown(asked),
    }
}

/// Users first, then groups.
pub(super) struct Known {
    names: [Cache<u32, Remembered<Arc<str>>>; 2],
    ids: [Cache<Box<str>, Remembered<u32>>; 2],
}

impl Default for Known {
    fn default() -> Self {
        let (names, ids) = ([(); 2], [(); 2]);
        Self { names: names.map(|()| Cache::new(KNOWN_MAX)), ids: ids.map(|()| Cache::new(KNOWN_MAX)) }
    }
}

impl Known {
    pub(super) fn name(&self, kind: Kind, id: u32) -> Option<Remembered<Arc<str>>> {
        of(&self.names, kind).get(&id)
    }

    pub(super) fn id(&self, kind: Kind, name: &str) -> Option<Remembered<u32>> {
        of(&self.ids, kind).get(name)
    }

    /// Asks, and remembers what was said as of the time behind that.
    pub(super) fn learn(&self, question: &Question, service: &dyn NameService, now: impl Fn() -> Instant) {
        match question {
            Question::Name(kind, id) => {
                let said = service.name(*kind, *id).map(|name| name.filter(|name| is_name(name)).map(Arc::from));
                remember(of(&self.names, *kind), *id, said, now(), OF_NAMES);
            }
            Question::Id(kind, name) => {
                // The highest number stands for none.
                let said = service.id(*kind, name).map(|id| id.filter(|id| *id != u32::MAX));
                remember(of(&self.ids, *kind), name.clone(), said, now(), OF_IDS);
            }
        }
    }

    /// It could not be said.
    pub(super) fn learn_nothing(&self, question: &Question, now: Instant) {
        let nothing = || io::Error::other("a bug in the name service");
        match question {
            Question::Name(kind, id) => remember(of(&self.names, *kind), *id, Err(nothing()), now, OF_NAMES),
            Question::Id(kind, name) => remember(of(&self.ids, *kind), name.clone(), Err(nothing()), now, OF_IDS),
        }
    }
}

fn of<T>(both: &[T; 2], kind: Kind) -> &T {
    let [users, groups] = both;
    match kind {
        Kind::User => users,
        Kind::Group => groups,
    }
}

/// What is believed of one who is found, and whether an older answer is told where there is no newer one.
#[derive(Clone, Copy)]
struct Belief {
    time: Duration,
    outlives_doubt: bool,
}

const OF_NAMES: Belief = Belief { time: KNOWN_FOR, outlives_doubt: true };
const OF_IDS: Belief = Belief { time: ID_KNOWN_FOR, outlives_doubt: false };

fn remember<K, T>(
    cache: &Cache<K, Remembered<T>>,
    key: K,
    said: io::Result<Option<T>>,
    now: Instant,
    Belief { time, outlives_doubt }: Belief,
) where
    K: std::hash::Hash + Eq + Clone,
    T: Clone,
{
    let before = cache.get(&key).filter(|before| matches!(before.said, Said::Is(_)));
    let was_doubted = before.as_ref().is_none_or(|before| before.is_doubted);
    // Whom it knew it goes on to tell.
    let left = || before.filter(|_| outlives_doubt).map_or(Said::Failed, |before| before.said);
    let (said, time, is_doubted) = match said {
        Ok(Some(found)) => (Said::Is(found), time, false),
        Ok(None) if was_doubted => (Said::Nobody, NOBODY_FOR, false),
        Ok(None) => (left(), FAILED_FOR, true),
        Err(_) => (left(), FAILED_FOR, was_doubted),
    };
    cache.insert(key, Remembered { said, until: now + time, is_doubted });
}
