//! Random compounds of a few owners, against a model that knows an owner by what it was told, seqid by seqid, and nothing else.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::tests::{key, nobody};
use super::*;
use crate::v4::state::clients::desk::Draws;

/// An operation as it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Op {
    seqid: u32,
    fingerprint: u64,
}

#[derive(Clone, Debug, Default)]
struct Known {
    last: Option<(Op, Told)>,
    is_confirmed: bool,
    /// Which compound has it, and what of it.
    held: Option<(u64, Vec<Op>)>,
}

/// An operation of a compound: whose, what it was told, and whether it waits.
struct Done {
    nth: u32,
    owner: usize,
    op: Op,
    told: Told,
    waits: bool,
    confirms: bool,
}

struct Compound {
    number: u64,
    turns: Turns,
    done: Vec<Done>,
}

struct Model {
    orders: Arc<Orders>,
    rng: Draws,
    known: Vec<Known>,
    compounds: Vec<Compound>,
    next: u64,
}

const OWNERS: usize = 3;

impl Model {
    fn below(&self, bound: u64) -> u64 {
        self.rng.below(bound)
    }

    fn owner(number: usize) -> OwnerKey {
        key(number as u64 % 2, number as u32)
    }

    fn step(&mut self) {
        match self.below(8) {
            0 if self.compounds.len() < 3 => {
                self.next += 1;
                let (turns, done) = Default::default();
                self.compounds.push(Compound { number: self.next, turns, done });
            }
            0..5 => self.begin(),
            5 if self.below(8) == 0 => self.forget_client(),
            _ => self.finish(),
        }
    }

    fn forget_client(&mut self) {
        let client = self.below(2);
        let is_its = |done: &Done| done.owner as u64 % 2 == client;
        // Nothing of it is under way: what comes behind it comes to nobody.
        while let Some(at) = self.compounds.iter().position(|compound| compound.done.iter().any(is_its)) {
            self.finish_at(at);
        }
        self.orders.forget_client(ClientId(client));
        let owners = (0..OWNERS).filter(|number| *number as u64 % 2 == client);
        owners.for_each(|number| self.known[number] = Known::default());
    }

    fn begin(&mut self) {
        let Some(at) = (self.below(8) as usize).checked_rem(self.compounds.len()) else { return };
        let number = self.below(OWNERS as u64) as usize;
        let (known, holder) = (self.known[number].clone(), self.compounds[at].number);
        let newest = match &known.held {
            Some((_, ops)) => ops.last().copied(),
            None => known.last.as_ref().map(|(op, _)| *op),
        };
        let last = newest.unwrap_or(Op { seqid: u32::MAX, fingerprint: 0 });
        let seqid = last.seqid.wrapping_add([1, 1, 1, 0, 0, 2, u32::MAX][self.below(7) as usize]);
        let fingerprint = if seqid == last.seqid && self.below(2) == 0 { last.fingerprint } else { self.below(3) };
        let (op, brought) =
            (Op { seqid, fingerprint }, [Brought::Open, Brought::Confirm, Brought::Other][self.below(3) as usize]);
        let nth = self.compounds[at].done.last().map_or(2, |done| done.nth + 1);
        let asking = Asking { owner: Self::owner(number), brought, seqid, fingerprint, nth };
        let told = self.compounds[at].turns.begin(&self.orders, asking, &nobody);
        let expected = known.answer(op, brought, holder);
        assert_eq!(told, expected, "{known:?} {op:?} {brought:?}");
        if matches!(told, Ok(Came::Now { .. })) {
            self.carry_out(
                at,
                Done {
                    nth,
                    owner: number,
                    op,
                    told: Status::Ok.into(),
                    waits: false,
                    confirms: brought == Brought::Confirm,
                },
            );
        }
    }

    /// What came of it. Behind an error a compound does nothing more.
    fn carry_out(&mut self, at: usize, mut done: Done) {
        let errors = [Status::NoEnt, Status::Delay, Status::Resource, Status::BadStateid];
        done.told.status = if self.below(3) == 0 { errors[self.below(4) as usize] } else { Status::Ok };
        done.told.results = vec![self.below(256) as u8; if done.told.status == Status::Ok { 8 } else { 0 }].into();
        done.waits = self.below(3) == 0;
        done.confirms &= done.told.status == Status::Ok;
        let (known, compound) = (&mut self.known[done.owner], &mut self.compounds[at]);
        known.held.get_or_insert((compound.number, Vec::new())).1.push(done.op);
        if done.confirms {
            known.is_confirmed = true;
            self.orders.confirm(&Self::owner(done.owner));
        }
        compound.turns.end(done.nth, done.told.status, &done.told.results, None);
        if done.waits {
            compound.turns.wait(done.nth);
        }
        let is_over = done.told.status != Status::Ok;
        compound.done.push(done);
        if is_over {
            self.finish_at(at);
        }
    }

    fn finish(&mut self) {
        if let Some(at) = (self.below(8) as usize).checked_rem(self.compounds.len()) {
            self.finish_at(at);
        }
    }

    fn finish_at(&mut self, at: usize) {
        let Compound { turns, done, .. } = self.compounds.swap_remove(at);
        let waiting = done.iter().filter(|done| done.waits).map(|done| done.nth).next();
        // Kept, broken, or dropped by whoever carries it out again.
        let (how, first) = (self.below(3), waiting.unwrap_or(u32::MAX));
        match how {
            0 => turns.settle(),
            1 if waiting.is_some() => turns.settle_broken(first),
            _ => drop(turns),
        }
        let mut stopped = Vec::new();
        for Done { nth, owner, op, told, waits, .. } in done {
            let known = &mut self.known[owner];
            known.held = None;
            let told = match (how, waits) {
                _ if stopped.contains(&owner) => None,
                (0, _) | (_, false) => Some(told),
                (1, true) if nth == first => {
                    stopped.push(owner);
                    Some(Status::Io.into())
                }
                _ => {
                    stopped.push(owner);
                    None
                }
            };
            if let Some(told) = told.filter(|told| !matches!(told.status, Status::Resource | Status::BadStateid)) {
                known.last = Some((op, told));
            }
            // Of whom nothing was ever carried out nothing is kept.
            known.is_confirmed &= known.last.is_some();
        }
    }
}

impl Known {
    fn answer(&self, op: Op, brought: Brought, holder: u64) -> Result<Came, Status> {
        let now = |is_anew| Ok(Came::Now { is_confirmed: self.is_confirmed, is_anew });
        let last = match (&self.held, &self.last) {
            (Some((other, ops)), _) if *other != holder => {
                return Err(if ops.contains(&op) { Status::Delay } else { Status::BadSeqid });
            }
            (Some((_, ops)), _) => ops[ops.len() - 1],
            (None, Some((last, told))) => {
                if *last == op && (self.is_confirmed || brought != Brought::Other) {
                    return Ok(Came::Before(told.clone()));
                }
                *last
            }
            (None, None) if brought == Brought::Open => return now(false),
            (None, None) => return Err(Status::BadSeqid),
        };
        match brought {
            Brought::Other if !self.is_confirmed => Err(Status::BadStateid),
            Brought::Open if !self.is_confirmed => now(true),
            _ if op.seqid == last.seqid.wrapping_add(1) => now(false),
            _ => Err(Status::BadSeqid),
        }
    }
}

#[test]
fn random_compounds_agree_with_the_model() {
    for seed in 0..100 {
        println!("seed {seed}");
        let (orders, rng) = (Arc::new(Orders::default()), Draws(AtomicU64::new(seed + 1)));
        let known = vec![Known::default(); OWNERS];
        let mut model = Model { orders, rng, known, compounds: Vec::new(), next: 0 };
        (0..500).for_each(|_| model.step());
    }
}
