//! Random operations of a few clients on a few objects of a few bytes, against a model that keeps a list of all opens that were made, and who has locked each byte.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::tests::holder;
use super::*;
use crate::account::Count;
use crate::delegation::{Act, Delegation};
use crate::ranges::Kind;
use crate::refused::Claim;
use crate::share::Deny;

/// The model knows the first bytes, the last ones of all, and those between as if they were one.
const EDGE: u64 = 12;
const BYTES: u64 = 2 * EDGE + 1;

/// Which bytes of an object a byte of the model is.
fn real(byte: u64) -> (u64, u64) {
    match byte {
        0..EDGE => (byte, byte),
        EDGE => (EDGE, u64::MAX - EDGE),
        _ => (u64::MAX - (BYTES - 1 - byte), u64::MAX - (BYTES - 1 - byte)),
    }
}

#[derive(Default)]
struct Model {
    /// Opens as they came, with access and deny.
    opens: Vec<(u64, Holder, u32, u32)>,
    /// Who has locked a byte, and whether for writing.
    bytes: BTreeMap<(u64, Holder, u64), bool>,
    /// Below which open an owner began.
    below: HashMap<(u64, Holder), Option<Holder>>,
    removed: HashSet<u64>,
    /// What was given to whom, of which object: whether it is the Write.
    given: BTreeMap<(u64, u64), bool>,
}

/// A row of numbers that a seed gives.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn holder(&mut self) -> Holder {
        holder(self.below(3), self.below(3))
    }

    fn share(&mut self) -> (u32, u32) {
        // Most deny nothing, or nothing would be open beside anything.
        let deny = if self.below(3) == 0 { self.below(4) } else { 0 };
        (self.below(3) as u32 + 1, deny as u32)
    }
}

fn share_of((access, deny): (u32, u32)) -> Share {
    Share { access: Access::from_bits(access).unwrap(), deny: Deny::from_bits(deny).unwrap() }
}

impl Model {
    fn step(&mut self, claims: &Claims, dice: &mut Dice) {
        let (object, who) = (dice.below(3), dice.holder());
        match dice.below(28) {
            0..5 => self.open(claims, object, who, dice.share()),
            5..7 => self.downgrade(claims, object, who, dice.share()),
            7..9 => self.close(claims, object, who),
            9..15 => self.lock(claims, object, who, dice),
            15..20 => self.unlock(claims, object, who, dice),
            20 => self.remove(claims, object),
            21 if dice.below(3) == 0 => self.release(claims, Some(who), who.client),
            22 if dice.below(4) == 0 => self.release(claims, None, who.client),
            24..27 => self.delegate(claims, object, who, dice.below(2) == 0),
            27 => self.give_back(claims, object, who.client),
            _ => self.ask(claims, object, who, dice),
        }
        self.compare(claims);
    }

    fn union(&self, object: u64, who: Holder) -> (u32, u32) {
        let own = self.opens.iter().filter(|open| (open.0, open.1) == (object, who));
        own.fold((0, 0), |union, open| (union.0 | open.2, union.1 | open.3))
    }

    fn is_open(&self, object: u64) -> bool {
        self.opens.iter().any(|open| open.0 == object)
    }

    /// Whether another's opens, one by one, are in the way.
    fn is_denied(&self, object: u64, who: Option<Holder>, (access, deny): (u32, u32)) -> bool {
        let others = self.opens.iter().filter(|open| open.0 == object && Some(open.1) != who);
        others.into_iter().any(|open| open.3 & access != 0 || open.2 & deny != 0)
    }

    /// Whether what another client was given is in the way of whoever changes something, or reads.
    fn is_given_to_another(&self, object: u64, client: Option<u64>, changes: bool) -> bool {
        let mut others = self.given.iter().filter(|((of, whose), _)| *of == object && Some(*whose) != client);
        others.any(|(_, is_write)| *is_write || changes)
    }

    fn delegate(&mut self, claims: &Claims, object: u64, who: Holder, is_write: bool) {
        let client = who.client;
        let of = |held: &&(u64, u64)| held.0 == object;
        let others_open: Vec<_> = self.opens.iter().filter(|open| open.0 == object && open.1 != who).collect();
        let mut others_bytes = self.bytes.keys().filter(|key| key.0 == object && key.1.client != client);
        let has_one = self.given.contains_key(&(object, client.0));
        let may = match is_write {
            true => self.given.keys().find(of).is_none() && others_open.is_empty() && others_bytes.next().is_none(),
            false => {
                let is_written = others_open.iter().any(|open| open.2 & 2 != 0 || open.3 & 1 != 0);
                let mut is_locked = self
                    .bytes
                    .iter()
                    .filter(|(key, _)| key.0 == object && key.1.client != client)
                    .map(|(_, kind)| *kind);
                !is_written
                    && !is_locked.any(|is_write| is_write)
                    && !self.given.iter().any(|(held, is_write)| of(&held) && *is_write)
            }
        };
        let may = may && !has_one && !self.removed.contains(&object);
        let wanted = if is_write { Delegation::Write } else { Delegation::Read };
        assert_eq!(claims.delegate(ObjectId(object), who, wanted), Ok(may));
        if may {
            self.given.insert((object, client.0), is_write);
        }
    }

    fn give_back(&mut self, claims: &Claims, object: u64, client: ClientNumber) {
        let was_given = self.given.remove(&(object, client.0)).is_some();
        assert_eq!(claims.give_back(ObjectId(object), client), was_given);
    }

    /// What was refused for a conflict was so for one that is there.
    fn agrees(&self, told: Result<(), Refused>, object: u64, who: Option<Holder>, asked: (u32, u32)) -> bool {
        let is_denied = self.is_denied(object, who, asked);
        if let Err(refused) = told {
            let Refused::Conflict { with: Claim::Open { holder, share } } = refused else { panic!("{refused:?}") };
            assert_ne!(Some(holder), who);
            let union = self.union(object, holder);
            assert_eq!((share.access.bits(), share.deny.bits()), union);
            assert!(union.1 & asked.0 != 0 || union.0 & asked.1 != 0);
        }
        assert_eq!(told.is_err(), is_denied);
        told.is_ok()
    }

    fn open(&mut self, claims: &Claims, object: u64, who: Holder, asked: (u32, u32)) {
        let told = claims.open(ObjectId(object), who, share_of(asked));
        let changes = asked.0 & 2 != 0 || asked.1 != 0;
        let is_kept = self.is_given_to_another(object, Some(who.client.0), changes);
        if is_kept && !self.is_denied(object, Some(who), asked) {
            let Err(Refused::Conflict { with: Claim::Delegation { client, kind } }) = told else { panic!("{told:?}") };
            assert!(client != who.client && self.given[&(object, client.0)] == (kind == Delegation::Write));
            return;
        }
        if self.agrees(told, object, Some(who), asked) {
            self.opens.push((object, who, asked.0, asked.1));
        }
    }

    fn downgrade(&mut self, claims: &Claims, object: u64, who: Holder, to: (u32, u32)) {
        let told = claims.downgrade(ObjectId(object), who, share_of(to));
        let own: Vec<_> = self.opens.iter().filter(|open| (open.0, open.1) == (object, who)).copied().collect();
        // Every set of opens that were made, by the text of the RFC.
        let kinds: Vec<_> = own.iter().map(|open| (open.2, open.3)).collect::<HashSet<_>>().into_iter().collect();
        let unions = (1..1u32 << kinds.len()).map(|set| {
            let chosen = kinds.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1);
            chosen.fold((0, 0), |union, (_, kind)| (union.0 | kind.0, union.1 | kind.1))
        });
        let expected = match (own.is_empty(), unions.into_iter().any(|union| union == to)) {
            (true, _) => Err(Refused::NotOpened),
            (_, true) => Ok(()),
            (_, false) => Err(Refused::Invalid),
        };
        assert_eq!(told, expected);
        let stays = |open: &(u64, Holder, u32, u32)| open.2 & !to.0 == 0 && open.3 & !to.1 == 0;
        self.opens.retain(|open| told.is_err() || (open.0, open.1) != (object, who) || stays(open));
    }

    fn close(&mut self, claims: &Claims, object: u64, who: Holder) {
        let was_open = self.union(object, who).0 != 0;
        self.opens.retain(|open| (open.0, open.1) != (object, who));
        self.free(|of, _, below| was_open && of == object && below == Some(who));
        let expected = match (was_open, self.is_open(object), self.removed.contains(&object)) {
            (false, ..) => Closed::NotOpen,
            (_, true, _) => Closed::OthersHaveIt,
            (_, _, true) => Closed::LastOfRemoved,
            (_, _, false) => Closed::Last,
        };
        assert_eq!(claims.close(ObjectId(object), who), expected);
        self.forget_free();
    }

    fn free(&mut self, goes: impl Fn(u64, Holder, Option<Holder>) -> bool) {
        let below = &self.below;
        self.bytes.retain(|&(object, owner, _), _| !goes(object, owner, below[&(object, owner)]));
        self.below.retain(|(object, owner), below| !goes(*object, *owner, *below));
    }

    /// Removed objects that nobody has open are gone with all that is claimed of them.
    fn forget_free(&mut self) -> Vec<u64> {
        let mut free: Vec<_> = self.removed.iter().copied().filter(|&object| !self.is_open(object)).collect();
        free.sort_unstable();
        self.free(|object, _, _| free.contains(&object));
        self.given.retain(|(object, _), _| !free.contains(object));
        self.removed.retain(|object| !free.contains(object));
        free
    }

    fn remove(&mut self, claims: &Claims, object: u64) {
        self.removed.insert(object);
        assert_eq!(claims.note_removed(ObjectId(object)), self.is_open(object));
        self.forget_free();
    }

    fn release(&mut self, claims: &Claims, owner: Option<Holder>, client: ClientNumber) {
        let goes = |holder: Holder| owner.map_or(holder.client == client, |owner| holder == owner);
        let told = owner.map_or_else(|| claims.release_client(client), |owner| claims.release_owner(owner));
        self.opens.retain(|open| !goes(open.1));
        self.given.retain(|(_, whose), _| owner.is_some() || *whose != client.0);
        self.free(|_, owner, below| goes(owner) || below.is_some_and(goes));
        assert_eq!(told, self.forget_free().into_iter().map(ObjectId).collect::<Vec<_>>());
    }

    /// A range that the model can have: both of its ends are bytes that it knows.
    fn range(dice: &mut Dice) -> (Range, std::ops::RangeInclusive<u64>) {
        let ends = (dice.below(BYTES), dice.below(BYTES));
        let (first, last) = (ends.0.min(ends.1), ends.0.max(ends.1));
        (Range::between(real(first).0, real(last).1).unwrap(), first..=last)
    }

    /// Whether others have locked one of these bytes so that it is in the way, and whether what was told is so.
    fn agrees_on_lock(&self, told: Result<(), Refused>, object: u64, wanted: Lock, bytes: &[u64]) -> bool {
        let is_write = wanted.kind == Kind::Write;
        let conflicts = |&(&(of, owner, byte), &other): &(&(u64, Holder, u64), &bool)| {
            of == object && owner != wanted.holder && bytes.contains(&byte) && (is_write || other)
        };
        assert_eq!(told.is_err(), self.bytes.iter().any(|it| conflicts(&it)));
        if let Err(refused) = told {
            let Refused::Conflict { with: Claim::Lock(held) } = refused else { panic!("{refused:?}") };
            let known = self.ranges_of(object, held.holder);
            assert!(known.contains(&(held.range.first(), held.range.last(), held.kind == Kind::Write)));
            assert!(held.range.first() <= wanted.range.last() && wanted.range.first() <= held.range.last());
            assert!(held.holder != wanted.holder && (is_write || held.kind == Kind::Write));
        }
        told.is_ok()
    }

    /// Bytes in a row that are locked alike: what of the model are the ranges of the table.
    fn ranges_of(&self, object: u64, owner: Holder) -> Vec<(u64, u64, bool)> {
        let mut ranges: Vec<(u64, u64, bool)> = Vec::new();
        for (&(.., byte), &is_write) in self.bytes.range((object, owner, 0)..=(object, owner, BYTES)) {
            let (first, last) = real(byte);
            match ranges.last_mut() {
                Some(before) if before.1.checked_add(1) == Some(first) && before.2 == is_write => before.1 = last,
                _ => ranges.push((first, last, is_write)),
            }
        }
        ranges
    }

    fn lock(&mut self, claims: &Claims, object: u64, who: Holder, dice: &mut Dice) {
        let (range, bytes) = Self::range(dice);
        let kind = if dice.below(3) == 0 { Kind::Write } else { Kind::Read };
        let below = (dice.below(3) > 0).then(|| dice.holder());
        let wanted = Lock { holder: who, range, kind };
        let told = claims.lock(ObjectId(object), below, wanted);
        if below.is_some_and(|open| self.union(object, open).0 == 0) {
            return assert_eq!(told, Err(Refused::NotOpened));
        }
        if let Err(Refused::Conflict { with: Claim::Delegation { .. } }) = told {
            assert!(self.is_given_to_another(object, Some(who.client.0), kind == Kind::Write));
            return;
        }
        if self.agrees_on_lock(told, object, wanted, &bytes.clone().collect::<Vec<_>>()) {
            assert!(!self.is_given_to_another(object, Some(who.client.0), kind == Kind::Write));
            self.bytes.extend(bytes.map(|byte| ((object, who, byte), kind == Kind::Write)));
            self.below.entry((object, who)).or_insert(below);
        }
    }

    fn unlock(&mut self, claims: &Claims, object: u64, who: Holder, dice: &mut Dice) {
        let (range, bytes) = Self::range(dice);
        assert_eq!(claims.unlock(ObjectId(object), who, range), Ok(()));
        self.bytes.retain(|&(of, owner, byte), _| (of, owner) != (object, who) || !bytes.contains(&byte));
        let bytes = &self.bytes;
        self.below.retain(|&(of, owner), _| bytes.keys().any(|byte| (byte.0, byte.1) == (of, owner)));
    }

    fn ask(&self, claims: &Claims, object: u64, who: Holder, dice: &mut Dice) {
        let id = ObjectId(object);
        for who in [Some(who), None] {
            self.agrees(claims.may_read(id, who), object, who, (1, 0));
            self.agrees(claims.may_write(id, who), object, who, (2, 0));
            let asked = (1 + dice.below(3) as u32, dice.below(4) as u32);
            let others = self.opens.iter().filter(|open| open.0 == object && Some(open.1) != who);
            let in_the_way = others.filter(|open| open.3 & asked.0 != 0 || open.2 & asked.1 != 0);
            let clients: std::collections::BTreeSet<_> = in_the_way.map(|open| open.1.client).collect();
            assert_eq!(claims.in_the_way(id, who, share_of(asked)), clients.into_iter().collect::<Vec<_>>());
        }
        for (client, act) in [(Some(who.client), Act::Reads), (Some(who.client), Act::Changes), (None, Act::Changes)] {
            let is_kept = self.is_given_to_another(object, client.map(|client| client.0), act == Act::Changes);
            assert_eq!(claims.gate(id, client, act).is_err(), is_kept);
            assert_eq!(claims.gate(id, client, Act::Looks), Ok(()));
        }
        let (range, bytes) = Self::range(dice);
        let kind = if dice.below(2) == 0 { Kind::Write } else { Kind::Read };
        let wanted = Lock { holder: who, range, kind };
        let told = claims.test(id, wanted);
        if let Err(Refused::Conflict { with: Claim::Delegation { .. } }) = told {
            assert!(self.is_given_to_another(object, Some(who.client.0), kind == Kind::Write));
        } else {
            self.agrees_on_lock(told, object, wanted, &bytes.collect::<Vec<_>>());
        }
        // Byte by byte, by somebody in whose way everything is.
        let is_kept = self.is_given_to_another(object, None, true);
        for byte in 0..if is_kept { 0 } else { BYTES } {
            let range = Range::between(real(byte).0, real(byte).1).unwrap();
            let wanted = Lock { holder: holder(9, 9), range, kind: Kind::Write };
            self.agrees_on_lock(claims.test(id, wanted), object, wanted, &[byte]);
        }
    }

    fn compare(&self, claims: &Claims) {
        claims.check();
        let mut opens = [0; 3];
        let mut ranges = [0; 3];
        for (object, who) in (0..3).flat_map(|object| (0..9).map(move |at| (object, holder(at / 3, at % 3)))) {
            let union = self.union(object, who);
            let share = claims.share_of(ObjectId(object), who);
            assert_eq!(share.map_or((0, 0), |share| (share.access.bits(), share.deny.bits())), union);
            opens[who.client.0 as usize] += usize::from(union.0 != 0);
            let held = self.ranges_of(object, who);
            assert_eq!(claims.has_ranges(ObjectId(object), who), !held.is_empty());
            ranges[who.client.0 as usize] += held.len();
            let is_claimed = union.0 != 0 || !held.is_empty();
            assert_eq!(claims.holdings.of_owner(who).contains(&ObjectId(object)), is_claimed);
        }
        let mut delegations = [0; 3];
        for object in 0..3 {
            let held = self.given.range((object, 0)..(object + 1, 0));
            let held: Vec<_> = held.map(|(&(_, client), &is_write)| (ClientNumber(client), is_write)).collect();
            held.iter().for_each(|(client, _)| delegations[client.0 as usize] += 1);
            let told = claims.delegated(ObjectId(object)).into_iter();
            assert_eq!(told.map(|(client, kind)| (client, kind == Delegation::Write)).collect::<Vec<_>>(), held);
        }
        for client in 0..3 {
            let count = Count { opens: opens[client], ranges: ranges[client], delegations: delegations[client] };
            assert_eq!(claims.account.of_client(ClientNumber(client as u64)), count);
            assert_eq!(claims.holdings.delegated_to(ClientNumber(client as u64)).len(), delegations[client]);
        }
        let (opens, ranges) = (opens.iter().sum(), ranges.iter().sum());
        assert_eq!(claims.account.totals(), Count { opens, ranges, delegations: self.given.len() });
        let is_unclaimed = self.opens.is_empty() && self.bytes.is_empty() && self.given.is_empty();
        assert_eq!(claims.is_unclaimed(), is_unclaimed);
    }
}

#[test]
fn random_operations_agree_with_the_model() {
    for seed in 0..150 {
        println!("seed {seed}");
        let (claims, mut model, mut dice) = (Claims::new(Arc::default()), Model::default(), Dice(seed));
        (0..1_000).for_each(|_| model.step(&claims, &mut dice));
    }
}
