//! The conformance suite that the in-memory model passes, on the real file system over memory disks.

mod world;

use std::sync::Arc;

use tally_vfs::Vfs;
use world::World;

#[test]
fn the_real_file_system_keeps_every_rule_of_the_suite() {
    tally_vfs::suite::run_all(&|| {
        let world = World::new(32 << 20, 8 << 20);
        let filer = world.create();
        let filesystem: Arc<dyn Vfs> = filer.by_name("tank").unwrap();
        filesystem
    });
}
