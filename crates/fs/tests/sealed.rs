//! Sealed blocks and records on paper, before the bytes of format 2 are frozen: a tree's leaves and the log's records under
//! AES-256-GCM-SIV, in the places that the format keeps for them. Nothing of it is product code; what it taught is
//! docs/design/0050-what-two-spikes-taught.md.
//!
//! ```text
//!   pointer, 96 bytes:  the 64 of a plain one, flag 4 (sealed) or 8 (MAC alone) | salt 8 | counter 8 | MAC 16
//!   record, flags 1:    length of what is in the clear u16 | that | salt 8 | counter 8 | ciphertext | tag 16
//! ```

mod world;

use std::cell::Cell;
use std::collections::BTreeSet;

use aes_gcm_siv::aead::{AeadInPlace, KeyInit};
use aes_gcm_siv::{Aes256GcmSiv, Nonce, Tag};
use bytes::Bytes;
use tally_base::{Generation, ObjectId, SECTOR, block_checksum};
use tally_fs::record::{Data, Record, RecordKind};
use tally_store::bp::{BLOCK_PTR_BYTES, BlockKind, BlockPtr};
use tally_store::key::KEY_BYTES;
use tally_store::properties::PropertySet;
use tally_vfs::{Content, CreateHow, Cred, Identity, Names, ObjectRef, RememberedReply, ReplyKey, Stability};
use world::{World, ctx, done, mode, noise};

const POINTER_BYTES: usize = 96;
const SEALED: u8 = 4;
const MAC_ALONE: u8 = 8;
const FLAGS_AT: usize = 31;
const NODE_BYTES_MAX: usize = 16 << 10;
const HEAD_BYTES: usize = 16;

/// A master key while it is loaded: the counter is in memory alone, and the salt is drawn at each import.
struct Keyring {
    master: [u8; 32],
    salt: u64,
    counter: Cell<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tail {
    salt: u64,
    counter: u64,
    mac: [u8; 16],
}

impl Keyring {
    fn new(salt: u64) -> Self {
        Self { master: [0x4b; 32], salt, counter: Cell::new(1) }
    }

    /// The key of a salt: what the master key makes of zeroes under a nonce that no block has.
    fn cipher(&self, salt: u64) -> Aes256GcmSiv {
        let mut key = [0; 32];
        let nonce = [&salt.to_le_bytes()[..], b"salt"].concat();
        let master = Aes256GcmSiv::new_from_slice(&self.master).unwrap();
        master.encrypt_in_place_detached(Nonce::from_slice(&nonce), b"", &mut key).unwrap();
        Aes256GcmSiv::new_from_slice(&key).unwrap()
    }

    fn seal(&self, aad: &[u8], bytes: &mut [u8]) -> Tail {
        let (salt, counter) = (self.salt, self.counter.replace(self.counter.get() + 1));
        let mac = self.cipher(salt).encrypt_in_place_detached(&nonce(counter), aad, bytes).unwrap();
        Tail { salt, counter, mac: mac.into() }
    }

    fn unseal(&self, aad: &[u8], bytes: &[u8], tail: &Tail) -> Option<Vec<u8>> {
        let mut plain = bytes.to_vec();
        let mac = Tag::from_slice(&tail.mac);
        let opened = self.cipher(tail.salt).decrypt_in_place_detached(&nonce(tail.counter), aad, &mut plain, mac);
        opened.ok().map(|()| plain)
    }
}

fn nonce(counter: u64) -> Nonce {
    let bytes = [&[0; 4][..], &counter.to_le_bytes()].concat();
    *Nonce::from_slice(&bytes)
}

/// What a block is bound to: no place, no group and no object, so that it may move, be shared, and be sent as it is.
fn aad(pointer: &[u8]) -> Vec<u8> {
    let (sizes, coding_and_kind) = (&pointer[20..28], &pointer[28..30]);
    [b"key guid", sizes, coding_and_kind].concat()
}

fn pointer(plain: &[u8; BLOCK_PTR_BYTES], flag: u8, tail: &Tail) -> [u8; POINTER_BYTES] {
    let mut bytes = [0; POINTER_BYTES];
    bytes[..BLOCK_PTR_BYTES].copy_from_slice(plain);
    bytes[FLAGS_AT] |= flag;
    bytes[64..72].copy_from_slice(&tail.salt.to_le_bytes());
    bytes[72..80].copy_from_slice(&tail.counter.to_le_bytes());
    bytes[80..].copy_from_slice(&tail.mac);
    bytes
}

fn tail(pointer: &[u8; POINTER_BYTES]) -> Tail {
    let number = |at: usize| u64::from_le_bytes(pointer[at..at + 8].try_into().unwrap());
    Tail { salt: number(64), counter: number(72), mac: pointer[80..].try_into().unwrap() }
}

/// A dataset with leaves of every class that there is so far.
fn world() -> (World, std::sync::Arc<tally_fs::Filer>) {
    let world = World::new(64 << 20, 16 << 20);
    let filer = world.create_without_threads(&Default::default());
    let fs = filer.by_name("tank").unwrap();
    let cred = Cred::root();
    for number in 0..200 {
        let how = CreateHow::Guarded(mode(0o600));
        let file = done(fs.create(ctx(&cred), fs.root(), format!("file {number}").as_bytes(), &how)).unwrap();
        let length = if number == 0 { 1 << 20 } else { 300 };
        done(fs.write(ctx(&cred), file.object, 0, noise(length, number), Stability::Unstable)).unwrap();
    }
    filer.sync().unwrap();
    (world, filer)
}

/// A real node of a real tree is made one of form 1, with the leaves below it sealed as they stand on disk.
#[test]
fn a_node_and_its_leaves_are_sealed_in_the_room_that_there_is() {
    let (_world, filer) = world();
    let pool = filer.pool();
    let root = pool.datasets()[0].root().tree.clone();
    assert_eq!(root.height(), 1, "a node above leaves");
    let node = pool.io.read(root.root().unwrap()).unwrap();
    let count = usize::from(u16::from_le_bytes([node[6], node[7]]));
    let pointers = HEAD_BYTES + count * KEY_BYTES;
    let keys = Keyring::new(7);
    let mut form_1 = node[..pointers].to_vec();
    form_1[5] = 1;
    let (mut sealed, mut classes) = (Vec::new(), BTreeSet::new());
    for child in 0..count {
        let at = pointers + child * BLOCK_PTR_BYTES;
        let plain: [u8; BLOCK_PTR_BYTES] = node[at..at + BLOCK_PTR_BYTES].try_into().unwrap();
        let bp = BlockPtr::decode(&plain).unwrap();
        // As on disk, compressed or not, is the same to a cipher; here it is taken as it is read.
        let leaf = pool.io.read(&bp).unwrap();
        classes.insert(leaf[4]);
        // Extents stay in the clear: a scrub, a resilver and a destroy without the key go by them.
        let is_clear = leaf[4] == 4;
        let (mut stored, mut plain) = (leaf.to_vec(), plain);
        let (flag, tail) = if is_clear {
            let bound = [&aad(&plain)[..], &leaf].concat();
            (MAC_ALONE, keys.seal(&bound, &mut []))
        } else {
            (SEALED, keys.seal(&aad(&plain), &mut stored))
        };
        // Whoever has no key goes by the checksum, which is that of what is on disk.
        plain[48..].copy_from_slice(&block_checksum(&stored).to_le_bytes());
        assert_eq!(stored.len(), leaf.len(), "the tag is in the pointer: lsize, psize and asize are what they were");
        let pointer = pointer(&plain, flag, &tail);
        assert!(BlockPtr::decode(&pointer[..64].try_into().unwrap()).is_err(), "refused by who knows no flag of it");
        form_1.extend_from_slice(&pointer);
        sealed.push((pointer, stored, leaf));
    }
    assert!(classes.is_superset(&[0, 1, 2, 4, 5].into()), "{classes:?}");
    assert_eq!(form_1.len(), HEAD_BYTES + count * (KEY_BYTES + POINTER_BYTES));

    for (at, (pointer, stored, leaf)) in sealed.iter().enumerate() {
        let tail = tail(pointer);
        if pointer[FLAGS_AT] & MAC_ALONE != 0 {
            let bound = [&aad(pointer)[..], stored].concat();
            assert_eq!(keys.unseal(&bound, &[], &tail), Some(Vec::new()));
            continue;
        }
        assert_eq!(keys.unseal(&aad(pointer), stored, &tail).as_deref(), Some(&leaf[..]));
        // Another key guid is another lineage; another place, birth or second copy is none of a block's business.
        let mut moved = *pointer;
        moved[..20].fill(0x11);
        moved[32..48].fill(0x22);
        assert_eq!(keys.unseal(&aad(&moved), stored, &tail).as_deref(), Some(&leaf[..]));
        for byte in [20, 24, 28, 29] {
            let mut changed = *pointer;
            changed[byte] ^= 1;
            assert_eq!(keys.unseal(&aad(&changed), stored, &tail), None, "byte {byte}");
        }
        let mut flipped = stored.clone();
        flipped[stored.len() - 1] ^= 1;
        assert_eq!(keys.unseal(&aad(pointer), &flipped, &tail), None);
        let others =
            sealed.iter().enumerate().filter(|(other, (pointer, ..))| *other != at && pointer[FLAGS_AT] & SEALED != 0);
        for (_, (other, ..)) in others {
            assert_eq!(keys.unseal(&aad(other), stored, &self::tail(other)), None, "a leaf in another one's place");
        }
    }
    // The next import draws another salt, and reads what the one before has sealed.
    let next = Keyring::new(8);
    let (pointer, stored, leaf) = sealed.iter().find(|(pointer, ..)| pointer[FLAGS_AT] & SEALED != 0).unwrap();
    assert_eq!(next.unseal(&aad(pointer), stored, &tail(pointer)).as_deref(), Some(&leaf[..]));
    assert_ne!(next.seal(&aad(pointer), &mut leaf.to_vec()), tail(pointer), "and seals under no pair that there was");
}

#[test]
fn a_node_of_form_1_has_135_children() {
    const CHILDREN_MAX: usize = (NODE_BYTES_MAX - HEAD_BYTES) / (KEY_BYTES + POINTER_BYTES);
    assert_eq!(CHILDREN_MAX, 135);
    // Height 8 stays the highest.
    assert!(135_u64.pow(8) > 1 << 56);
}

/// A dataset's root may be a leaf, and then the pointer in its entry is a sealed one: with a tail for which form 1 of the
/// entry has no room, and of a class that neither the tree's head nor the pointer tells.
#[test]
fn the_root_of_a_small_dataset_is_a_sealed_leaf() {
    let (_world, filer) = world();
    let fs = filer.create_dataset("tank/new", PropertySet::new(), (0, 0)).unwrap();
    let pool = filer.pool();
    let dataset = pool.datasets().into_iter().find(|dataset| dataset.birth.id == fs.dataset()).unwrap();
    let tree = dataset.root().tree.clone();
    assert_eq!(tree.height(), 0);
    let bp = *tree.root().unwrap();
    assert_eq!((bp.kind, tree.encode().len()), (BlockKind::Leaf, 16 + BLOCK_PTR_BYTES));
    let leaf = pool.io.read(&bp).unwrap();
    // So the class is no part of what a leaf is bound to; it is sealed with the leaf, and compared behind that.
    let (keys, plain, mut stored) = (Keyring::new(7), bp.encode(), leaf.to_vec());
    let tail = keys.seal(&aad(&plain), &mut stored);
    let opened = keys.unseal(&aad(&plain), &stored, &tail).unwrap();
    assert_eq!((&opened[..4], opened[4]), (&b"TLF2"[..], 0));
    // What form 1 keeps: 24 bytes for a key's id and the MAC of the root. What a sealed root needs beside that: 32.
    assert_eq!(pointer(&plain, SEALED, &tail).len() - BLOCK_PTR_BYTES, 8 + 8 + 16);
}

/// Form, flags, kind, dataset and group of a record are known before it is appended; its number in the dataset's history is
/// drawn under the lane's lock, when it is sealed already.
const RECORD_HEAD_BYTES: usize = 32;
const DSEQ: std::ops::Range<usize> = 16..24;

fn record_head(body_bytes: usize, dseq: u64) -> [u8; RECORD_HEAD_BYTES] {
    let mut head = [0; RECORD_HEAD_BYTES];
    head[..4].copy_from_slice(&(body_bytes as u32).to_le_bytes());
    head[4..6].copy_from_slice(&(RecordKind::Write as u16).to_le_bytes());
    head[7] = 1;
    head[8..16].copy_from_slice(&3_u64.to_le_bytes());
    head[DSEQ].copy_from_slice(&dseq.to_le_bytes());
    head[24..].copy_from_slice(&99_u64.to_le_bytes());
    head
}

fn record_aad(head: &[u8], clear: &[u8]) -> Vec<u8> {
    [b"key guid", &head[4..DSEQ.start], &head[DSEQ.end..RECORD_HEAD_BYTES], clear].concat()
}

/// Flags and memory of a body, which stay in the clear: whoever has no key remembers the answer all the same.
const MEMORY_BYTES: usize = 1 + 40 + 17;

fn seal_record(keys: &Keyring, head: &[u8], body: &[u8]) -> Vec<u8> {
    let (clear, secret) = body.split_at(MEMORY_BYTES);
    let mut secret = secret.to_vec();
    let tail = keys.seal(&record_aad(head, clear), &mut secret);
    let length = (clear.len() as u16).to_le_bytes();
    [&length[..], clear, &tail.salt.to_le_bytes(), &tail.counter.to_le_bytes(), &secret, &tail.mac].concat()
}

fn unseal_record(keys: &Keyring, head: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    let length = usize::from(u16::from_le_bytes(sealed[..2].try_into().unwrap()));
    let (clear, rest) = sealed[2..].split_at(length);
    let (numbers, rest) = rest.split_at(16);
    let (secret, mac) = rest.split_at(rest.len() - 16);
    let number = |at: usize| u64::from_le_bytes(numbers[at..at + 8].try_into().unwrap());
    let tail = Tail { salt: number(0), counter: number(8), mac: mac.try_into().unwrap() };
    Some([clear, &keys.unseal(&record_aad(head, clear), secret, &tail)?].concat())
}

fn record(number: u64) -> Record {
    let object = ObjectRef { id: ObjectId(40 + number), generation: Generation(2) };
    let key = ReplyKey([number as u8; 40]);
    let data = Data {
        object: object.id,
        pieces: [(number << 12, noise(3000 + number as usize, number))].into_iter().collect(),
    };
    Record { reply: Some((key, RememberedReply { object: Some(object) })), data: Some(data), ..Record::default() }
}

fn body(record: &Record) -> Vec<u8> {
    let parts: Vec<u8> = record.data_parts().flatten().copied().collect();
    [record.encode_head(), parts].concat()
}

/// The import finds records and no key: it copies them as they are, ring and all that wrote them go, and what is unsealed in
/// another life is what was acknowledged.
#[test]
fn records_wait_for_their_key() {
    let records: Vec<Record> = (0..5).map(record).collect();
    let keys = Keyring::new(7);
    let mut log: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for (dseq, record) in (100..).zip(&records) {
        let plain = body(record);
        let sealed = seal_record(&keys, &record_head(0, dseq), &plain);
        assert_eq!(sealed.len(), plain.len() + 2 + 8 + 8 + 16);
        // A failed lane's successor is given the same bytes: sealed anew they would be others under one number.
        assert_ne!(seal_record(&keys, &record_head(0, dseq), &plain), sealed);
        log.push((record_head(sealed.len(), dseq).to_vec(), sealed));
    }

    // A block of the chain: pointer to the next 64, then records as a frame has them.
    let mut chain = vec![0; BLOCK_PTR_BYTES];
    for (head, sealed) in &log {
        chain.extend_from_slice(head);
        chain.extend_from_slice(sealed);
        chain.resize(chain.len().next_multiple_of(8), 0);
        // The memory is there for whoever has no key.
        assert_eq!((sealed[2] & 1, &sealed[3..43]), (1, &[head[DSEQ.start] - 100; 40][..]));
    }
    assert!(chain.len() < 16 << 20, "a block holds what several frames have held");
    drop(log);

    let keys = Keyring::new(9);
    let (mut at, mut replayed) = (BLOCK_PTR_BYTES, Vec::new());
    while at < chain.len() {
        let head = &chain[at..at + RECORD_HEAD_BYTES];
        let length = u32::from_le_bytes(head[..4].try_into().unwrap()) as usize;
        let sealed = &chain[at + RECORD_HEAD_BYTES..][..length];
        let plain = unseal_record(&keys, head, sealed).unwrap();
        replayed.push(Record::decode(0, &Bytes::from(plain)).unwrap());
        // Bound to their dataset, group and kind, and not to their number.
        for (byte, is_bound) in [(4, true), (6, true), (8, true), (24, true), (DSEQ.start, false)] {
            let mut other = head.to_vec();
            other[byte] ^= 1;
            assert_eq!(unseal_record(&keys, &other, sealed).is_none(), is_bound, "byte {byte}");
        }
        let mut forged = sealed.to_vec();
        forged[10] ^= 1;
        assert_eq!(unseal_record(&keys, head, &forged), None, "a memory that was changed");
        at = (at + RECORD_HEAD_BYTES + length).next_multiple_of(8);
    }
    assert_eq!(replayed, records);
}

/// One sector of the log takes a little less.
#[test]
fn a_sealed_record_of_one_sector() {
    const FRAME_HEAD_BYTES: usize = 136;
    let longest = SECTOR - FRAME_HEAD_BYTES - RECORD_HEAD_BYTES;
    assert_eq!((longest, longest - (2 + 8 + 8 + 16)), (3928, 3894));
}
