//! Room to go on: an import that writes starts from numbers that it has read, and draws the next ones.
//!
//! Everything that is read from a disk refuses numbers near the end of their range, because later sums would overflow. A
//! pool whose numbers stand just below that end can be read. But the very next group, label or object would get a
//! number that is refused, and nobody could import the pool any more. No pool comes there by itself (2^48 groups take
//! longer than there were seconds), so it is faulty software that put it there, and it is told before anything is
//! written.

use tally_base::{Time, Txg};
use tally_members::label::PoolConfig;
use tally_members::uberblock::Uberblock;

use super::catalog::Top;
use super::life::Life;
use super::log::LogContent;
use super::open::OpenError;
use crate::dataset::DRAWN_END;
use crate::key::Class;

/// Groups, generations, objects and records are drawn from numbers below this only.
pub const DRAWN_ROOM_END: u64 = DRAWN_END - (1 << 48);
/// Times are issued behind times below this only: nine years before the last that can be read, and twenty behind the
/// last that the kernel's clock can be set to, so that no wrong clock comes here.
pub const TIME_ROOM_END: Time = Time((1 << 63) - (1 << 58));

/// An error if the import may not write, because what it would write could not be read.
pub(super) fn check(
    config: &PoolConfig,
    uberblock: &Uberblock,
    top: &Top,
    content: &LogContent,
    open: Txg,
) -> Result<(), OpenError> {
    let last = |class: Class| top.kept.keys().rev().find(|key| key.class == class).map_or(0, |key| key.object);
    let of_pool = [
        ("transaction group", open.0),
        ("open generation", config.open_gen.max(uberblock.open_gen)),
        ("label sequence", config.sequence),
        ("dataset id", top.root.next_dataset),
        ("life", top.root.life.number),
        ("command", last(Class::History)),
        ("event", last(Class::Event)),
    ];
    // As many lives on as this import may begin.
    let life = Life { number: top.root.life.number + 1, ..top.root.life };
    let of_datasets = top.datasets.iter().flat_map(move |entry| {
        let root = &entry.root;
        [("object id", life.first_object(root).0), ("log record", root.replay_dseq.0.max(root.log_from.0))]
    });
    let records = content.datasets.values().flat_map(|replay| &replay.records);
    let of_records = records.map(|record| ("log record", record.head.dseq.0));
    let ended = of_pool.into_iter().chain(of_datasets).chain(of_records).find(|(_, number)| *number >= DRAWN_ROOM_END);
    let late = (uberblock.time_lease >= TIME_ROOM_END).then_some(("server time", uberblock.time_lease.0));
    match ended.or(late) {
        Some((what, number)) => Err(OpenError::NoRoom { what, number }),
        None => Ok(()),
    }
}
