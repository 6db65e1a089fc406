//! The checksums and hashes that reach a disk. Each has one use, so that its width and speed can be argued.

/// 128 bits of XXH3: what every block pointer carries of its block. Not cryptographic: it guards against
/// rot and misdirection, not against an adversary with access to the disk.
pub type BlockChecksum = u128;

/// Checksum of a block's bytes as they stand on disk (after compression).
#[must_use]
pub fn block_checksum(bytes: &[u8]) -> BlockChecksum {
    xxhash_rust::xxh3::xxh3_128(bytes)
}

/// CRC-64/NVME: what guards a frame's header and payload in the intent log. A CRC detects every burst up
/// to 64 bits, which is how a torn write looks; it runs at more than 20 GB/s on the machines we know.
#[must_use]
pub fn log_checksum(bytes: &[u8]) -> u64 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, bytes)
}

/// Keyed hash of a directory entry's name: the order of the hash index. Keyed per dataset, so that a client
/// cannot choose names that collide.
#[must_use]
pub fn name_hash(key: u64, name: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(name, key)
}
