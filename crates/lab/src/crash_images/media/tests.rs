//! What a cut may leave, with bytes small enough to count.

use super::*;
use crate::recording::Writer;

const BYTES: u64 = 1 << 16;

/// Disks `a` and `b` of 64 KiB. Events are `w` (cached) or `W` (durable) with disk, sector, and a letter for each
/// sector's bytes; or `f` with the disk.
fn recording(events: &[&str]) -> Recording {
    const SECTORS: u64 = BYTES / SECTOR as u64;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording");
    let mut writer = Writer::create(&path).unwrap();
    writer.mark(&format!("disk:a:0:{SECTORS}")).unwrap();
    writer.mark(&format!("disk:b:{SECTORS}:{SECTORS}")).unwrap();
    for event in events {
        let words: Vec<_> = event.split(' ').collect();
        let first = if words[1] == "a" { 0 } else { SECTORS };
        match words[..] {
            ["f", _] => writer.flush(first).unwrap(),
            [how, _, sector, letters] => {
                let data: Vec<_> = letters.bytes().flat_map(|letter| [letter; SECTOR]).collect();
                writer.write(first + sector.parse::<u64>().unwrap(), &data, how == "W").unwrap();
            }
            _ => panic!("{event}"),
        }
    }
    writer.mark("end").unwrap();
    Recording::read(&path).unwrap()
}

fn media_after(events: &[&str], look: impl FnOnce(&Media<'_>)) {
    let recording = recording(events);
    let mut media = Media::new(&recording);
    for event in &recording.events {
        media.apply(event);
    }
    look(&media);
}

/// The first sectors of a disk, a letter each; a sector of different bytes shows as `?`.
fn sectors(folder: &Path, name: &str) -> String {
    let bytes = std::fs::read(folder.join(name)).unwrap();
    assert_eq!(bytes.len() as u64, BYTES);
    let letter = |sector: &[u8]| match sector[0] {
        _ if sector.iter().any(|byte| *byte != sector[0]) => '?',
        0 => '.',
        byte => char::from(byte),
    };
    bytes.chunks(SECTOR).take(10).map(letter).collect()
}

#[test]
fn what_is_durable_stands_in_the_images() {
    let cases: [(&[&str], &str, &str); 7] = [
        (&["w a 0 xy"], "..........", ".........."),
        (&["w a 0 xy", "f a"], "xy........", ".........."),
        (&["w a 0 xy", "f b"], "..........", ".........."),
        (&["W a 1 xy", "w b 2 z", "f b"], ".xy.......", "..z......."),
        (&["w a 0 xxxx", "w a 1 yy", "f a"], "xyyx......", ".........."),
        // The cache's older sectors must not come back over what went past it.
        (&["w a 0 xxxxx", "W a 1 yy", "f a"], "xyyxx.....", ".........."),
        (&["w a 6 xxxx", "f a", "W a 7 yyy"], "......xyyy", ".........."),
    ];
    for (events, first, second) in cases {
        let folder = tempfile::tempdir().unwrap();
        media_after(events, |media| media.write(folder.path(), &[]).unwrap());
        assert_eq!(
            (sectors(folder.path(), "a").as_str(), sectors(folder.path(), "b").as_str()),
            (first, second),
            "{events:?}"
        );
    }
}

#[test]
fn a_durable_write_takes_its_sectors_out_of_the_cache() {
    let left = |newer: &str| {
        let mut left = Vec::new();
        let events = ["w a 2 xxxx", newer];
        let recording = recording(&events);
        let mut media = Media::new(&recording);
        recording.events.iter().for_each(|event| media.apply(event));
        for piece in media.cached() {
            left.push((piece.offset / SECTOR as u64, piece.data.len() / SECTOR));
        }
        left
    };
    for (newer, expected) in [
        ("W a 0 yy", vec![(2, 4)]),
        ("W a 6 yy", vec![(2, 4)]),
        ("W a 0 yyy", vec![(3, 3)]),
        ("W a 3 yy", vec![(2, 1), (5, 1)]),
        ("W a 5 yy", vec![(2, 3)]),
        ("W a 2 yyyy", vec![]),
        ("W a 0 yyyyyyyy", vec![]),
        ("W b 2 yyyy", vec![(2, 4)]),
    ] {
        assert_eq!(left(newer), expected, "{newer}");
    }
}

#[test]
fn cuts_leave_every_part_of_a_cache_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = std::collections::BTreeSet::new();
    media_after(&["W a 0 oooo", "w a 1 xx", "w a 2 yy"], |media| {
        for number in 0..500 {
            let mut draw = Draw::new(1, number);
            let survivors: Vec<_> = media.cached().into_iter().flat_map(|piece| piece.survivors(&mut draw)).collect();
            media.write(folder.path(), &survivors).unwrap();
            seen.insert(sectors(folder.path(), "a")[..5].to_owned());
        }
    });
    let mut possible = std::collections::BTreeSet::new();
    for (second, third, fourth) in
        [("o", "o", "o"), ("o", "o", "y"), ("o", "x", "o"), ("o", "x", "y"), ("o", "y", "o"), ("o", "y", "y")]
    {
        possible.insert(format!("o{second}{third}{fourth}."));
        possible.insert(format!("ox{third}{fourth}."));
    }
    assert_eq!(seen, possible);
}
