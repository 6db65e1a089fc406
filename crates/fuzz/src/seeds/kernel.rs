//! Messages as Linux sends them to a FUSE server: of each sort one, and some of them in a row.

use super::{Seed, put_blob};

/// A head, and what is behind it in the order of this machine.
fn message(opcode: u32, words: &[u32], rest: &[u8]) -> Vec<u8> {
    let length = 40 + 4 * words.len() + rest.len();
    let head = [length as u32, opcode, 8, 0, 1, 0, 1000, 100, 4711, 0];
    let mut bytes: Vec<u8> = head.iter().chain(words).flat_map(|word| word.to_ne_bytes()).collect();
    bytes.extend_from_slice(rest);
    bytes
}

pub(super) fn seeds() -> Vec<Seed> {
    let all: Vec<(&str, Vec<u8>)> = vec![
        ("init", message(26, &[7, 45, 131_072, u32::MAX, 0, 0, 0, 0], &[0; 32])),
        ("lookup", message(1, &[], b"name\0")),
        ("setattr", message(4, &[0x248, 0, 9, 0, 4096, 0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 5, 6, 0o644, 0, 7, 8, 0], &[])),
        ("symlink", message(6, &[], b"name\0target\0")),
        ("mknod", message(8, &[0o010_644, 0x0102, 0o022, 0], b"pipe\0")),
        ("mkdir", message(9, &[0o755, 0o022], b"dir\0")),
        ("rename", message(12, &[9, 0], b"from\0to\0")),
        ("rename2", message(45, &[9, 0, 1, 0], b"from\0to\0")),
        ("link", message(13, &[77, 0], b"other\0")),
        ("open", message(14, &[0o1002, 1], &[])),
        ("create", message(35, &[0o102, 0o100_644, 0o022, 0], b"new\0")),
        ("read", message(15, &[2, 0, 4096, 0, 65_536, 0, 0, 0, 0, 0], &[])),
        ("write", message(16, &[2, 0, 5, 0, 4, 1, 0, 0, 2, 0], b"data")),
        ("flush", message(25, &[2, 0, 0, 0, 11, 12], &[])),
        ("release", message(18, &[2, 0, 0o2, 0, 11, 12], &[])),
        ("fsync", message(20, &[2, 0, 1, 0], &[])),
        ("setxattr", message(21, &[2, 1], b"user.note\0vw")),
        ("getxattr", message(22, &[64, 0], b"user.note\0")),
        ("listxattr", message(23, &[64, 0], &[])),
        ("getlk", message(31, &[2, 0, 11, 12, 10, 0, 19, 0, 0, 4711, 0, 0], &[])),
        ("setlk", message(32, &[2, 0, 11, 12, 10, 0, u32::MAX, i32::MAX as u32, 1, 4711, 0, 0], &[])),
        ("setlkw", message(33, &[2, 0, 11, 12, 0, 0, 9, 0, 2, 4711, 1, 0], &[])),
        ("readdirplus", message(44, &[0, 0, 3, 0, 4096, 0, 0, 0, 0, 0], &[])),
        ("fallocate", message(43, &[2, 0, 0, 0, 8192, 0, 3, 0], &[])),
        ("lseek", message(46, &[2, 0, 5, 0, 3, 0], &[])),
        ("interrupt", message(36, &[6, 0], &[])),
    ];
    let input = |messages: &[&Vec<u8>]| {
        let mut bytes = vec![0];
        messages.iter().for_each(|message| put_blob(&mut bytes, message));
        bytes
    };
    let mut seeds: Vec<_> = all.iter().map(|(name, bytes)| Seed::new("fuse", *name, input(&[bytes]))).collect();
    let in_a_row: Vec<_> = all.iter().map(|(_, bytes)| bytes).collect();
    seeds.push(Seed::new("fuse", "in-a-row", input(&in_a_row)));
    seeds.push(Seed::new("fuse", "unknown", input(&[&message(4711, &[1, 2], b"rest")])).refused());
    seeds
}
