use super::Size;

#[test]
fn prints_as_zfs_does() {
    let cases: &[(u64, &str)] = &[
        (0, "0B"),
        (1, "1B"),
        (1023, "1023B"),
        (1024, "1K"),
        (1536, "1.50K"),
        (1025, "1.00K"),
        (12_800, "12.5K"),
        (131_072, "128K"),
        (131_100, "128K"),
        (1_048_575, "1024K"),
        (268_435_456, "256M"),
        (10 << 30, "10G"),
        ((10 << 30) + 1, "10.0G"),
        (3 << 39, "1.50T"),
        (u64::MAX, "16.0E"),
    ];
    for &(bytes, expected) in cases {
        assert_eq!(Size(bytes).to_string(), expected, "{bytes} bytes");
    }
    assert_eq!(format!("[{:>6}]", Size(1024)), "[    1K]");
}

#[test]
fn reads_what_people_write() {
    let good: &[(&str, u64)] = &[
        ("0", 0),
        ("4096", 4096),
        ("512B", 512),
        ("128K", 131_072),
        ("128k", 131_072),
        ("1.5G", 3 << 29),
        ("10GiB", 10 << 30),
        ("10gb", 10 << 30),
        (" 2T ", 2 << 40),
        ("1.0", 1),
        ("0.0G", 0),
        ("1.0001K", 1024),
        ("15E", 15 << 60),
    ];
    for &(text, expected) in good {
        assert_eq!(text.parse(), Ok(Size(expected)), "{text}");
    }
    for text in ["", "K", "-1", "1X", "1.2.3K", "16E", "1KK", "1iB", ".5G", "one", "99999999999999999999", "1 K"] {
        assert!(text.parse::<Size>().is_err(), "{text} must not be a size");
    }
    // `refquota=0.5` took the quota away: half a byte is none, and none is no bound.
    for text in ["0.5", "1.5", "0.000000001K", "0.5B"] {
        assert!(text.parse::<Size>().is_err(), "{text} must not be a size");
    }
    let said = "0.5".parse::<Size>().unwrap_err().to_string();
    assert!(said.contains("like 0.5G"), "{said}");
}
