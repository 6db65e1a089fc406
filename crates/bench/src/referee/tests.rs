use super::*;

fn count(kind: Kind, replies: u64, durable: u64, unknown: u64) -> KindCount {
    KindCount { replies, durable, unknown, ..KindCount::new(kind) }
}

/// With so many blind looks of 100 that saw an event.
fn findings(kinds: Vec<KindCount>, events: u64) -> Findings {
    let blind = Blind { looks: 100, events, writes: 0 };
    Findings { source: "a test".into(), kinds, blind, ..Findings::default() }
}

#[test]
fn verdicts() {
    let honest = || Verdict::Honest;
    let broken = |kinds: &[&str]| Verdict::NotDurable { kinds: kinds.iter().map(|&kind| kind.into()).collect() };
    let unseen = |reason: &str| Verdict::Unverified { reason: reason.into() };
    let (create, commit) = (Kind::Create, Kind::Commit);
    let noise = "somebody else uses the disks: 30 % of the replies meet a foreign flush by chance";
    let fua = "the disk has FUA, and whether the writes for CREATE used it cannot be seen";
    let cases = [
        ("all", vec![count(create, 200, 200, 0), count(commit, 200, 200, 0)], 0, honest()),
        ("a tick late four times", vec![count(create, 200, 196, 0)], 0, honest()),
        ("once too often", vec![count(create, 200, 195, 0)], 0, broken(&["CREATE: 195 of 200"])),
        ("one kind", vec![count(create, 200, 0, 0), count(commit, 200, 200, 0)], 0, broken(&["CREATE: 0 of 200"])),
        ("an old server lacks a procedure", vec![count(create, 200, 200, 0), count(commit, 0, 0, 0)], 0, honest()),
        ("noise", vec![count(create, 200, 200, 0)], 30, unseen(noise)),
        ("a little noise", vec![count(create, 200, 200, 0)], 20, honest()),
        // Noise can only help a server.
        ("noise and a lie", vec![count(create, 200, 20, 0)], 30, broken(&["CREATE: 20 of 200"])),
        ("writes with FUA, perhaps", vec![count(create, 200, 0, 200)], 0, unseen(fua)),
        ("a lie beside FUA", vec![count(create, 200, 100, 90)], 0, broken(&["CREATE: 100 of 200"])),
        ("nothing", vec![], 0, unseen("no request of any kind was answered")),
    ];
    for (name, kinds, idle, expected) in cases {
        assert_eq!(findings(kinds, idle).verdict(), expected, "{name}");
    }
}

#[test]
fn a_disk_that_nobody_watches_may_be_the_one() {
    let elsewhere = |kind, replies, disk: &str, events| KindCount {
        elsewhere: [(disk.to_owned(), events)].into(),
        ..count(kind, replies, 0, 0)
    };
    let told = "sdb, which is not watched, was written to and flushed before the replies to CREATE: name it with \
                --device as well if it is the server's";
    let commit = || count(Kind::Commit, 200, 200, 0);
    let unseen = findings(vec![elsewhere(Kind::Create, 200, "sdb", 196), commit()], 0);
    assert_eq!(unseen.verdict(), Verdict::Unverified { reason: told.into() });
    // Once in a while is no excuse, nor is it one for another kind.
    for kinds in
        [vec![elsewhere(Kind::Create, 200, "sdb", 100)], vec![count(Kind::Create, 200, 0, 0), unseen.kinds[0].clone()]]
    {
        assert!(matches!(findings(kinds, 0).verdict(), Verdict::NotDurable { .. }));
    }
    assert!(unseen.disks_are_theirs() && !findings(vec![commit()], 50).disks_are_theirs());
}

/// A kind that was refused and therefore never judged once made a server HONEST whose CREATE promised and never flushed.
#[test]
fn a_case_is_honest_only_by_what_was_judged_and_where_something_happened() {
    let part = |kinds: &[Kind], durable_events| Phase {
        name: "create x1".into(),
        promises: 40,
        kinds: kinds.to_vec(),
        work: Some(Work { durable_events, ..Work::default() }),
        ..Phase::default()
    };
    let refused = KindCount { refusals: 3, ..KindCount::new(Kind::Create) };
    let once = KindCount { refusals: 133, ..count(Kind::SetAttr, 67, 67, 0) };
    let findings = findings(vec![count(Kind::WriteToldStable, 200, 200, 0), refused, once], 0);
    let unjudged = "used, but refused to the lone probe: CREATE, SETATTR";
    let cases = [
        (part(&[Kind::Commit], 1), Verdict::Honest),
        (part(&[Kind::SetAttr, Kind::Create], 1), Verdict::Unverified { reason: unjudged.into() }),
        (part(&[Kind::Commit], 0), Verdict::NotDurable { kinds: vec!["create x1: 0 of 40".into()] }),
    ];
    for (phase, expected) in cases {
        assert_eq!(findings.with_case(Verdict::Honest, &[phase]), expected);
    }
}

#[test]
fn a_reply_counts_once_however_many_events_it_met() {
    let mut seen = KindCount::new(Kind::Create);
    let work =
        |durable_events, unknown_events| Work { durable_events, unknown_events, write_bytes: 1, ..Work::default() };
    [work(3, 0), work(1, 5), work(0, 2), work(0, 0)].iter().for_each(|work| seen.add(work, Vec::new()));
    // A flush of nothing.
    seen.add(&Work { durable_events: 1, ..Work::default() }, vec!["sdb".into()]);
    assert_eq!((seen.replies, seen.durable, seen.unknown, seen.elsewhere["sdb"]), (5, 2, 1, 1));
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
