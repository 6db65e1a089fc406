use super::*;

fn count(kind: Kind, replies: u64, durable: u64, unknown: u64) -> KindCount {
    KindCount { replies, durable, unknown, ..KindCount::new(kind) }
}

fn findings(kinds: Vec<KindCount>, idle_events_per_second: f64) -> Findings {
    Findings { source: "a test".into(), kinds, idle_events_per_second, window_seconds: 0.001 }
}

#[test]
fn verdicts() {
    let honest = || Verdict::Honest;
    let broken = |kinds: &[&str]| Verdict::NotDurable { kinds: kinds.iter().map(|&kind| kind.into()).collect() };
    let unseen = |reason: &str| Verdict::Unverified { reason: reason.into() };
    let (create, commit) = (Kind::Create, Kind::Commit);
    let noise = "somebody else uses the disks: 3 % of the replies meet a foreign flush by chance";
    let fua = "the disk has FUA, and whether the writes for CREATE used it cannot be seen";
    let cases = [
        ("all", vec![count(create, 200, 200, 0), count(commit, 200, 200, 0)], 0.0, honest()),
        ("a tick late four times", vec![count(create, 200, 196, 0)], 0.0, honest()),
        ("once too often", vec![count(create, 200, 195, 0)], 0.0, broken(&["CREATE: 195 of 200"])),
        ("one kind", vec![count(create, 200, 0, 0), count(commit, 200, 200, 0)], 0.0, broken(&["CREATE: 0 of 200"])),
        ("an old server lacks a procedure", vec![count(create, 200, 200, 0), count(commit, 0, 0, 0)], 0.0, honest()),
        ("noise", vec![count(create, 200, 200, 0)], 30.0, unseen(noise)),
        ("a little noise", vec![count(create, 200, 200, 0)], 20.0, honest()),
        // Noise can only help a server.
        ("noise and a lie", vec![count(create, 200, 20, 0)], 30.0, broken(&["CREATE: 20 of 200"])),
        ("writes with FUA, perhaps", vec![count(create, 200, 0, 200)], 0.0, unseen(fua)),
        ("a lie beside FUA", vec![count(create, 200, 100, 90)], 0.0, broken(&["CREATE: 100 of 200"])),
        ("nothing", vec![], 0.0, unseen("no request of any kind was answered")),
    ];
    for (name, kinds, idle, expected) in cases {
        assert_eq!(findings(kinds, idle).verdict(), expected, "{name}");
    }
}

#[test]
fn a_reply_counts_once_however_many_events_it_met() {
    let mut seen = KindCount::new(Kind::Create);
    let work = |durable_events, unknown_events| Work { durable_events, unknown_events, ..Work::default() };
    [work(3, 0), work(1, 5), work(0, 2), work(0, 0)].iter().for_each(|work| seen.add(work));
    assert_eq!((seen.replies, seen.durable, seen.unknown), (4, 2, 1));
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
