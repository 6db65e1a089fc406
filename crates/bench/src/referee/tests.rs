mod stand_ins;

use std::time::Duration;

use super::*;

fn count(kind: Kind, replies: u64, durable: u64, unknown: u64) -> KindCount {
    KindCount { replies, durable, unknown, ..KindCount::new(kind) }
}

fn findings(kinds: Vec<KindCount>, with_events: u64, with_bytes: u64) -> Findings {
    let blanks = Blanks { windows: 1000, with_events, with_bytes };
    Findings { source: "a test".into(), kinds, blanks, window_seconds: 0.001 }
}

#[test]
fn verdicts() {
    let honest = || Verdict::Honest;
    let broken = |kinds: &[&str]| Verdict::NotDurable { kinds: kinds.iter().map(|&kind| kind.into()).collect() };
    let unseen = |reason: &str| Verdict::Unverified { reason: reason.into() };
    let (create, commit) = (Kind::Create, Kind::Commit);
    let noise = "somebody else uses the disks: 30 % of the times in which nothing was asked had a flush or a durable \
                 write";
    let bytes = "somebody else uses the disks: 30 % of the times in which nothing was asked had a write, and so nobody \
                 sees what a flush before a reply made durable";
    let fua = "the disk has FUA, and whether the writes for CREATE used it cannot be seen";
    let elsewhere = "for CREATE the disks that are watched did not do enough, and others of this machine flushed: name \
                     all disks of the server with --device, that of its log too";
    let away = KindCount { elsewhere: 180, ..count(create, 200, 20, 0) };
    let cases = [
        ("all", vec![count(create, 200, 200, 0), count(commit, 200, 200, 0)], (0, 0), honest()),
        ("a tick late four times", vec![count(create, 200, 196, 0)], (0, 0), honest()),
        ("once too often", vec![count(create, 200, 195, 0)], (0, 0), broken(&["CREATE: 195 of 200"])),
        ("one kind", vec![count(create, 200, 0, 0), count(commit, 200, 200, 0)], (0, 0), broken(&["CREATE: 0 of 200"])),
        ("a server lacks a procedure", vec![count(create, 200, 200, 0), count(commit, 0, 0, 0)], (0, 0), honest()),
        ("noise", vec![count(create, 200, 200, 0)], (300, 300), unseen(noise)),
        ("a little noise", vec![count(create, 200, 200, 0)], (200, 200), honest()),
        ("bytes alone", vec![count(create, 200, 200, 0)], (0, 300), unseen(bytes)),
        // Noise can only help a server.
        ("noise and a lie", vec![count(create, 200, 20, 0)], (300, 300), broken(&["CREATE: 20 of 200"])),
        ("a log elsewhere", vec![away.clone(), count(commit, 200, 200, 0)], (0, 0), unseen(elsewhere)),
        ("and a lie", vec![away, count(commit, 200, 3, 0)], (0, 0), broken(&["COMMIT: 3 of 200"])),
        ("writes with FUA, perhaps", vec![count(create, 200, 0, 200)], (0, 0), unseen(fua)),
        ("a lie beside FUA", vec![count(create, 200, 100, 90)], (0, 0), broken(&["CREATE: 100 of 200"])),
        ("nothing", vec![count(create, 0, 0, 0)], (0, 0), unseen("no request of any kind was answered")),
    ];
    for (name, kinds, (with_events, with_bytes), expected) in cases {
        assert_eq!(findings(kinds, with_events, with_bytes).verdict(), expected, "{name}");
    }
}

#[test]
fn a_reply_counts_once_and_only_with_what_was_written_for_it() {
    let mut count = KindCount::new(Kind::Commit);
    let work = |durable_events, unknown_events, write_bytes| Work {
        durable_events,
        unknown_events,
        write_bytes,
        ..Work::default()
    };
    let (nothing, flush) = (Work::default(), work(1, 0, 0));
    let cases = [
        (work(3, 0, 4096), nothing),
        (work(1, 5, 9000), nothing),
        (work(0, 2, 4096), nothing),
        (nothing, nothing),
        // A flush of something else.
        (work(1, 0, 512), nothing),
        (flush, flush),
    ];
    for (work, elsewhere) in cases {
        count.add(&Seen { kind: Kind::Commit, bytes: 4096, work, elsewhere, took: Duration::ZERO });
    }
    assert_eq!((count.replies, count.durable, count.unknown, count.elsewhere), (6, 2, 1, 1));
}

#[test]
fn several_runs_are_as_bad_as_the_worst() {
    let broken = |kinds: &[&str]| Verdict::NotDurable { kinds: kinds.iter().map(|&kind| kind.into()).collect() };
    let unseen = || Verdict::Unverified { reason: "noise".into() };
    let cases = [
        (vec![Verdict::Honest, Verdict::Honest], Verdict::Honest),
        (vec![Verdict::Honest, unseen()], unseen()),
        (vec![unseen(), broken(&["CREATE: 0 of 200"]), Verdict::Honest], broken(&["CREATE: 0 of 200"])),
        (
            vec![broken(&["CREATE: 0 of 200"]), broken(&["CREATE: 1 of 200", "LINK: 0 of 200"])],
            broken(&["CREATE: 0 of 200", "LINK: 0 of 200"]),
        ),
        (vec![], Verdict::Unverified { reason: "nothing was run".into() }),
    ];
    for (verdicts, expected) in cases {
        assert_eq!(Verdict::worst(verdicts), expected);
    }
}
