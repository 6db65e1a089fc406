//! A block's place names a vdev by its index in the configuration, and not by its place among those that hold data.
//!
//! The words of `pool create` put log vdevs behind all others, so that in every pool made by them the two are one number, until
//! a vdev is removed. Here the log comes first.

use tally_members::grammar::parse_vdev_args;
use tally_members::label::VdevClass;
use tally_store::bp::Dva;
use tally_store::tree::Visit;
use tally_vfs::{Cred, Identity, Names};

use crate::golden::{content, everything};
use crate::image::{large_content, make_of};

const MIB: u64 = 1 << 20;

#[test]
fn behind_a_log_vdev_blocks_are_found_by_their_vdevs_index() {
    let words = ["/disks/one", "/disks/two", "log", "/disks/slog"].map(str::to_owned);
    let mut specs = parse_vdev_args(&words).unwrap();
    specs.rotate_right(1);
    assert_eq!(specs[0].class, VdevClass::Log);
    let image = make_of(&specs, &[("/disks/one", 16 * MIB), ("/disks/two", 16 * MIB), ("/disks/slog", 2 * MIB)]);
    let (facts, outcome) = image.inspect(&everything());
    let damage: Vec<_> = facts.iter().filter(|fact| fact.is_damage()).map(ToString::to_string).collect();
    assert_eq!((outcome.pool_count, damage), (1, Vec::new()));
    let (filer, report) = image.import();
    assert_eq!((report.losses, report.records_replayed), (Vec::new(), 8));
    let tank = filer.by_name("tank").unwrap();
    let large = tank.lookup(&Cred::root(), tank.root(), b"large").unwrap().0.object;
    assert!(content(&*tank, large)[..199_000] == large_content()[..199_000]);
    filer.sync().unwrap();
    let scrubbed = filer.scrub(&mut |_| true).unwrap();
    let is_whole = scrubbed.lost_count == 0 && scrubbed.repaired_count == 0 && scrubbed.checked_bytes > MIB / 8;
    assert!(is_whole, "{scrubbed:?}");
    let (root, mut places) = (filer.pool().dataset(tank.dataset()).unwrap().root(), Vec::<Dva>::new());
    root.tree.check(&filer.pool().io, &mut |visit| {
        if let Visit::Block { bp, .. } = visit {
            places.extend(bp.dvas());
        }
    });
    let config = filer.pool().roster.config();
    let class_of = |dva: &Dva| config.vdev(dva.vdev).map(|vdev| vdev.class);
    assert!(!places.is_empty() && places.iter().all(|dva| class_of(dva) == Some(VdevClass::Data)), "{places:?}");
}
