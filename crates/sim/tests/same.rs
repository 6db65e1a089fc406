//! The comparison itself, over a pool in which one block of a file has rotted: one unreadable block excuses no other.

use std::sync::Arc;

use bytes::Bytes;
use tally_base::ObjectId;
use tally_fs::filer::ImportOptions;
use tally_members::label::LABEL_BYTES;
use tally_sim::chance::Chance;
use tally_sim::machine::{Machine, POOL, Shape};
use tally_sim::oracle::new_model;
use tally_sim::same::{Excuse, same, same_but, same_object, same_where_readable};
use tally_store::bp::{BLOCK_PTR_BYTES, BlockPtr};
use tally_store::key::Class;
use tally_store::properties::{Property, PropertySet, parse};
use tally_store::tree::Visit;
use tally_store::tuning::Tuning;
use tally_vfs::model::Model;
use tally_vfs::{CreateHow, Cred, ObjectRef, OpCtx, SetAttr, Stability, Vfs};

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 40;
const ROTTEN: u64 = 17;

fn make(fs: &dyn Vfs) -> ObjectRef {
    let (cred, how) = (Cred::root(), CreateHow::Guarded(SetAttr::default()));
    fs.create(OpCtx::of(&cred), fs.root(), b"a", &how).result.expect("a new name").object
}

fn write(fs: &dyn Vfs, file: ObjectRef, offset: u64, data: Bytes) {
    let cred = Cred::root();
    let written = fs.write(OpCtx::of(&cred), file, offset, data, Stability::Unstable);
    assert!(written.result.is_ok());
}

/// A pool with a file of many blocks, of which one has rotted, and the file there and in a model.
fn with_a_rotten_block() -> (Machine, Model, (ObjectRef, ObjectRef)) {
    let shape =
        Shape { vdevs: vec!["/d/data".to_owned()], data_bytes: 16 << 20, log_bytes: 0, tuning: Tuning::default() };
    let (mut machine, model, mut properties) = (Machine::new(shape, 1), new_model(), PropertySet::new());
    properties.set(parse(Property::RecordSize, "4K").expect("a size"));
    machine.create(properties).expect("an empty disk");
    let server = Arc::clone(machine.server());
    let fs = server.filer.by_name(POOL).expect("it was just made");
    let files = (make(&*fs), make(&model));
    let content: Bytes = (0..BLOCK * BLOCKS).map(|at| (at / BLOCK) as u8 + 1).collect();
    write(&*fs, files.0, 0, content.clone());
    write(&model, files.1, 0, content);
    server.filer.sync().expect("the disk is well");
    let mut rotten = None;
    for dataset in server.filer.pool().datasets() {
        dataset.root().tree.check(&server.filer.pool().io, &mut |visit| match visit {
            Visit::Entry { key, value } if key.class == Class::Extent && key.a == ROTTEN * BLOCK => {
                let bytes: &[u8; BLOCK_PTR_BYTES] = value.try_into().expect("the pool is sound");
                rotten = Some(BlockPtr::decode(bytes).expect("the pool is sound"));
            }
            _ => {}
        });
    }
    let block = rotten.expect("the block is in the tree");
    machine.lose_power(&mut Chance::new(1, 0));
    let (_, disk) = &machine.disks()[0];
    disk.rot_within(LABEL_BYTES + block.dva.offset, u64::from(block.psize), &mut Chance::new(1, 1));
    machine.import(&ImportOptions::default()).expect("one block ends nothing");
    (machine, model, files)
}

/// Bytes that differ in another block are seen, on the way through the directories and by the handle alone; so they
/// were not once, and the history went on from a state that was not there.
#[test]
fn a_rotten_block_excuses_no_other() {
    let (machine, model, (found, wanted)) = with_a_rotten_block();
    let fs = machine.server().filer.by_name(POOL).expect("it is imported");
    let of_file = |asked: &[ObjectId]| asked.contains(&wanted.id);
    let excuse = Excuse { of: &of_file, but_for: &|_, _| false, lasts: true };
    let both = |model: &Model| {
        let by_handle = same_object(&*fs, model, (found, wanted), excuse);
        assert_eq!(same_but(&*fs, model, excuse).is_ok(), by_handle.is_ok());
        by_handle
    };
    assert_eq!(both(&model), Ok(()));
    assert_eq!(same_where_readable(&*fs, &model, true), Ok(()));
    let unexcused = same(&*fs, &model).expect_err("nobody has excused it");
    assert!(unexcused.contains("cannot be read"), "{unexcused}");

    let but_for = |file: ObjectId, offset: u64| file == wanted.id && offset / BLOCK == ROTTEN;
    let written_since = Excuse { but_for: &but_for, ..excuse };
    let unread = same_object(&*fs, &model, (found, wanted), written_since).expect_err("it was written since");
    assert!(unread.contains("were written since"), "{unread}");

    let other = model.fork();
    write(&other, wanted, ROTTEN * BLOCK, Bytes::from_static(b"what nobody can look at"));
    assert_eq!(both(&other), Ok(()));
    for block in [0, ROTTEN - 1, ROTTEN + 1, BLOCKS - 1] {
        let other = model.fork();
        write(&other, wanted, (block + 1) * BLOCK - 1, Bytes::from_static(b"\xff"));
        let differs = both(&other).expect_err("a block that can be read differs");
        assert!(differs.contains("differ"), "{differs}");
    }
}
