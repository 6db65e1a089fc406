use std::path::Path;

use tally_base::{FileTime, PoolGuid, Time};

use super::{Fact, Part, Source, Value, text_of};

#[test]
fn a_fact_is_one_line_with_its_place() {
    let fact = Fact::new(Part::Log, "frame").at(Source::new(Path::new("/dev/sda"), 0x41000)).with("seq", 7u64);
    assert_eq!(fact.to_string(), "/dev/sda@0x41000: frame seq=7");
    assert_eq!(fact.clone().damaged("torn").to_string(), "/dev/sda@0x41000: DAMAGE frame seq=7: torn");
    assert_eq!(fact.note("old").to_string(), "/dev/sda@0x41000: frame seq=7: old");
    assert_eq!(Fact::new(Part::Pool, "leg").with("pool", PoolGuid(0xab)).to_string(), "-: leg pool=00000000000000ab");
}

#[test]
fn nothing_from_a_disk_reaches_the_terminal_as_it_is() {
    let cases: [(&[u8], &str); 7] = [
        (b"plain-1.txt", "plain-1.txt"),
        (b"", "\"\""),
        (b"two words", "\"two words\""),
        (b"a=b", "\"a=b\""),
        (b"\x1b[2J\n", "\"\\u{1b}[2J\\n\""),
        (b"\xff\\", "\"\\xff\\\\\""),
        ("größe".as_bytes(), "\"größe\""),
    ];
    for (bytes, expected) in cases {
        assert_eq!(text_of(bytes).to_string(), expected);
    }
}

#[test]
fn times_are_dates() {
    let cases = [
        (0, "1970-01-01T00:00:00.000000000Z"),
        (951_782_400_000_000_001, "2000-02-29T00:00:00.000000001Z"),
        (1_735_689_599_500_000_000, "2024-12-31T23:59:59.500000000Z"),
        (4_107_542_400_000_000_000, "2100-03-01T00:00:00.000000000Z"),
        (u64::MAX, "2554-07-21T23:34:33.709551615Z"),
    ];
    for (time, expected) in cases {
        assert_eq!(Value::Time(Time(time)).to_string(), expected);
    }
    for (time, expected) in [(-1, "1969-12-31T23:59:59.999999999Z"), (i64::MIN, "1677-09-21T00:12:43.145224192Z")] {
        assert_eq!(Value::FileTime(FileTime(time)).to_string(), expected);
    }
}
