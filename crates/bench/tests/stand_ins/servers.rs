//! The servers, and what each is.

use std::time::Duration;

use tally_bench::referee::Kind;

use super::server::{Habit, Habits};

const NOTSUPP: u32 = 10_004;
const INVAL: u32 = 22;

/// What is true of a server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Character {
    Honest,
    Liar,
    /// It may keep its word, where the referee does not look.
    Unseen,
}

/// All of them, by name.
pub(crate) fn servers() -> Vec<(&'static str, Character, Habits)> {
    use Character::{Honest, Liar, Unseen};
    let honest = || Habits::new(Habit::Before);
    let lying_in = |kind| honest().but(&[kind], Habit::Lazily);
    let behind = |micros| Habits::new(Habit::After(Duration::from_micros(micros)));
    let eager = || Habits { eager: true, ..honest() };
    let told = || Habits { told_stable: true, ..honest() };
    let files = [Kind::WriteFileSync, Kind::WriteDataSync, Kind::Commit];
    let others = [Kind::CreateExclusive, Kind::Create, Kind::SetAttr, Kind::MkDir, Kind::SymLink, Kind::MkNod];
    let more = [Kind::Link, Kind::Rename, Kind::Remove, Kind::RmDir];
    vec![
        ("flushes at once", Honest, honest()),
        ("flushes behind an UNSTABLE WRITE too", Honest, eager()),
        ("flushes for all who wait", Honest, Habits::new(Habit::Together)),
        ("says of every WRITE that it is stable, and it is", Honest, told()),
        ("refuses EXCLUSIVE", Honest, honest().refusing(Kind::CreateExclusive, NOTSUPP)),
        ("does not understand EXCLUSIVE", Honest, honest().refusing(Kind::CreateExclusive, INVAL)),
        ("has no MKNOD and no LINK", Honest, honest().refusing(Kind::MkNod, NOTSUPP).refusing(Kind::Link, NOTSUPP)),
        ("has its log on another disk", Unseen, honest().but(&others, Habit::Elsewhere).but(&more, Habit::Elsewhere)),
        ("has all on another disk", Unseen, Habits::new(Habit::Elsewhere)),
        ("keeps all in memory", Unseen, Habits::new(Habit::Nowhere)),
        ("never flushes", Liar, Habits::new(Habit::Lazily)),
        ("writes before the reply and never flushes", Liar, Habits::new(Habit::Unflushed)),
        ("flushes by a clock", Liar, Habits::new(Habit::Hourly(Duration::from_millis(50)))),
        ("flushes right behind the reply", Liar, behind(200)),
        ("flushes 1 ms behind the reply", Liar, behind(1000)),
        ("flushes 3 ms behind the reply", Liar, behind(3000)),
        ("flushes something else", Liar, Habits::new(Habit::Beside)),
        (
            "refuses EXCLUSIVE and never flushes CREATE",
            Liar,
            lying_in(Kind::Create).refusing(Kind::CreateExclusive, INVAL),
        ),
        ("lies about EXCLUSIVE", Liar, lying_in(Kind::CreateExclusive)),
        ("lies about CREATE", Liar, lying_in(Kind::Create)),
        ("lies about SETATTR", Liar, lying_in(Kind::SetAttr)),
        ("lies about WRITE FILE_SYNC", Liar, lying_in(Kind::WriteFileSync)),
        ("lies about WRITE DATA_SYNC", Liar, lying_in(Kind::WriteDataSync)),
        ("lies about COMMIT", Liar, lying_in(Kind::Commit)),
        ("lies about REMOVE", Liar, lying_in(Kind::Remove)),
        ("lies about RENAME", Liar, lying_in(Kind::Rename)),
        ("flushes with COMMIT only", Liar, Habits::new(Habit::Lazily).but(&[Kind::Commit], Habit::Before)),
        ("keeps its word about files only", Liar, Habits::new(Habit::Lazily).but(&files, Habit::Before)),
        (
            "says of every WRITE that it is stable, and is not",
            Liar,
            told().but(&[Kind::WriteToldStable], Habit::Lazily),
        ),
        ("flushes 1 ms behind a RENAME", Liar, honest().but(&[Kind::Rename], Habit::After(Duration::from_millis(1)))),
    ]
}
