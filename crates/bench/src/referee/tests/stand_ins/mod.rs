//! Servers that stand in for all others, honest or lying each in its own way, beside disks that are quiet, busy, or not
//! theirs: the referee must accuse nobody who is honest, and let nobody pass who is not.
//!
//! They speak NFSv3 over a socket and keep nothing; what they do to their disks stands in files like the kernel's own
//! (`/sys/class/block/NAME/stat`), and the real client, probe and readers run against them.

mod machine;
mod server;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use crate::case::{Case, Plan};
use crate::client::{As, Export};
use crate::promise::Kind;
use crate::referee::Verdict;
use crate::run;
use crate::witness::Pace;
use crate::work::devices::Devices;
use machine::{Disk, Machine, Noise};
use server::{Call, Server};

/// How a server keeps, or does not keep, what it promises: what it does before its reply, with its disks at hand.
type Manner = fn(&Machine, &Call);

/// What is promised, on the disk.
fn keep(machine: &Machine, call: &Call) {
    machine.own.write(call.bytes + 4096);
    machine.own.flush();
}

fn only_write(machine: &Machine, call: &Call) {
    machine.own.write(call.bytes + 4096);
}

/// All but one kind are kept, whose content is written without a flush.
fn keep_all_but(machine: &Machine, call: &Call, broken: &[Kind]) {
    if call.is_one_of(broken) { only_write(machine, call) } else { keep(machine, call) }
}

fn later(machine: &Machine, call: &Call, after: Duration) {
    let (machine, call) = (machine.clone(), call.clone());
    machine.spawn(move |machine| {
        thread::sleep(after);
        keep(machine, &call);
    });
}

/// Whether they keep their word, on a machine that can tell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Is {
    Honest,
    Liar,
    /// Nobody can know.
    Hidden,
}

const SERVERS: [(&str, Is, Manner); 27] =
    [
        ("keeps everything at once", Is::Honest, |machine, call| {
            if !call.is_unstable() {
                keep(machine, call);
            }
            if call.is(Kind::Commit) {
                machine.own.write(64 << 10);
                machine.own.flush();
            }
        }),
        ("keeps everything, says so of unstable writes too", Is::Honest, |machine, call| {
            call.say_stable();
            keep(machine, call);
        }),
        ("writes behind WRITE, and COMMIT waits for that", Is::Honest, |machine, call| {
            if call.is_unstable() {
                later(machine, call, Duration::from_micros(200));
            } else if call.is(Kind::Commit) {
                machine.wait_for_others();
            } else {
                keep(machine, call);
            }
        }),
        ("writes and flushes at once behind an unstable WRITE, before its reply", Is::Honest, |machine, call| {
            if !call.is(Kind::Commit) {
                keep(machine, call);
            }
        }),
        ("refuses EXCLUSIVE", Is::Honest, |machine, call| {
            call.refuse(&[Kind::CreateExclusive]);
            keep(machine, call);
        }),
        ("refuses MKNOD, LINK and SYMLINK", Is::Honest, |machine, call| {
            call.refuse(&[Kind::MkNod, Kind::Link, Kind::SymLink]);
            keep(machine, call);
        }),
        ("waits for others to share a flush", Is::Honest, |machine, call| {
            thread::sleep(Duration::from_micros(500));
            keep(machine, call);
        }),
        ("has a slow disk", Is::Honest, |machine, call| {
            thread::sleep(Duration::from_millis(3));
            keep(machine, call);
        }),
        ("writes twice, and in pieces", Is::Honest, |machine, call| {
            (0..4).for_each(|_| machine.own.write(call.bytes / 2 + 4096));
            machine.own.flush();
            machine.own.flush();
        }),
        ("has its log on another disk", Is::Hidden, |machine, call| {
            machine.log.write(call.bytes + 4096);
            machine.log.flush();
            later(machine, call, Duration::from_millis(30));
        }),
        ("never flushes", Is::Liar, only_write),
        ("writes by a clock, and never flushes", Is::Liar, |machine, call| machine.put_off(call.bytes + 4096, false)),
        ("flushes by a clock", Is::Liar, |machine, call| machine.put_off(call.bytes + 4096, true)),
        ("replies, and flushes a millisecond later", Is::Liar, |machine, call| {
            later(machine, call, Duration::from_millis(1))
        }),
        ("replies, and flushes five milliseconds later", Is::Liar, |machine, call| {
            later(machine, call, Duration::from_millis(5));
        }),
        ("flushes what was never written", Is::Liar, |machine, call| {
            machine.own.flush();
            machine.put_off(call.bytes + 4096, false);
        }),
        ("flushes another file", Is::Liar, |machine, call| {
            machine.own.write(8192);
            machine.own.flush();
            machine.put_off(call.bytes + 4096, false);
        }),
        ("forgets one in ten", Is::Liar, |machine, call| {
            if machine.is_tenth() { only_write(machine, call) } else { keep(machine, call) }
        }),
        ("lies in CREATE alone, and refuses EXCLUSIVE", Is::Liar, |machine, call| {
            call.refuse(&[Kind::CreateExclusive]);
            keep_all_but(machine, call, &[Kind::Create]);
        }),
        ("lies in EXCLUSIVE alone", Is::Liar, |machine, call| keep_all_but(machine, call, &[Kind::CreateExclusive])),
        ("lies in COMMIT alone", Is::Liar, |machine, call| {
            if call.is_unstable() {
                only_write(machine, call);
            } else if !call.is(Kind::Commit) {
                keep(machine, call);
            }
        }),
        ("lies in FILE_SYNC alone", Is::Liar, |machine, call| keep_all_but(machine, call, &[Kind::WriteFileSync])),
        ("lies in SETATTR alone", Is::Liar, |machine, call| keep_all_but(machine, call, &[Kind::SetAttr])),
        // Of what was asked in turns, the first refusal once ended the rest, and nobody had judged it.
        ("refuses SETATTR of the mode", Is::Honest, |machine, call| {
            if call.sets_mode {
                call.refuse(&[Kind::SetAttr]);
            }
            keep(machine, call);
        }),
        ("refuses SETATTR of the mode, and lies in the others", Is::Liar, |machine, call| {
            if call.sets_mode {
                call.refuse(&[Kind::SetAttr]);
            }
            keep_all_but(machine, call, &[Kind::SetAttr]);
        }),
        ("lies in RENAME alone", Is::Liar, |machine, call| keep_all_but(machine, call, &[Kind::Rename])),
        ("lies in RMDIR and REMOVE", Is::Liar, |machine, call| {
            keep_all_but(machine, call, &[Kind::RmDir, Kind::Remove])
        }),
    ];

/// What else goes on, and where the referee looks.
struct Surroundings {
    name: &'static str,
    noise: Noise,
    watched: &'static str,
    /// The verdicts that are right for honest servers and for liars.
    honest: &'static [&'static str],
    liars: &'static [&'static str],
}

const HONEST: &[&str] = &["HONEST"];
const BROKEN: &[&str] = &["NOT DURABLE"];
const UNSEEN: &[&str] = &["UNVERIFIED"];
/// By how often a window of its length meets somebody else's doings.
const NOT_ACCUSED: &[&str] = &["HONEST", "UNVERIFIED"];

const SURROUNDINGS: [Surroundings; 6] = [
    Surroundings { name: "a quiet disk", noise: Noise::None, watched: "own", honest: HONEST, liars: BROKEN },
    // Somebody writes 7 MB/s there, and flushes nothing.
    Surroundings { name: "foreign bytes", noise: Noise::Bytes, watched: "own", honest: NOT_ACCUSED, liars: BROKEN },
    Surroundings { name: "foreign flushes", noise: Noise::Flushes, watched: "own", honest: NOT_ACCUSED, liars: BROKEN },
    Surroundings { name: "foreign bursts", noise: Noise::Bursts, watched: "own", honest: HONEST, liars: BROKEN },
    Surroundings { name: "another disk", noise: Noise::None, watched: "spare", honest: UNSEEN, liars: UNSEEN },
    Surroundings { name: "another busy disk", noise: Noise::Spare, watched: "spare", honest: UNSEEN, liars: UNSEEN },
];

fn pace() -> Pace {
    Pace {
        probes: 30,
        rest: [Duration::from_micros(800), Duration::from_micros(2500)],
        rest_timeout: Duration::from_millis(5),
        idle: Duration::from_millis(150),
        arrival: Duration::from_millis(1500),
    }
}

fn judge(manner: Manner, around: &Surroundings) -> Verdict {
    judge_at(Case::Probe, manner, around)
}

fn judge_at(case: Case, manner: Manner, around: &Surroundings) -> Verdict {
    let machine = Machine::new(around.noise);
    let server = Server::start(machine.clone(), manner);
    let url = format!("nfs://127.0.0.1:{port}/stand-in?mountport={port}", port = server.port()).parse().unwrap();
    let site = Export::mount(&url, As::Root).unwrap();
    let plan = Plan {
        case,
        runs: 1,
        whose: As::Root,
        quiet: Duration::ZERO,
        keep: false,
        target: url.to_string(),
        pace: pace(),
    };
    let watched = Devices::find_below(&machine.block(), &[around.watched.into()]).unwrap();
    let report = run::run(&plan, &site, Ok(Box::new(watched)), &AtomicBool::new(false), &mut |_| {}).unwrap();
    machine.end();
    report.verdict
}

/// All cells, some at a time; each that is not as expected, in words.
fn wrong_verdicts() -> Vec<String> {
    let cells: Vec<_> =
        SERVERS.iter().flat_map(|server| SURROUNDINGS.iter().map(move |around| (server, around))).collect();
    let next = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let work = || {
        let mut wrong = Vec::new();
        while let Some(((name, is, manner), around)) =
            cells.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
        {
            let expected = match is {
                Is::Honest => around.honest,
                Is::Liar => around.liars,
                Is::Hidden => UNSEEN,
            };
            let verdict = judge(*manner, around);
            if !expected.contains(&verdict.word()) {
                wrong.push(format!("{name}, beside {}: {verdict:?} instead of {expected:?}", around.name));
            }
        }
        wrong
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..10).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    })
}

#[test]
fn nobody_honest_is_accused_and_no_liar_passes() {
    let wrong = wrong_verdicts();
    assert!(wrong.is_empty(), "{} wrong verdicts:\n{}", wrong.len(), wrong.join("\n"));
}

/// Whose lone WRITEs are stable at once was believed to have no COMMIT to keep, also where a long file's pieces are not: nobody
/// had seen a COMMIT of his, and he was HONEST.
#[test]
fn a_commit_that_nobody_has_seen_is_nobodys_honesty() {
    let lies_in_commit: Manner = |machine, call| match call.is_unstable() {
        true if call.bytes <= 64 << 10 => {
            call.say_stable();
            keep(machine, call);
        }
        true => only_write(machine, call),
        false if call.is(Kind::Commit) => {}
        false => keep(machine, call),
    };
    let says_stable: Manner = |machine, call| {
        call.say_stable();
        keep(machine, call);
    };
    let long = Case::Seq { bytes: 4 << 20 };
    let verdict = judge_at(long.clone(), lies_in_commit, &SURROUNDINGS[0]);
    assert!(matches!(&verdict, Verdict::Unverified { reason } if reason.contains("COMMIT")), "{verdict:?}");
    assert_eq!(judge_at(long, says_stable, &SURROUNDINGS[0]), Verdict::Honest);
}

#[test]
fn counters_like_the_kernels_are_read_as_such() {
    let machine = Machine::new(Noise::None);
    let mut watch = Devices::find_below(&machine.block(), &["own".into()]).unwrap();
    let disk: &Disk = &machine.own;
    disk.write(8192);
    disk.flush();
    machine.log.flush();
    let (work, elsewhere) = (crate::work::Watch::work(&mut watch).unwrap(), crate::work::Watch::elsewhere(&mut watch));
    assert_eq!((work.writes, work.write_bytes, work.flushes, work.durable_events), (1, 8192, 1, 1));
    assert_eq!(elsewhere.unwrap().flushes, 1);
    machine.end();
}
