//! The disks without their kernel: requests in, a recording out.

use super::*;
use crate::recording::{Event, Recording};

fn shelf(recording: &Path) -> Arc<Shelf> {
    let sizes: Vec<Size> = ["pool=2", "log=1"].iter().map(|size| size.parse().unwrap()).collect();
    Shelf::new(recording, &sizes).unwrap()
}

fn ask(shelf: &Shelf, disk: usize, action: &Action) -> (u32, Vec<u8>) {
    let (status, data) = shelf.with(|state| state.perform(disk, action)).unwrap().unwrap();
    (status as u32, data)
}

fn write(offset: u64, byte: u8, through: bool) -> Action {
    Action::Write { offset, data: vec![byte; 1024], through }
}

#[test]
fn what_disks_are_told_is_read_back_in_one_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording");
    let shelf = shelf(&path);
    assert_eq!(ask(&shelf, 1, &write(4096, 7, true)).0, 0);
    assert_eq!(ask(&shelf, 0, &write((2 << 20) - 1024, 8, false)).0, 0);
    let (ours, theirs) = UnixStream::pair().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| shelf.marks(theirs).unwrap());
        let mut ours = ours;
        ours.write_all(b"step:1\n").unwrap();
        let mut answer = String::new();
        BufReader::new(&ours).read_line(&mut answer).unwrap();
        assert_eq!(answer, "\n");
        ours.shutdown(std::net::Shutdown::Both).unwrap();
    });
    assert_eq!(ask(&shelf, 1, &Action::Flush).0, 0);
    assert_eq!(ask(&shelf, 0, &Action::Flush).0, 0);
    assert_eq!(
        ask(&shelf, 1, &Action::Read { offset: 4608, length: 1024 }),
        (0, [vec![7; 512], vec![0; 512]].concat())
    );
    for wrong in [write(2 << 20, 1, false), write(u64::MAX - 100, 1, false), Action::Other] {
        assert_eq!(ask(&shelf, 0, &wrong).0, 22, "{wrong:?}");
    }
    assert_eq!(ask(&shelf, 0, &Action::Read { offset: 2 << 20, length: 1 }).0, 22);
    shelf.with(|state| state.recording.mark("end")).unwrap().unwrap();

    let recording = Recording::read(&path).unwrap();
    let disks: Vec<_> = recording.disks.iter().map(|disk| (disk.name.as_str(), disk.bytes)).collect();
    assert_eq!(disks, [("pool", 2 << 20), ("log", 1 << 20)]);
    let told: Vec<_> = recording
        .events
        .iter()
        .map(|event| match event {
            Event::Write { disk, offset, data, durable } => {
                format!("{disk} {offset} {:?} {durable}", recording.data(data)[0])
            }
            Event::Flush { disk } => format!("flush {disk}"),
            Event::Mark(text) => text.clone(),
        })
        .collect();
    assert_eq!(told, ["1 4096 7 true", "0 2096128 8 false", "step:1", "flush 1", "flush 0", "end"]);
}

#[test]
fn a_write_within_a_sector_ends_the_recording() {
    let folder = tempfile::tempdir().unwrap();
    let shelf = shelf(&folder.path().join("recording"));
    assert!(shelf.with(|state| state.perform(0, &write(100, 1, false))).unwrap().is_err());
}

#[test]
fn sizes_are_names_with_mebibytes() {
    for wrong in ["pool", "pool=", "pool=x", "pool=99999999999999999"] {
        assert!(wrong.parse::<Size>().is_err(), "{wrong}");
    }
}
