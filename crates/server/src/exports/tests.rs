use tally_nfs::exports::Squash;
use tally_vfs::model::{Model, ModelOptions};

use super::*;

const TANK: PoolGuid = PoolGuid(0xa);
const AWAY: PoolGuid = PoolGuid(0xb);

/// Datasets 1 to 4, where 2 is mounted on entry `home` of the root of 1.
struct Three(Vec<Arc<dyn Vfs>>);

impl Three {
    fn new() -> Arc<Self> {
        let model = |id| {
            let options = ModelOptions { pool: TANK, dataset: DatasetId(id), ..ModelOptions::default() };
            Arc::new(Model::new(&options)) as Arc<dyn Vfs>
        };
        Arc::new(Self((1..=4).map(model).collect()))
    }
}

impl Mounted for Three {
    fn is_going(&self, dataset: DatasetId) -> bool {
        dataset == DatasetId(8)
    }

    fn vfs(&self, dataset: DatasetId) -> Option<Arc<dyn Vfs>> {
        self.0.iter().find(|vfs| vfs.dataset() == dataset).cloned()
    }

    fn child(&self, dataset: DatasetId, dir: ObjectRef, name: &[u8]) -> Option<DatasetId> {
        (dataset == DatasetId(1) && dir == self.0[0].root() && name == b"home").then_some(DatasetId(2))
    }
}

fn table(above: &[ExportRule]) -> ExportTable {
    let dataset = |id, name: &str, sharenfs: &str| DatasetExport {
        id: DatasetId(id),
        name: name.into(),
        sharenfs: sharenfs.into(),
    };
    let datasets = vec![
        dataset(1, "tank", "127.0.0.1(rw,no_root_squash)"),
        dataset(2, "tank/home", "10.0.0.0/8(ro) 10.1.0.0/16(rw)"),
        dataset(3, "tank/homestead", "off"),
    ];
    let here = KnownExports {
        guid: TANK,
        name: "tank".into(),
        handle_key: [1; 32],
        mounted: Some(Three::new()),
        datasets,
        handover: None,
    };
    let away = KnownExports {
        guid: AWAY,
        name: "away".into(),
        handle_key: [2; 32],
        mounted: None,
        datasets: Vec::new(),
        handover: None,
    };
    ExportTable::new(vec![here, away], above)
}

fn live(above: &[ExportRule]) -> LiveExports {
    let live = LiveExports::default();
    live.replace(&table(above));
    live
}

#[test]
fn a_path_finds_the_dataset_with_the_longest_prefix() {
    let live = live(&[]);
    let cases = [
        ("/tank", Some((1, ""))),
        ("tank//", Some((1, ""))),
        ("/tank/home/ann/mail", Some((2, "ann/mail"))),
        ("/tank/homestead", Some((3, ""))),
        ("/tank/homes", Some((1, "homes"))),
        ("/tan", None),
        ("/", None),
        ("", None),
    ];
    for (path, expected) in cases {
        let found = live.resolve(path).map(|found| (found.vfs.dataset().0, found.below));
        assert_eq!(found, expected.map(|(id, rest)| (id, rest.to_owned())), "{path}");
    }
}

#[test]
fn handles_of_an_absent_pool_are_told_to_wait_and_foreign_ones_are_not() {
    let live = live(&[]);
    let place = |pool, dataset| live.pool(pool).map(|pool| pool.place(DatasetId(dataset)));
    assert!(matches!(place(TANK, 2), Some(Place::Here(vfs)) if vfs.dataset() == DatasetId(2)));
    assert!(matches!(place(TANK, 8), Some(Place::Going)), "being destroyed");
    assert!(matches!(place(TANK, 9), Some(Place::Unknown)), "destroyed");
    assert!(matches!(place(AWAY, 2), Some(Place::Away)));
    let keys = [TANK, AWAY, PoolGuid(99)].map(|pool| live.pool(pool).map(|pool| *pool.handle_key()));
    assert_eq!(keys, [Some([1; 32]), Some([2; 32]), None]);
}

/// A CREATE found its dataset, the pool was exported, and there was no rule any more: ACCES, to a client that had only to wait.
#[test]
fn what_a_request_has_asked_for_does_not_change_under_it() {
    let live = live(&[]);
    let pool = live.pool(TANK).unwrap();
    live.replace(&ExportTable::default());
    assert!(live.pool(TANK).is_none());
    let Place::Here(vfs) = pool.place(DatasetId(1)) else { panic!("it was here") };
    assert!(pool.rule(vfs.dataset(), "127.0.0.1".parse().unwrap()).is_some());
    assert_eq!(pool.child(DatasetId(1), vfs.root(), b"home"), Some(DatasetId(2)));
}

/// The pool knows a new dataset before there is a rule for it.
#[test]
fn a_dataset_that_was_just_made_is_waited_for() {
    let live = live(&[]);
    assert!(matches!(live.pool(TANK).unwrap().place(DatasetId(4)), Place::Away));
    let made = DatasetExport { id: DatasetId(4), name: "tank/new".into(), sharenfs: "*(rw)".into() };
    live.replace(&live.table().with(TANK, &made, &[]));
    assert!(matches!(live.pool(TANK).unwrap().place(DatasetId(4)), Place::Here(_)));
}

#[test]
fn rules_hold_for_each_dataset_and_the_configuration_stands_above_them() {
    let rule = |live: &LiveExports, dataset, client: &str| {
        live.pool(TANK)?.rule(DatasetId(dataset), client.parse().unwrap()).map(|rule| (rule.read_only, rule.squash))
    };
    let plain = live(&[]);
    assert_eq!(rule(&plain, 1, "127.0.0.1"), Some((false, Squash::None)));
    assert_eq!(rule(&plain, 1, "10.0.0.1"), None);
    assert_eq!(rule(&plain, 2, "10.0.0.1"), Some((true, Squash::Root)));
    assert_eq!(rule(&plain, 2, "10.1.0.1"), Some((false, Squash::Root)));
    assert_eq!(rule(&plain, 3, "127.0.0.1"), None);
    assert_eq!(plain.list().into_iter().map(|(path, _)| path).collect::<Vec<_>>(), ["/tank", "/tank/home"]);

    let line = |dataset: &str, rules: &str| ExportRule { dataset: dataset.into(), rules: rules.into() };
    let overridden =
        live(&[line("tank", "off"), line("tank/home", "192.168.0.0/16(ro)"), line("tank/homestead", "???")]);
    assert_eq!(rule(&overridden, 1, "127.0.0.1"), None);
    assert_eq!(rule(&overridden, 2, "192.168.3.4"), Some((true, Squash::Root)));
    assert_eq!(rule(&overridden, 2, "10.1.0.1"), None);
    assert_eq!(rule(&overridden, 3, "127.0.0.1"), None, "a rule that is not understood lets nobody in");
    assert_eq!(overridden.list().len(), 1);
}

#[test]
fn a_child_dataset_stands_in_its_parents_directory() {
    let live = live(&[]);
    let root = live.resolve("/tank").unwrap().vfs.root();
    let child = |pool, name: &[u8]| live.pool(pool)?.child(DatasetId(1), root, name);
    assert_eq!([child(TANK, b"home"), child(TANK, b"other"), child(AWAY, b"home")], [Some(DatasetId(2)), None, None]);
}

#[test]
fn a_dataset_that_is_made_is_found_like_one_that_was_there() {
    let above = [ExportRule { dataset: "tank/home".into(), rules: "10.2.0.0/16(ro)".into() }];
    let live = live(&above);
    let made = DatasetExport { id: DatasetId(4), name: "tank/home/new".into(), sharenfs: "*(rw)".into() };
    live.replace(&live.table().with(TANK, &made, &above));
    let Resolved { pool, vfs, below } = live.resolve("/tank/home/new/dir").unwrap();
    assert_eq!((vfs.dataset(), below.as_str()), (DatasetId(4), "dir"));
    let rule = |client: &str| pool.rule(DatasetId(4), client.parse().unwrap());
    assert!(rule("10.2.0.1").is_some_and(|rule| rule.read_only) && rule("10.3.0.1").is_none(), "the rule above holds");
    let paths: Vec<_> = live.list().into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["/tank", "/tank/home", "/tank/home/new"]);
}

/// A dataset that a rule kept closed was renamed, and the rule stayed with the old name.
#[test]
fn a_table_holds_for_what_had_its_name_too() {
    let line = |dataset: &str, rules: &str| ExportRule { dataset: dataset.into(), rules: rules.into() };
    let moved = |table: &str, to: &str| Moved { table: table.into(), to: to.into() };
    let file = [line("tank/a", "off"), line("tank/a/b", "*(ro)"), line("tank/d", "on"), line("tank", "on")];
    let all = [
        moved("tank/a", "tank/c"),
        moved("tank/a/b", "tank/c/b"),
        moved("tank/a", "tank/d"),
        moved("tank/x", "tank/y"),
    ];
    let rules = holding(&file, &all);
    assert_eq!(rules[..4], file);
    assert_eq!(rules[4..], [line("tank/c", "off"), line("tank/c/b", "*(ro)")]);
    assert_eq!(rule_above(&rules, "tank/c/x").map(|rule| rule.rules.as_str()), Some("off"));
}

/// What stands above and below a dataset, and for whom it leads on; names that go on with a sign below `/` stand between a dataset and what
/// is below it.
#[test]
fn a_pool_knows_what_is_above_and_below() {
    let dataset = |id, name: &str, sharenfs: &str| DatasetExport {
        id: DatasetId(id),
        name: name.into(),
        sharenfs: sharenfs.into(),
    };
    let datasets = vec![
        dataset(1, "tank", "off"),
        dataset(2, "tank/a", "off"),
        dataset(3, "tank/a-b", "off"),
        dataset(4, "tank/a/b", "10.0.0.0/8(rw)"),
        dataset(5, "tank/a/b/c", "off"),
    ];
    let known = |guid, name: &str, datasets| KnownExports {
        guid,
        name: name.into(),
        handle_key: [1; 32],
        mounted: Some(Three::new()),
        datasets,
        handover: None,
    };
    let live = LiveExports::default();
    live.replace(&ExportTable::new(vec![known(TANK, "tank", datasets), known(AWAY, "alpha", Vec::new())], &[]));
    assert_eq!(live.pools().iter().map(|pool| pool.pool_name().to_owned()).collect::<Vec<_>>(), ["alpha", "tank"]);
    let tank = live.pool(TANK).unwrap();
    assert_eq!((tank.guid(), tank.root(), live.pool(AWAY).unwrap().root()), (TANK, Some(DatasetId(1)), None));
    let parents: Vec<_> = (1..=6).map(|id| tank.parent(DatasetId(id)).map(|parent| parent.0)).collect();
    assert_eq!(parents, [None, Some(1), Some(1), Some(2), Some(4), None]);
    let children = |id| tank.children(DatasetId(id)).into_iter().map(|(name, id)| (name, id.0)).collect::<Vec<_>>();
    assert_eq!(children(1), [("a".to_owned(), 2), ("a-b".to_owned(), 3)]);
    assert_eq!((children(2), children(4), children(5)), (vec![("b".to_owned(), 4)], vec![("c".to_owned(), 5)], vec![]));
    let named = |id, name| tank.child_named(DatasetId(id), name).map(|child| child.0);
    assert_eq!(
        [named(1, "a"), named(2, "b"), named(1, "a/b"), named(1, "b"), named(1, "")],
        [Some(2), Some(4), None, None, None]
    );
    let leads =
        |client: &str| (1..=6).filter(|id| tank.leads(DatasetId(*id), client.parse().unwrap())).collect::<Vec<_>>();
    assert_eq!((leads("10.0.0.1"), leads("11.0.0.1")), (vec![1, 2, 4], vec![]));
}

/// Who has listed what is above the exports keeps that for as long as its change attribute is the same.
#[test]
fn each_table_is_later_than_the_one_before() {
    let live = live(&[]);
    let mut before = live.changed();
    assert!(before > Time(1 << 60), "by the time of day");
    for _ in 0..100 {
        live.replace(&live.table());
        assert!(live.changed() > before);
        before = live.changed();
    }
}
