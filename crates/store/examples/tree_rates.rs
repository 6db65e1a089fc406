//! Rates of the tree over a device in memory: `cargo run --release -p tally-store --example tree_rates`.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tally_base::Txg;
use tally_disk::Helpers;
use tally_fakes::MemBlockDev;
use tally_members::blockdev::numbered;
use tally_store::alloc::Allocator;
use tally_store::block::BlockError;
use tally_store::io::BlockIo;
use tally_store::key::{Class, Key};
use tally_store::tree::{Change, Tree};

const ENTRIES: u64 = 1_000_000;
const VALUE_BYTES: usize = 100;

struct Pool {
    io: Arc<BlockIo>,
    tree: Tree,
    txg: Txg,
}

impl Pool {
    fn apply(&mut self, what: &str, changes: &[(Key, Change)]) -> Result<(), BlockError> {
        self.txg = self.txg.next();
        let before = self.io.stats();
        let start = Instant::now();
        let mut out = self.io.writer(self.txg);
        self.tree = self.tree.apply(&self.io, &mut out, changes)?;
        let merged = start.elapsed();
        let (root, stats) = out.commit(200, |_| vec![0])?;
        let committed = start.elapsed() - merged;
        self.io.free(&root, self.txg.next());
        self.io.allocator().released(self.txg);
        println!(
            "{what}: {} changes in {merged:.1?} ({:.2} µs each), commit {committed:.1?}; {} blocks, {} KiB, {} writes, {} reads",
            changes.len(),
            merged.as_secs_f64() * 1e6 / changes.len() as f64,
            stats.block_count,
            stats.allocated_bytes >> 10,
            self.io.stats().runs_written - before.runs_written,
            self.io.stats().misses - before.misses,
        );
        Ok(())
    }
}

/// Half text, half noise: about what inodes and names look like to a compressor.
fn value(seed: u64) -> Bytes {
    let mut bytes = vec![0; VALUE_BYTES];
    for (at, byte) in bytes.iter_mut().take(VALUE_BYTES / 2).enumerate() {
        *byte = (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(at as u32 * 7)) as u8;
    }
    Bytes::from(bytes)
}

fn puts(objects: impl Iterator<Item = u64>, salt: u64) -> Vec<(Key, Change)> {
    let mut changes: Vec<_> =
        objects.map(|at| (Key::new(Class::Inode, at, 0, 0), Change::Put(value(at ^ salt)))).collect();
    changes.sort_unstable_by_key(|change| change.0);
    changes.dedup_by_key(|change| change.0);
    changes
}

fn scatter(count: u64, salt: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |at| (at + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) % ENTRIES)
}

fn main() -> Result<(), BlockError> {
    let devs = numbered([Arc::new(MemBlockDev::new(2 << 30)) as _]);
    let alloc = Arc::new(Allocator::create(&devs, &[]));
    let io = BlockIo::new(devs, alloc, 512 << 20, Helpers::Threads);
    let mut pool = Pool { io, tree: Tree::empty(), txg: Txg(0) };

    for txg in 0..ENTRIES / 100_000 {
        pool.apply("sequential puts", &puts(txg * 100_000..(txg + 1) * 100_000, 0))?;
    }
    pool.apply("random puts, warm", &puts(scatter(10_000, 1), 1))?;
    pool.io.drop_cache();
    pool.apply("random puts, cold", &puts(scatter(10_000, 77_777), 2))?;
    gets(&pool)?;
    scans(&pool)?;
    Ok(())
}

fn gets(pool: &Pool) -> Result<(), BlockError> {
    let keys: Vec<_> = scatter(1_000_000, 5).map(|at| Key::new(Class::Inode, at, 0, 0)).collect();
    for pass in ["first", "warm"] {
        let start = Instant::now();
        let mut found = 0;
        for key in &keys {
            found += usize::from(pool.tree.get(&pool.io, key)?.is_some());
        }
        let each = start.elapsed().as_nanos() as f64 / keys.len() as f64;
        println!("get, {pass}: {each:.0} ns each, {found} found, height {}", pool.tree.height());
    }
    Ok(())
}

fn scans(pool: &Pool) -> Result<(), BlockError> {
    let (from, to) = (Key::new(Class::Inode, 0, 0, 0), Key::new(Class::DirEntry, 0, 0, 0));
    for pass in ["warm", "cold"] {
        if pass == "cold" {
            pool.io.drop_cache();
        }
        let start = Instant::now();
        let mut bytes = 0;
        let mut count = 0_u64;
        for entry in pool.tree.range(&pool.io, &from, &to) {
            bytes += entry?.1.len();
            count += 1;
        }
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "scan, {pass}: {count} entries, {:.1} M/s, {:.0} MB/s of values",
            count as f64 / seconds / 1e6,
            bytes as f64 / seconds / 1e6
        );
    }
    Ok(())
}
