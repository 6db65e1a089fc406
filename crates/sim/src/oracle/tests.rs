//! What the states behind a cut say beside names and bytes: what size a file has whose inode cannot be read when its
//! records are replayed, and which of its blocks were written anew.

use tally_vfs::{Attributes, FileKind, Identity, Names, OpCtx};

use super::*;
use crate::op::{Known, Object};

const LIMITS: Limits = Limits {
    inline_bytes_max: 1 << 20,
    gathered_bytes_max: 0,
    part_bytes_max: 1 << 20,
    record_bytes_max: 1 << 16,
    is_whole: true,
};
const KIB: u64 = 1024;

/// An oracle behind an import, and a file of 100 KiB.
fn oracle_of_a_file() -> (Oracle, Object) {
    let live = new_model();
    let cred = Cred::root();
    let how = CreateHow::Unchecked(SetAttr::default());
    let made = live.create(OpCtx::of(&cred), live.root(), b"a", &how).result.expect("a new name");
    let (model, kind) = (made.object, FileKind::File);
    let file = Arc::new(Known { handle: Vec::new(), model, kind, dataset: 0, record_size: 128 * KIB });
    let mut oracle = Oracle::new(live, SyncMode::Standard);
    oracle.run(1, &cut(&file, 100 * KIB));
    (oracle.fork(1, made.object.id), file)
}

impl Oracle {
    /// What a client does, and the server.
    fn run(&mut self, number: usize, op: &Op) {
        let (before, cred) = (self.before(op, LIMITS), Cred::root());
        op.run_on(&self.live, &cred).result.expect("nothing speaks against it");
        self.take((op, &cred), number, &before, LIMITS);
    }

    /// Sizes with the whole log: if the inode can be read, and if not.
    fn sizes(&self, file: &Object) -> (u64, Option<u64>) {
        let found = self.find(false, |_| Ok(())).expect("every state fits");
        let size = found.left.model.getattr(file.model).expect("it is there").size;
        (size, found.left.believed.get(&file.model.id).copied())
    }
}

fn cut(file: &Object, size: u64) -> Op {
    Op::SetAttr { object: Arc::clone(file), set: SetAttr { size: Some(size), ..SetAttr::default() } }
}

fn write(file: &Object, offset: u64, stability: Stability) -> Op {
    Op::Write { object: Arc::clone(file), offset, length: 10, fill: 0, stability }
}

fn chmod(file: &Object) -> Op {
    Op::SetAttr { object: Arc::clone(file), set: SetAttr { mode: Some(0o600), ..SetAttr::default() } }
}

/// Above rot every block of a damaged file was excused for ever, also one that a client had written anew as a whole: the
/// fold could have given it up. It is none of an older state's, nor one that is in memory alone; and a part is no whole.
#[test]
fn a_block_counts_as_written_anew_once_it_is_so_on_disk() {
    const BLOCK: u64 = 128 * KIB;
    let (mut oracle, file) = oracle_of_a_file();
    let whole = |nth: u64, stability| {
        let (object, offset, length) = (Arc::clone(&file), nth * BLOCK, BLOCK as usize as _);
        Op::Write { object, offset, length, fill: 0, stability }
    };
    let rewritten = |oracle: &Oracle| {
        let found = oracle.find(false, |_| Ok(())).expect("every state fits");
        [0, 1, 2].map(|nth| found.left.rewritten.contains(file.model.id, nth * BLOCK + 5))
    };
    oracle.run(2, &write(&file, 5, Stability::FileSync));
    assert_eq!(rewritten(&oracle), [false; 3]);
    oracle.run(3, &whole(0, Stability::FileSync));
    assert_eq!(rewritten(&oracle), [true, false, false]);
    assert!(
        oracle
            .find(false, |left| if left.rewritten.contains(file.model.id, 0) { Err(String::new()) } else { Ok(()) })
            .is_ok()
    );
    oracle.run(4, &whole(1, Stability::Unstable));
    assert_eq!(rewritten(&oracle), [true, false, false]);
    oracle.begin_group(4);
    oracle.end_group();
    assert_eq!(rewritten(&oracle), [true, true, false]);
    // Up to the end of the file is as good as the whole block.
    oracle.run(5, &write(&file, 2 * BLOCK, Stability::FileSync));
    assert_eq!(rewritten(&oracle), [true; 3]);
    // All of that is zeroes, which may be in no block; this is in one.
    let ones = Op::Write {
        object: Arc::clone(&file),
        offset: BLOCK,
        length: BLOCK,
        fill: 0x103,
        stability: Stability::FileSync,
    };
    assert!(ones.data().iter().all(|byte| *byte == 1));
    oracle.run(6, &ones);
    oracle.forget_holes(file.model);
    assert_eq!(rewritten(&oracle), [false, true, false]);
}

/// A file of 100 KiB is cut to nothing, and that is acknowledged. It was taken for right once that it had its old size
/// behind the next import, with none of its bytes to be read.
#[test]
fn no_file_has_a_size_from_before_a_cut() {
    let (mut oracle, file) = oracle_of_a_file();
    oracle.run(2, &write(&file, 200 * KIB, Stability::Unstable));
    oracle.run(3, &chmod(&file));
    assert_eq!(oracle.sizes(&file), (100 * KIB, Some(200 * KIB + 10)));
    oracle.run(4, &cut(&file, 0));
    assert_eq!(oracle.sizes(&file), (0, Some(0)));
    // Data in memory alone, behind it: no record is the first one any more.
    oracle.run(5, &write(&file, 300 * KIB, Stability::Unstable));
    oracle.run(6, &chmod(&file));
    assert_eq!(oracle.sizes(&file), (0, Some(0)));
    oracle.run(7, &write(&file, 4 * KIB, Stability::FileSync));
    assert_eq!(oracle.sizes(&file), (4 * KIB + 10, Some(4 * KIB + 10)));
}

/// The first record about a file brings the size that it has in memory; those behind it only what they say themselves.
#[test]
fn the_first_record_alone_brings_a_size_that_nobody_promised() {
    let (mut oracle, file) = oracle_of_a_file();
    assert_eq!(oracle.sizes(&file), (100 * KIB, None), "no record is about it");
    oracle.run(2, &write(&file, 200 * KIB, Stability::Unstable));
    assert_eq!(oracle.sizes(&file), (100 * KIB, None), "unstable data has no record");
    oracle.run(3, &write(&file, 10, Stability::FileSync));
    oracle.run(4, &write(&file, 400 * KIB, Stability::Unstable));
    oracle.run(5, &chmod(&file));
    assert_eq!(oracle.sizes(&file), (100 * KIB, Some(200 * KIB + 10)));
    oracle.run(6, &write(&file, 300 * KIB, Stability::FileSync));
    assert_eq!(oracle.sizes(&file), (300 * KIB + 10, Some(300 * KIB + 10)));
    // Behind a group all of it is there, and the inode is as it was written then.
    oracle.begin_group(6);
    oracle.end_group();
    assert_eq!(oracle.sizes(&file), (400 * KIB + 10, None));
}
