use super::*;
use crate::control::observation::ObservedDataset;
use crate::control::report::{FeatureReport, LaneReport, ScrubReport};
use crate::control::server::PortmapperReport;
use crate::control::smb::SmbShare;

const NOW: Duration = Duration::from_secs(1_800_000_000);

/// Of a machine on which nothing is wrong.
fn well() -> Facts {
    let scrub = ScrubReport {
        state: "finished".into(),
        words: "done".into(),
        changed: NOW.as_secs() - 60,
        ..ScrubReport::default()
    };
    let pool = PoolReport {
        name: "tank".into(),
        state: "ONLINE".into(),
        size: 1000,
        allocated: 100,
        free: 900,
        scrub: Some(scrub),
        lanes: vec![LaneReport { size: 100, used: 5, ..LaneReport::default() }],
        ..PoolReport::default()
    };
    Facts {
        server: ServerReport {
            version: env!("CARGO_PKG_VERSION").into(),
            addresses: vec!["0.0.0.0".parse().unwrap()],
            port: 2049,
            nfs4: true,
            exports_to_others: true,
            exports: 1,
            portmapper: PortmapperReport { setting: "auto".into(), is_found: true, trouble: None },
        },
        seen: Observation { pools: vec![pool], ..Observation::default() },
        smb: SmbReport {
            include: "/run/tally/smb.conf".into(),
            shares: vec![SmbShare { name: Some("Docs".into()), ..SmbShare::default() }],
        },
        samba: Samba { is_installed: true, text: Some("include = /run/tally/smb.conf".into()), ..Samba::default() },
        newest_event_ns: 1_700_000_000_000_000_000,
        now: NOW,
        volatile_logs: BTreeSet::new(),
        out_of_reach: Some(Vec::new()),
        mounts: Standing { served: 1, ..Standing::default() },
        is_machine_silent: false,
    }
}

#[test]
fn where_nothing_is_wrong_everything_is_ok() {
    let findings = examine(&well());
    assert!(findings.iter().all(|finding| finding.level == Level::Ok && finding.todo.is_none()), "{findings:#?}");
    let checks: BTreeSet<_> = findings.iter().map(|finding| finding.check).collect();
    let all = [
        "clock", "daemon", "exports", "features", "log", "mount", "pool", "rpcbind", "sandbox", "scrub", "smb",
        "space", "sync",
    ];
    assert_eq!(checks, all.into_iter().collect());
}

/// Each thing that can be wrong, alone: what is told of it, and that it is the only line that is not OK.
#[test]
fn what_is_wrong_is_told_and_nothing_else() {
    type Break = fn(&mut Facts);
    let cases: [(&str, Level, &str, Break); 25] = [
        ("smb", Level::Warn, "there is no Samba on this machine", |facts| facts.samba.is_installed = false),
        ("smb", Level::Warn, "does not include the shares", |facts| facts.samba.text = Some("[global]".into())),
        ("smb", Level::Warn, "tank/docs is not shared: it is away", |facts| {
            facts.smb.shares[0] = SmbShare {
                dataset: "tank/docs".into(),
                problem: Some("it is away; mount it".into()),
                ..SmbShare::default()
            };
        }),
        ("daemon", Level::Warn, "version 0.0.1", |facts| facts.server.version = "0.0.1".into()),
        ("pool", Level::Warn, "no pool is imported", |facts| facts.seen.pools.clear()),
        ("pool", Level::Warn, "tank is DEGRADED", |facts| facts.seen.pools[0].state = "DEGRADED".into()),
        ("pool", Level::Fail, "tank is SUSPENDED", |facts| facts.seen.pools[0].state = "SUSPENDED".into()),
        ("pool", Level::Fail, "tank is UNAVAIL", |facts| facts.seen.pools[0].state = PoolReport::UNAVAILABLE.into()),
        ("pool", Level::Fail, "3 places", |facts| facts.seen.pools[0].unrepaired = 3),
        ("pool", Level::Warn, "not well", |facts| facts.seen.pools[0].leaks = 3),
        ("scrub", Level::Warn, "never scrubbed", |facts| facts.seen.pools[0].scrub = None),
        ("scrub", Level::Warn, "41 days ago", |facts| {
            facts.seen.pools[0].scrub.as_mut().unwrap().changed = NOW.as_secs() - 41 * 86_400;
        }),
        ("scrub", Level::Warn, "41 days ago", |facts| {
            facts.seen.pools[0].scrub.as_mut().unwrap().changed = NOW.as_secs() - 41 * 86_400;
            facts.seen.pools[0].scrub_due = Some(NOW.as_secs() - OVERDUE_SECONDS_MAX);
        }),
        ("space", Level::Warn, "80 % full", |facts| facts.seen.pools[0].allocated = 800),
        ("space", Level::Fail, "95 % full", |facts| facts.seen.pools[0].allocated = 950),
        ("log", Level::Warn, "90 % full", |facts| facts.seen.pools[0].lanes[0].used = 90),
        ("log", Level::Warn, "/dev/sdc has a cache", |facts| facts.volatile_logs.extend(["/dev/sdc".into()])),
        ("sync", Level::Warn, "sync=disabled", |facts| {
            facts.seen.datasets.push(ObservedDataset { sync: "disabled".into(), ..ObservedDataset::default() });
        }),
        ("exports", Level::Warn, "nothing is exported", |facts| facts.server.exports = 0),
        ("exports", Level::Fail, "own addresses only", |facts| facts.server.addresses = vec!["::1".parse().unwrap()]),
        ("rpcbind", Level::Warn, "another server", |facts| {
            facts.server.portmapper.trouble = Some("another server".into())
        }),
        ("mount", Level::Fail, "tank/a on /srv/a is dead", |facts| {
            facts.mounts.dead.push(("tank/a".into(), "/srv/a".into()));
        }),
        ("mount", Level::Warn, "tank/b has mountpoint=/srv/b, and is not mounted", |facts| {
            facts.mounts.missing.push(("tank/b".into(), "/srv/b".into()));
        }),
        ("sandbox", Level::Warn, "cannot see /dev/sda", |facts| {
            let told = OutOfReach { found: "cannot see /dev/sda".into(), todo: "look".into() };
            facts.out_of_reach = Some(vec![told]);
        }),
        ("clock", Level::Warn, "put back", |facts| facts.newest_event_ns = 1_800_000_100_000_000_000),
    ];
    for (check, level, words, break_it) in cases {
        let mut facts = well();
        break_it(&mut facts);
        let findings = examine(&facts);
        let wrong: Vec<_> = findings.iter().filter(|finding| finding.level != Level::Ok).collect();
        assert_eq!(wrong.len(), 1, "{words}: {findings:#?}");
        let told = wrong[0];
        assert!((told.check, told.level) == (check, level) && told.found.contains(words), "{told:?}");
        assert!(told.todo.is_some() && told.line().lines().count() == 1, "{told:?}");
    }
}

/// The last scrub's errors make the pool unwell, too.
#[test]
fn errors_of_a_scrub_are_a_failure() {
    let mut facts = well();
    facts.seen.pools[0].scrub.as_mut().unwrap().errors = 2;
    let failed: Vec<_> = examine(&facts).into_iter().filter(|finding| finding.level == Level::Fail).collect();
    assert!(failed.len() == 1 && failed[0].found.contains("2 errors"), "{failed:?}");
}

/// To stay with an older version's features is no fault.
#[test]
fn features_that_are_not_enabled_are_told_and_are_ok() {
    let mut facts = well();
    facts.seen.pools[0].features.push(FeatureReport { lacking: true, ..FeatureReport::default() });
    let told = examine(&facts).into_iter().find(|finding| finding.check == "features").unwrap();
    assert!(told.level == Level::Ok && told.found.contains("tally pool upgrade tank"), "{told:?}");
}

/// A pool that was made a moment ago has a scrub before it.
#[test]
fn a_scrub_that_will_come_by_itself_is_no_fault() {
    let mut facts = well();
    facts.seen.pools[0].scrub = None;
    facts.seen.pools[0].scrub_due = Some(NOW.as_secs() - OVERDUE_SECONDS_MAX + 1);
    let told = examine(&facts).into_iter().find(|finding| finding.check == "scrub").unwrap();
    assert!(told.level == Level::Ok && told.found.contains("due on 2027-01-"), "{told:?}");
}
