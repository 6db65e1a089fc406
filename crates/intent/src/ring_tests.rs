use proptest::prelude::*;

use super::*;

#[test]
fn shapes_of_rings() {
    for (size, frame_bytes_max) in [
        (64 << 10, 8 << 10),
        (1 << 20, 128 << 10),
        ((1 << 20) + 5000, 128 << 10),
        (32 << 20, 4 << 20),
        (256 << 20, (4 << 20) + (64 << 10)),
        (1 << 30, (4 << 20) + (64 << 10)),
        (16 << 30, (4 << 20) + (64 << 10)),
    ] {
        let geometry = LaneGeometry::for_size(size);
        assert_eq!(geometry.frame_bytes_max, frame_bytes_max, "a ring of {size} bytes");
        assert!(geometry.window_bytes() <= geometry.size);
    }
}

#[test]
fn a_frame_begins_where_the_longest_one_would_fit() {
    let geometry = LaneGeometry::for_size(1 << 20);
    let last = geometry.size - u64::from(geometry.frame_bytes_max);
    assert_eq!(geometry.place(last), last);
    assert_eq!(geometry.place(last + SECTOR as u64), geometry.size);
    assert_eq!(geometry.place(5 * geometry.size + last + SECTOR as u64), 6 * geometry.size);
}

#[test]
fn what_is_refused_says_why() {
    let geometry = LaneGeometry::for_size(64 << 10);
    let budget = Budget::new(&geometry);
    assert_eq!(budget.take(56 << 10), Ok(()));
    let full = RingFull::Full { needed_bytes: 4096, used_bytes: 56 << 10, size_bytes: 64 << 10 };
    assert_eq!(budget.take(4096), Err(full), "8 KiB stay free for a gap");
    budget.give(4096);
    assert_eq!(budget.take(4096), Ok(()));
}

proptest! {
    /// The argument in the module's head: whoever was let in finds room, whatever the lengths and whenever the tail
    /// moves.
    #[test]
    fn reserved_frames_never_reach_the_tail(
        sectors in 16..80_u64,
        steps in proptest::collection::vec((1..4_u64, 0..3_u8), 1..200),
    ) {
        let sector = SECTOR as u64;
        let geometry = LaneGeometry {
            size: sectors * sector,
            frame_bytes_max: u32::try_from((sectors / 8).max(2) * sector).unwrap(),
            frames_in_flight_max: 4,
        };
        let budget = Budget::new(&geometry);
        let (mut head, mut tail) = (0, 0);
        let mut frames = std::collections::VecDeque::new();
        for (length, action) in steps {
            let bytes = (length * sector).min(u64::from(geometry.frame_bytes_max));
            if budget.take(bytes).is_ok() {
                prop_assert!(head + bytes - tail <= geometry.size, "head {head}, tail {tail}, frame {bytes}");
                frames.push_back(head);
                let next = geometry.place(head + bytes);
                budget.charge_frame(bytes, next - head);
                head = next;
            } else {
                prop_assert!(head > tail, "an empty ring takes any frame");
            }
            for _ in 0..action {
                if frames.pop_front().is_some() {
                    let next = frames.front().copied().unwrap_or(head);
                    budget.give(next - tail);
                    tail = next;
                }
            }
            prop_assert_eq!(budget.fill().used, head - tail);
        }
    }
}
