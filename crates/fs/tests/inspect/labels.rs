//! What inspect says of labels: legs and what they missed, sections that nobody here knows, labels of another format.

use std::sync::Arc;

use tally_base::{SystemClock, SystemRng, Txg};
use tally_disk::{Disk, Durability, Helpers, Host, Platform, SerialFanout};
use tally_fakes::{MemDisk, MemOpener};
use tally_members::create::{CreateOptions, create};
use tally_members::grammar::parse_vdev_args;
use tally_members::label::{self, Section, TxgRange};
use tally_store::inspect::Plan;

use crate::image::Image;

const MIB: u64 = 1 << 20;

/// A mirror that a newer program had, and a disk of a program from before.
#[test]
fn what_labels_have_of_later_and_earlier_programs_is_shown() {
    let disks = ["/disks/a", "/disks/b", "/disks/old"].map(|path| (path, Arc::new(MemDisk::new(16 * MIB))));
    let opener = Arc::new(MemOpener::default());
    disks.iter().for_each(|(path, disk)| opener.put(path, Arc::clone(disk) as _));
    let platform = Platform {
        clock: Arc::new(SystemClock::default()),
        rng: Arc::new(SystemRng),
        opener,
        fanout: Arc::new(SerialFanout),
        helpers: Helpers::Threads,
        host: Host { id: 1, name: "test".into() },
    };
    let vdevs = parse_vdev_args(&["mirror", "/disks/a", "/disks/b"].map(str::to_owned)).unwrap();
    let pool = create(&platform, "tank", &vdevs, &CreateOptions::default()).unwrap();
    pool.roster.claim(&platform.host, platform.rng.as_ref(), 0).unwrap();
    let mut config = pool.roster.config();
    config.sequence += 1;
    config.vdevs[0].legs[1].stale_since = Some(2);
    config.vdevs[0].legs[1].is_offline = true;
    config.vdevs[0].legs[1].joined_txg = Txg(9);
    config.vdevs[0].legs[1].missed.note(TxgRange { from: Txg(17), to: Txg(18) });
    let section = |id, must_be_known| Section { id, must_be_known, bytes: vec![1; 3] };
    config.carried = vec![section(77, false), section(78, true)];
    let guid = config.vdevs[0].legs[0].guid;
    label::write(disks[0].1.as_ref(), guid, &config).unwrap();
    let old = include_bytes!("../../../members/tests/golden/label-v1.bin");
    disks[2].1.write(0, old, Durability::Durable).unwrap();

    let image = Image { disks: disks.iter().map(|(path, disk)| ((*path).to_owned(), disk.content())).collect() };
    let (facts, _) = image.inspect(&Plan { labels: true, ..Plan::default() });
    let lines: Vec<_> = facts.iter().map(ToString::to_string).collect();
    let lagging = config.vdevs[0].legs[1].guid;
    for expected in [
        format!("vdev leg vdev=0 leg={:016x} path=/disks/a slot=0 bytes=16777216 joined_txg=0", guid.0),
        format!(
            "vdev leg vdev=0 leg={:016x} path=/disks/b slot=0 bytes=16777216 joined_txg=9 stale_since=2 offline=yes",
            lagging.0
        ),
        format!("missed groups leg={:016x} from=17 to=18", lagging.0),
        "section section=77 bytes=3: not known to this program, which carries it along".to_owned(),
        "section section=78 bytes=3: not known to this program, which may therefore only read the pool".to_owned(),
        "it was made by a version before 0.1.0, in format 1, and this program cannot read that".to_owned(),
    ] {
        assert_eq!(lines.iter().filter(|line| line.contains(&expected)).count(), 1, "{expected}: {lines:#?}");
    }
}
