//! Which pools' mountpoints and shares hold on which machine.

use super::*;

const MACHINES: [u64; 2] = [1, 2];

/// A pool and two machines that have it one after the other.
struct World {
    opener: Arc<MemOpener>,
    dirs: [tempfile::TempDir; 2],
}

impl World {
    fn new() -> Self {
        let opener = Arc::new(MemOpener::default());
        opener.put("/a", Arc::new(MemDisk::new(32 << 20)));
        Self { opener, dirs: MACHINES.map(|_| tempfile::tempdir().expect("a directory")) }
    }

    fn start(&self, machine: usize) -> Pools {
        begin_on(MACHINES[machine], self.dirs[machine].path(), &self.opener)
    }

    /// Whether it holds what the pool says where this machine imports it, and exports it again.
    fn holds(&self, machine: usize, order: &ImportOrder) -> bool {
        let pools = self.start(machine);
        let (pool, _) = pools.import(order, &mut |_| {}).expect("it is there");
        let holds = pool.is_accepted();
        assert!(pools.smb_shares().iter().any(|share| share.dataset == "tank/docs"), "it is told of either way");
        drop(pool);
        pools.export("tank", None).expect("it is let go");
        holds
    }
}

fn order() -> ImportOrder {
    ImportOrder { pool: "tank".into(), paths: vec!["/a".into()], ..ImportOrder::default() }
}

fn made(pools: &Pools) {
    let pool = pools.create("tank", &["/a".into()], &CreateOptions::default(), Vec::new()).expect("a pool");
    assert!(pool.is_accepted(), "it was made here");
    let set = |property: &str, value: &str| Assignment { property: property.into(), value: value.into() };
    pools.create_dataset("tank/docs", false, &[set("sharesmb", "on"), set("mountpoint", "/srv/docs")]).expect("one");
    assert_eq!(pools.brought(&pool, false), None);
}

#[test]
fn what_was_elsewhere_holds_when_it_is_accepted() {
    let world = World::new();
    let pools = world.start(0);
    made(&pools);
    pools.export("tank", None).expect("it is let go");
    drop(pools);
    assert!(world.holds(0, &order()), "it was nowhere else");
    assert!(!world.holds(1, &order()));
    assert!(!world.holds(1, &order()), "to have had it is not to have accepted it");
    assert!(!world.holds(0, &order()), "another machine has had it");
    assert!(!world.holds(0, &order()), "and then it stays so");
    let accepts = || ImportOrder { accepts_mountpoints: true, ..order() };
    assert!(world.holds(1, &accepts()) && world.holds(1, &order()));
    assert!(world.holds(0, &accepts()) && world.holds(0, &order()));
    assert!(!world.holds(1, &order()));
    // What is only read keeps the other machine's name in its labels, and what that says was accepted.
    let reads = || ImportOrder { read_only: true, ..order() };
    assert!(!world.holds(0, &ImportOrder { read_only: true, ..order() }));
    assert!(world.holds(0, &ImportOrder { accepts_mountpoints: true, ..reads() }) && world.holds(0, &reads()));
}

/// The labels name the machine that imports from then on: if it ends right behind that, the next start knows no other.
#[test]
fn what_is_not_accepted_is_forgotten_before_the_pool_is_claimed() {
    let world = World::new();
    let pools = world.start(0);
    made(&pools);
    let config = pools.pool("tank").expect("it is there").filer.pool().roster.config();
    let mut elsewhere = config.clone();
    elsewhere.host.id = MACHINES[1];
    assert!(pools.accepts(&config) && !pools.accepts(&elsewhere));
    let state = State::load(world.dirs[0].path()).expect("a list");
    assert!(!state.accepts(config.pool, &config.handle_key, MACHINES[0]));
    pools.export("tank", None).expect("it is let go");
}

#[test]
fn what_a_pool_brings_is_told_and_bounded() {
    let world = World::new();
    let pools = world.start(0);
    made(&pools);
    let pool = pools.pool("tank").expect("it is there");
    pools.accept(&pool, false).expect("a list");
    let told = pools.brought(&pool, false).expect("it is not accepted");
    assert!(
        told.contains("mountpoints: tank/docs on /srv/docs; shares: tank_docs of tank/docs on /srv/docs. "),
        "{told}"
    );
    for nth in 0..20 {
        let mountpoint = Assignment { property: "mountpoint".into(), value: format!("/srv/{nth}") };
        pools.create_dataset(&format!("tank/d{nth}"), false, &[mountpoint]).expect("a dataset");
    }
    let told = pools.brought(&pool, false).expect("it is not accepted");
    assert!(told.contains("tank/d15 on /srv/15, and 13 more; shares: "), "{told}");
    pools.export("tank", None).expect("it is let go");
}
