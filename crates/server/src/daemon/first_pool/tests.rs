use super::*;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

#[test]
fn the_size_is_the_smaller_of_ten_gibibytes_and_half_of_what_is_free() {
    let cases: &[(Option<u64>, u64, Option<u64>)] = &[
        (None, 100 * GIB, Some(10 * GIB)),
        (None, 8 * GIB + 5, Some(4 * GIB)),
        (None, 400 * MIB, Some(144 * MIB)),
        (None, 300 * MIB, None),
        (None, 0, None),
        (Some(GIB), 100 * GIB, Some(GIB)),
        (Some(50 * GIB), 100 * GIB, Some(50 * GIB)),
        (Some(100 * GIB), 100 * GIB, None),
        (Some(MIB), 100 * GIB, None),
        (Some(u64::MAX), u64::MAX, None),
    ];
    for &(asked, free, expected) in cases {
        let size = Plan::new(Path::new("/data"), asked, free).ok().map(|plan| plan.size);
        assert_eq!(size, expected, "asked {asked:?} of {free}");
    }
    let words = Plan::new(Path::new("/data"), None, GIB).unwrap().vdev_words();
    assert_eq!(words, ["/data/tank.img", "log", "/data/log.img"]);
    assert!(free_bytes(Path::new("/")).unwrap() > 0);
}
