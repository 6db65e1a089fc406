//! Of which datasets a client has something for writing: flags beside its entry in the list (rules V23 and V27).
//!
//! Each is a link of its own in the folder, so that it comes and goes as clients do, by one change, in one order with them:
//!
//! ```text
//!  1-<32 digits>                        a client
//!  1-<32 digits>+<16 digits>            it may have a Write in the dataset of that number
//!  1-<32 digits>+all                    in any: it had sixteen of these when it came to one more
//! ```
//!
//! Who does not know them passes over them, as over any name that is no client's. A flag without its client says nothing: it was left there when its client went, and goes with
//! the first change of the list.
//!
//! *It is there before* the first Write of its dataset is answered, and goes when there was none for a [`IDLE`]: clients write a file now and then, and two changes of the folder for each would be
//! felt.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use tally_base::DatasetId;

use crate::v4::state::{ClientId, ClientKey};

/// Most datasets of a client, by number.
const DATASETS_MAX: usize = 16;
/// For so long a flag stays of which there is nothing.
const IDLE: Duration = Duration::from_secs(60);

/// Where a client may have something for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::v4) enum Where {
    /// In a dataset of the pool.
    In(DatasetId),
    /// In any.
    Anywhere,
}

/// That one client may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Flag {
    pub(super) key: ClientKey,
    pub(super) place: Where,
}

impl Flag {
    /// From what [`fmt::Display`] makes of one.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let at = text.iter().position(|byte| *byte == b'+')?;
        let (key, digits) = (ClientKey::parse(&text[..at])?, &text[at + 1..]);
        if digits == b"all" {
            return Some(Self { key, place: Where::Anywhere });
        }
        let is_hex = digits.len() == 16 && digits.iter().all(u8::is_ascii_hexdigit);
        let number = u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok().filter(|_| is_hex)?;
        Some(Self { key, place: Where::In(DatasetId(number)) })
    }
}

impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Where::In(dataset) => write!(f, "{}+{:016x}", self.key, dataset.0),
            Where::Anywhere => write!(f, "{}+all", self.key),
        }
    }
}

/// When a flag was last asked for, and by whom in this start of the server.
#[derive(Clone, Copy, Debug)]
struct Used {
    client: Option<ClientId>,
    last: Duration,
}

/// Those of one pool.
#[derive(Debug, Default)]
pub(super) struct Writes {
    flags: BTreeMap<Flag, Used>,
}

impl Writes {
    /// As they were read then.
    pub(super) fn new(flags: impl Iterator<Item = Flag>, now: Duration) -> Self {
        Self { flags: flags.map(|flag| (flag, Used { client: None, last: now })).collect() }
    }

    /// The one by which a client may have something for writing in a dataset.
    fn of(&self, key: ClientKey, dataset: DatasetId) -> Option<Flag> {
        let flags = [Where::In(dataset), Where::Anywhere].map(|place| Flag { key, place });
        flags.into_iter().find(|flag| self.flags.contains_key(flag))
    }

    pub(super) fn has(&self, key: ClientKey, dataset: DatasetId) -> bool {
        self.of(key, dataset).is_some()
    }

    pub(super) fn has_any(&self, key: ClientKey) -> bool {
        self.of_client(key).next().is_some()
    }

    /// A client is about to be given something for writing there: whether there is a flag.
    pub(super) fn use_of(&mut self, (key, client): (ClientKey, ClientId), dataset: DatasetId, now: Duration) -> bool {
        let Some(flag) = self.of(key, dataset) else { return false };
        self.flags.insert(flag, Used { client: Some(client), last: now });
        true
    }

    /// The one that is to be there.
    pub(super) fn add(&mut self, (key, client): (ClientKey, ClientId), dataset: DatasetId, now: Duration) -> Flag {
        let is_one_too_many = self.of_client(key).count() >= DATASETS_MAX;
        let flag = Flag { key, place: if is_one_too_many { Where::Anywhere } else { Where::In(dataset) } };
        self.flags.insert(flag, Used { client: Some(client), last: now });
        flag
    }

    /// Those that were there before.
    pub(super) fn add_again(&mut self, flags: &[Flag], client: ClientId, now: Duration) {
        self.flags.extend(flags.iter().map(|flag| (*flag, Used { client: Some(client), last: now })));
    }

    pub(super) fn remove(&mut self, flag: Flag) {
        self.flags.remove(&flag);
    }

    fn of_client(&self, key: ClientKey) -> impl Iterator<Item = Flag> {
        let first = Flag { key, place: Where::In(DatasetId(0)) };
        self.flags.range(first..=Flag { key, place: Where::Anywhere }).map(|(flag, _)| *flag)
    }

    /// A client goes: what was there of it.
    pub(super) fn forget(&mut self, key: ClientKey) -> Vec<Flag> {
        let flags: Vec<_> = self.of_client(key).collect();
        flags.iter().for_each(|flag| self.remove(*flag));
        flags
    }

    /// Those that nobody has asked for for long enough, and whose they are.
    pub(super) fn idle(&self, now: Duration) -> impl Iterator<Item = (Flag, Option<ClientId>)> {
        let idle = self.flags.iter().filter(move |(_, used)| used.last + IDLE <= now);
        idle.map(|(flag, used)| (*flag, used.client))
    }

    /// There is something of one.
    pub(super) fn is_held(&mut self, flag: Flag, now: Duration) {
        if let Some(used) = self.flags.get_mut(&flag) {
            used.last = now;
        }
    }

    /// There is nothing of one: whether it goes, as nobody has asked for it meanwhile.
    pub(super) fn remove_idle(&mut self, flag: Flag, now: Duration) -> bool {
        let is_idle = self.flags.get(&flag).is_some_and(|used| used.last + IDLE <= now);
        if is_idle {
            self.remove(flag);
        }
        is_idle
    }

    /// All.
    pub(super) fn into_flags(self) -> impl Iterator<Item = Flag> {
        self.flags.into_keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ClientKey = ClientKey::of_sessions_for_tests(1);
    const B: ClientKey = ClientKey::of_sessions_for_tests(2);
    const CLIENT: ClientId = ClientId(7);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_flag_is_its_name_and_nothing_else_is() {
        for place in [Where::In(DatasetId(0)), Where::In(DatasetId(u64::MAX)), Where::Anywhere] {
            let (flag, name) = (Flag { key: A, place }, Flag { key: A, place }.to_string());
            assert_eq!(Flag::parse(name.as_bytes()), Some(flag), "{name}");
            assert_eq!(ClientKey::parse(name.as_bytes()), None, "who does not know it passes over it");
        }
        let key = A.to_string();
        for other in ["", "+", "all", "+all", "+0000000000000001"] {
            assert_eq!(Flag::parse(other.as_bytes()), None, "{other}");
        }
        for rest in ["", "+", "+1", "+00000000000000001", "+000000000000000g", "++00000000000000a", "+ALL"] {
            assert_eq!(Flag::parse(format!("{key}{rest}").as_bytes()), None, "{rest}");
        }
    }

    #[test]
    fn past_sixteen_datasets_it_is_all() {
        let mut writes = Writes::default();
        for dataset in 1..=16 {
            assert_eq!(writes.add((A, CLIENT), DatasetId(dataset), at(0)).place, Where::In(DatasetId(dataset)));
        }
        assert!(!writes.has(A, DatasetId(17)) && !writes.has(B, DatasetId(1)));
        assert_eq!(writes.add((A, CLIENT), DatasetId(17), at(0)).place, Where::Anywhere);
        assert!(writes.has(A, DatasetId(17)) && writes.has(A, DatasetId(99)) && !writes.has(B, DatasetId(99)));
        assert_eq!(writes.forget(A).len(), 17);
        assert!(!writes.has(A, DatasetId(1)));
    }

    #[test]
    fn it_goes_a_minute_after_the_last_that_there_was() {
        let mut writes = Writes::new([Flag { key: B, place: Where::In(DatasetId(1)) }].into_iter(), at(0));
        writes.add((A, CLIENT), DatasetId(1), at(0));
        assert!(writes.use_of((A, CLIENT), DatasetId(1), at(50)) && !writes.use_of((A, CLIENT), DatasetId(2), at(50)));
        let idle = |writes: &mut Writes, now, holds: bool| -> Vec<_> {
            let idle: Vec<_> = writes.idle(at(now)).collect();
            let (held, idle): (Vec<_>, Vec<_>) = idle.into_iter().partition(|(_, client)| holds && client.is_some());
            held.iter().for_each(|(flag, _)| writes.is_held(*flag, at(now)));
            let gone = idle.iter().filter(|(flag, _)| writes.remove_idle(*flag, at(now)));
            gone.map(|(flag, _)| flag.key).collect()
        };
        assert_eq!(idle(&mut writes, 59, false), []);
        assert_eq!(idle(&mut writes, 60, true), [B], "nobody has said since the restart that he is that one");
        assert_eq!(idle(&mut writes, 109, false), []);
        assert_eq!(idle(&mut writes, 110, true), []);
        assert_eq!(idle(&mut writes, 169, false), []);
        assert_eq!(idle(&mut writes, 170, false), [A]);
    }
}
