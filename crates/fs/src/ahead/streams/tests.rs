use std::ops::Range;

use super::*;
use crate::ahead::stream::{UNHURRIED_BYTES_MAX, WINDOW_BYTES_MAX};

const RECORD: u64 = 128 << 10;

fn file(object: u64) -> FileId {
    FileId { dataset: DatasetId(1), object: ObjectId(object) }
}

/// A world in which what is asked for is there at once, and nothing else.
struct Reader {
    streams: Streams,
    limits: Limits,
    there: std::collections::HashSet<(u64, u64)>,
    /// Blocks that were asked for ahead.
    asked: u64,
    /// READs that had to go to the disk.
    missed: u64,
}

impl Reader {
    fn new() -> Self {
        let limits = Limits { now: Duration::ZERO, record_size: RECORD, fetched_bytes_max: 32 << 20 };
        Self { streams: Streams::default(), limits, there: Default::default(), asked: 0, missed: 0 }
    }

    fn read(&mut self, object: u64, blocks: Range<u64>, file_blocks: u64) -> Noted {
        let is_missed = blocks.clone().any(|block| !self.there.contains(&(object, block)));
        self.missed += u64::from(is_missed);
        let touch = Touch { blocks, file_blocks, is_missed, is_late: false };
        let noted = self.streams.note(file(object), &touch, &self.limits);
        for block in noted.wanted.iter().flat_map(Wanted::ranges).flatten() {
            assert!(block < file_blocks, "block {block} of {file_blocks}");
            self.asked += u64::from(self.there.insert((object, block)));
        }
        noted
    }
}

#[test]
fn a_stream_misses_little_whichever_way_it_goes() {
    let in_order = |count: u64| (0..count).map(|at| at..at + 1).collect::<Vec<_>>();
    // Eight connections, whose READs overtake each other within eight.
    let disorder = |count: u64| -> Vec<Range<u64>> {
        (0..count / 8).flat_map(|at| [3, 0, 5, 1, 2, 7, 4, 6].map(|of| at * 8 + of)).map(|at| at..at + 1).collect()
    };
    let cases: [(&str, Vec<Range<u64>>, u64); 7] = [
        ("one by one", in_order(400), 2),
        ("from the middle", (100..400).map(|at| at..at + 1).collect(), 3),
        ("eight blocks at a time", (0..50).map(|at| at * 8..at * 8 + 8).collect(), 2),
        ("backwards", in_order(400).into_iter().rev().collect(), 3),
        ("out of order", disorder(400), 24),
        ("every fifth", (0..80).map(|at| at * 5..at * 5 + 1).collect(), 4),
        ("every fifth, backwards", (0..80).rev().map(|at| at * 5..at * 5 + 1).collect(), 4),
    ];
    for (name, reads, missed_max) in cases {
        let mut reader = Reader::new();
        for blocks in reads {
            reader.read(1, blocks, 400);
        }
        assert!(reader.missed <= missed_max, "{name}: {} missed", reader.missed);
        assert!(reader.asked <= 400, "{name}: {} asked for", reader.asked);
    }
}

#[test]
fn who_reads_at_random_has_nothing_fetched() {
    let mut reader = Reader::new();
    let mut state = 1_u64;
    for _ in 0..20_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let block = (state >> 33) % 100_000;
        assert!(!reader.read(1, block..block + 1, 100_000).is_of_stream || reader.asked < 40);
    }
    assert!(reader.asked < 40, "{} blocks for a random reader", reader.asked);
}

#[test]
fn a_file_has_dozens_of_streams_and_a_pool_hundreds() {
    let mut reader = Reader::new();
    for at in 0..200 {
        for stream in 0..24 {
            reader.read(1, stream * 1000 + at..stream * 1000 + at + 1, 24_000);
        }
        for other in 2..200 {
            reader.read(other, at..at + 1, 1000);
        }
    }
    // Those that begin at even distances are taken for one that goes by steps, at first.
    assert!(reader.missed <= 24 * 4 + 198 * 2, "{} missed", reader.missed);
}

#[test]
fn windows_grow_while_the_reader_waits_and_divide_the_share() {
    let mut reader = Reader::new();
    let mut most = |late: bool, streams: u64| {
        reader.streams = Streams::default();
        let mut most = 0;
        for at in 0..400 {
            for object in 0..streams {
                let touch = Touch { blocks: at..at + 1, file_blocks: 4000, is_missed: false, is_late: late };
                let noted = reader.streams.note(file(object), &touch, &reader.limits);
                most = most.max(noted.wanted.map_or(0, |wanted| wanted.first.end - (at + 1)));
            }
        }
        most * RECORD
    };
    assert_eq!(most(false, 1), UNHURRIED_BYTES_MAX, "a reader who never waits");
    assert_eq!(most(true, 1), WINDOW_BYTES_MAX, "one who always waits");
    assert!(most(true, 16) <= (32 << 20) / 15, "sixteen");
}

/// Sixteen readers who begin at once had 38 reads of single blocks, each a turn of the disk for all.
#[test]
fn who_has_to_wait_for_what_a_stream_begins_with_has_more_of_it() {
    let mut reader = Reader::new();
    assert_eq!(reader.read(1, 0..1, 400).wanted, None, "one READ is no stream");
    let wanted = reader.read(1, 1..2, 400).wanted.expect("the second of a file is one");
    assert!(wanted.first.end - wanted.first.start >= 4, "{wanted:?}");
    // What is in line may be so by chance.
    let mut reader = Reader::new();
    for at in [100, 105, 110] {
        assert_eq!(reader.read(1, at..at + 1, 400).wanted, None);
    }
    reader.read(1, 115..116, 400);
    assert!(reader.asked <= 4, "{} blocks", reader.asked);
}

/// Sixteen files of 16 MiB took seven reads each, where six bring the whole: the reader of the second one was never
/// late, so that the third was as short.
#[test]
fn what_comes_behind_a_piece_that_somebody_waited_for_is_longer() {
    let mut reader = Reader::new();
    // Another one keeps the disk busy.
    for at in [0, 1] {
        reader.read(2, at..at + 1, 128);
    }
    let pieces: Vec<u64> = (0..128)
        .filter_map(|at| reader.read(1, at..at + 1, 128).wanted)
        .map(|wanted| wanted.first.end - wanted.first.start)
        .collect();
    assert!(pieces[1] >= 3 * pieces[0] && pieces.iter().sum::<u64>() == 127, "{pieces:?}");
    // Once: who is not late after that has enough.
    assert!(pieces[2..].iter().all(|piece| *piece <= pieces[1]), "{pieces:?}");
}

#[test]
fn the_table_is_bounded() {
    let mut reader = Reader::new();
    for object in 0..10 * FILES_MAX as u64 {
        for at in 0..3 {
            reader.read(object, 10 * at..10 * at + 1, 1000);
        }
    }
    assert!(reader.streams.files.len() <= FILES_MAX && reader.streams.order.len() <= FILES_MAX);
    for at in 0..10 * STREAMS_PER_FILE_MAX as u64 {
        reader.read(1, at * at * 7..at * at * 7 + 1, 1 << 40);
    }
    assert!(reader.streams.files.values().all(|streams| streams.len() <= STREAMS_PER_FILE_MAX));
}

/// Numbers as they come from a damaged inode, or from a client in bad faith.
#[test]
fn no_number_is_too_large() {
    let mut reader = Reader::new();
    let end = u64::MAX / RECORD;
    for at in (0..40).chain((0..40).rev()) {
        reader.read(1, end - 40 + at..end - 40 + at + 1, end);
        reader.read(2, end - 40 * (at + 1)..end - 40 * (at + 1) + 1, u64::MAX);
        reader.read(3, at * (end / 41)..at * (end / 41) + 1, u64::MAX);
    }
}

/// More streams than the share has blocks: what was fetched for one pushed out what was fetched for another before
/// anybody came for it, and each block was read twice.
#[test]
fn nothing_is_fetched_for_streams_of_which_each_has_less_than_a_block() {
    let mut reader = Reader::new();
    reader.limits.fetched_bytes_max = 8 * RECORD;
    let mut most = 0;
    for at in 0..20 {
        for object in 0..32 {
            let wanted = reader.read(object, at..at + 1, 1000).wanted;
            let ahead = wanted.map_or(0, |wanted| wanted.first.end.saturating_sub(at + 1));
            most = most.max(if at > 2 { ahead } else { 0 });
        }
    }
    assert_eq!(most, 0);
}

/// A READ that has looked at the clock in one second may come behind one of the next. The streams were counted anew for
/// each of the two, and each had nearly all of the share.
#[test]
fn who_comes_late_from_the_second_before_changes_no_count() {
    let mut reader = Reader::new();
    let mut most = 0;
    for at in 0..200 {
        for object in 0..16 {
            let from_before = at % 10 == 9 && object == 7;
            reader.limits.now = Duration::from_millis(100 * (at + 1) - if from_before { 1000 } else { 0 });
            let touch = Touch { blocks: at..at + 1, file_blocks: 200, is_missed: false, is_late: true };
            let wanted = reader.streams.note(file(object), &touch, &reader.limits).wanted;
            let ahead = wanted.map_or(0, |wanted| wanted.first.end - (at + 1));
            most = most.max(if at > 2 { ahead } else { 0 });
        }
    }
    assert!(most * RECORD <= (32 << 20) / 15, "{most} blocks");
}
