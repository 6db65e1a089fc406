//! The referee before servers of which it is known what they do: honest ones and liars, each in every surroundings. An
//! honest one must never be accused and a liar never pass; where the referee cannot know, it has to say so. The disks
//! are counters in the kernel's format, the servers speak NFSv3, and everything between is what people run.

mod disk;
mod neighbour;
mod server;
mod servers;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tally_bench::case::Case;
use tally_bench::client::{As, Export};
use tally_bench::referee::{Pace, Verdict};
use tally_bench::report::Report;
use tally_bench::run::{self, Plan};
use tally_bench::target::Url;
use tally_bench::work::devices::Devices;

use disk::Kernel;
use neighbour::{Neighbour, Noise};
use server::{Habits, Server};
use servers::{Character, servers};

/// Quick, for disks that answer at once: what is waited for is real.
fn pace() -> Pace {
    Pace {
        probes: 50,
        rest_long: Duration::from_millis(5),
        rest_max: Duration::from_millis(4),
        idle: Duration::from_millis(50),
        mark_bytes: 2 << 20,
        arrival_max: Duration::from_millis(400),
        ..Pace::default()
    }
}

/// One server in one place, judged as `tally bench create` judges it.
fn judge(habits: &Habits, noise: Noise, watched: &str) -> Report {
    let kernel = Kernel::new();
    let [disk, other, foreign] = ["sda", "sdb", "sdc"].map(|name| Arc::new(kernel.disk(name)));
    let _neighbour = Neighbour::start(noise, if watched == "sdc" { foreign } else { Arc::clone(&disk) });
    let server = Server::start(habits.clone(), disk, other);
    let port = Some(server.address.port());
    let url = Url {
        host: "127.0.0.1".into(),
        export: "/stand-in".into(),
        nfs_port: port,
        mount_port: port,
        ..Url::default()
    };
    let site = Export::mount(&url, As::Root).unwrap();
    let plan = Plan {
        case: Case::Create { files: 40, connections: vec![1] },
        runs: 1,
        whose: As::Root,
        quiet: Duration::ZERO,
        keep: false,
        target: url.to_string(),
        pace: pace(),
    };
    let devices = Devices::find_below(&kernel.block(), &[PathBuf::from(watched)]).unwrap();
    run::run(&plan, &site, Ok(Box::new(devices)), &AtomicBool::new(false), &mut |_| {}).unwrap()
}

/// What surrounds a server: who else uses the disk that is watched, and whether it is the right one.
const SURROUNDINGS: [(&str, Noise, &str); 7] = [
    ("a quiet disk", Noise::None, "sda"),
    ("a neighbour who writes", Noise::Bytes, "sda"),
    ("a neighbour who flushes now and then", Noise::Flushes, "sda"),
    ("a neighbour who flushes all the time", Noise::Storm, "sda"),
    ("a neighbour in bursts", Noise::Bursts, "sda"),
    ("a disk that nobody uses", Noise::None, "sdc"),
    ("a disk of somebody else", Noise::Bytes, "sdc"),
];

/// Which words are right: H, N, U for the three verdicts. Nowhere both H and N.
fn expected(character: Character, surroundings: &str) -> &'static str {
    use Character::{Honest, Liar, Unseen};
    match (character, surroundings) {
        (_, "a disk that nobody uses" | "a disk of somebody else") | (Unseen, _) => "U",
        (Honest, "a quiet disk" | "a neighbour who writes") => "H",
        (Honest, _) => "HU",
        (Liar, "a quiet disk") => "N",
        (Liar, _) => "NU",
    }
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Honest => "H",
        Verdict::NotDurable { .. } => "N",
        Verdict::Unverified { .. } => "U",
    }
}

/// Judges every server in every surroundings, some at a time; gives what was wrong.
fn all() -> Vec<String> {
    let cells: Vec<_> = servers()
        .into_iter()
        .flat_map(|server| SURROUNDINGS.into_iter().map(move |surroundings| (server.clone(), surroundings)))
        .collect();
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while let Some(((name, character, habits), (where_, noise, watched))) =
                    cells.get(next.fetch_add(1, Relaxed))
                {
                    let report = judge(habits, *noise, watched);
                    let right = expected(*character, where_);
                    println!("{name}, {where_}: {:?}", report.verdict);
                    if !right.contains(word(&report.verdict)) {
                        let line = format!("{name}, {where_}: not {right} but {:?}", report.verdict);
                        wrong.lock().unwrap().push(line);
                    }
                }
            });
        }
    });
    wrong.into_inner().unwrap()
}

#[test]
fn every_server_gets_its_verdict_in_all_surroundings() {
    let wrong = all();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
