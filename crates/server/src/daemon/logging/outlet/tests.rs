use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use super::*;

fn outlet(file: File) -> (Outlet, Arc<AtomicU64>) {
    let told = Arc::new(AtomicU64::new(0));
    let sum = Arc::clone(&told);
    (Outlet::start(Some(file), move |dropped| _ = sum.fetch_add(dropped, SeqCst)), told)
}

const PATIENCE: Duration = Duration::from_secs(60);
const LINE: &[u8] = b"a line of the log, as long as such lines are\n";
/// More than a pipe, the lines that wait, and as many again that the writer has in hand if it came late: on a busy machine 40,000 were not.
const LINES: u64 = (3 * WAITING_BYTES_MAX / LINE.len()) as u64;

/// A terminal that was stopped, or a pipe that nobody read, stopped every thread that had something to say.
#[test]
fn nobody_waits_for_a_pipe_that_is_not_read() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let (outlet, told) = outlet(File::from(std::os::fd::OwnedFd::from(writer)));
    for _ in 0..LINES {
        outlet.push(LINE);
    }
    let dropped = outlet.lines_dropped();
    assert!(dropped > 0 && dropped < LINES, "{dropped}");
    outlet.flush(Duration::from_millis(1));
    assert_eq!(told.load(SeqCst), 0, "nobody reads yet");
    let kept = usize::try_from(LINES - dropped).unwrap() * LINE.len();
    let mut read = vec![0; kept];
    reader.read_exact(&mut read).unwrap();
    assert!(read.chunks(LINE.len()).all(|line| line == LINE), "whole lines");
    outlet.flush(PATIENCE);
    assert_eq!((told.load(SeqCst), outlet.lines_dropped()), (dropped, dropped));
    outlet.push(b"again\n");
    reader.read_exact(&mut read[..6]).unwrap();
    assert_eq!(&read[..6], b"again\n");
}

#[test]
fn a_full_disk_costs_the_lines_alone() {
    let (outlet, told) = outlet(File::options().write(true).open("/dev/full").unwrap());
    for round in 1..=3 {
        outlet.push(LINE);
        outlet.flush(PATIENCE);
        assert_eq!((outlet.lines_dropped(), told.load(SeqCst)), (round, 0), "there is no place to tell it");
    }
}

#[test]
fn a_line_that_is_longer_than_all_the_room_is_told_of() {
    let (_reader, writer) = std::io::pipe().unwrap();
    let (outlet, told) = outlet(File::from(std::os::fd::OwnedFd::from(writer)));
    let mut line = vec![b'x'; WAITING_BYTES_MAX];
    line.push(b'\n');
    outlet.push(&line);
    outlet.push(LINE);
    outlet.flush(PATIENCE);
    while told.load(SeqCst) == 0 {
        thread::yield_now();
    }
    assert!(outlet.lines_dropped() >= 1);
}
