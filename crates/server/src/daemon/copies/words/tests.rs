use super::*;

/// Whoever reads that space is free again must not have to ask whether all of it is, or whether it may be in use.
#[test]
fn a_scrub_tells_what_it_has_found_out_of_space() {
    let found = |leaked_bytes, hidden, given_bytes, alarm_count| {
        let space = Some(SpaceFound { leaked_bytes, hidden, given_bytes, alarm_count });
        scrub_words(&SecureReport { space, ..SecureReport::default() }, Duration::from_secs(2), "today")
    };
    let plain = "scrub repaired 0 blocks in 2 s with 0 errors on today";
    assert_eq!(found(0, false, 0, 0), plain);
    assert_eq!(found(0, true, 0, 0), plain, "what is damaged is told as that");
    for (words, expected) in [
        (found(1 << 20, false, 1 << 20, 0), "1M, which nothing named, are free again"),
        (
            found(1 << 20, false, 4096, 0),
            "4K of 1M, which nothing named, are free again: the next scrub gives back more",
        ),
        (found(1 << 20, true, 0, 0), "1M are in use and were not met: something that cannot be read may name them"),
        (found(1 << 20, false, 0, 1), "1 place is in use twice, or was in use and free"),
        (found(0, false, 0, 2), "2 places are in use twice, or were in use and free"),
        (scrub_words(&SecureReport::default(), Duration::ZERO, "today"), "only a scrub in one piece does that"),
    ] {
        assert!(words.contains(expected), "{words}");
    }
}
