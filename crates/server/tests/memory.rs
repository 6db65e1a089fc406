//! What the process of the real server takes of the machine's memory while four clients work, with small caches:
//! what the configuration gives to its cache and to changes, a quarter of that, a request of each client, and what an
//! idle server takes.
//!
//! `fs` counts what a pool asks of the allocator; here is everything else as well: the protocol, the threads, and what
//! the allocator keeps of what was given back, or takes beside what it was asked for. The last two are a matter of their own
//! (docs/design/0021-what-the-process-takes.md), so there are two bounds: one with an allocator that keeps nothing and
//! has no huge pages, and one for the server as it is. With huge pages the first one measured how full they happened to
//! be: 103 to 113 MiB of 112 in runs of one program; without them 90 to 95. A cache of 8 MiB that held 348 would break both.

use std::fs::File;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tally_bench::random::Random;
use tally_bench::wire::{Connection, Handle, Stable, Target};

const MIB: u64 = 1 << 20;
const POOL: &str = "tank";
/// More than any start takes.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const CACHE_MIB: u64 = 32;
const DIRTY_MIB: u64 = 32;
/// Few, since a request on its way is neither cache nor change: one of 1 MiB takes up to 2 MiB, and where the machine
/// is busy all of them are on their way at once.
const CLIENT_COUNT: u64 = 4;
/// Of each client: together some 100,000, whose metadata alone is more than the cache.
const SMALL_COUNT: u64 = 25_000;
const SMALL_BYTES: usize = 700;
/// Of each client's large file: together twelve times cache and dirty limit.
const LARGE_MIB: u64 = 192;

/// What the allocator is told, how much more than the bound the process may have then, and requests besides.
struct Allocator {
    words: &'static str,
    factor: u64,
    request_count: u64,
}

/// Nothing is kept of what was given back, and no page is larger than what is in it; or as it is shipped.
const ALLOCATORS: [Allocator; 2] = [
    Allocator { words: "dirty_decay_ms:0,muzzy_decay_ms:0,thp:default", factor: 1, request_count: CLIENT_COUNT },
    Allocator { words: "", factor: 2, request_count: 0 },
];

#[test]
fn the_process_takes_its_cache_and_its_dirty_limit_and_little_beside() {
    for Allocator { words, factor, request_count } in ALLOCATORS {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(dir.path(), words);
        let root = server.make_pool(dir.path());
        let idle = server.memory_max();
        small_files(server.address, &root);
        large_files(server.address, &root);
        look_at_all(server.address, &root);
        let limit = factor * (idle + (CACHE_MIB + DIRTY_MIB) * MIB * 5 / 4) + request_count * MIB;
        let taken = server.memory_max();
        let [taken_mib, idle_mib, limit_mib] = [taken, idle, limit].map(|bytes| bytes / MIB);
        println!("allocator '{words}': {taken_mib} MiB of {limit_mib}, {idle_mib} of them before the first file");
        assert!(taken <= limit, "allocator '{words}': {taken_mib} MiB, and {limit_mib} at most");
    }
}

fn small_files(address: SocketAddr, root: &Handle) {
    each_client(address, |client, mut connection| {
        let folder = connection.mkdir(root, &format!("small-{client}")).unwrap();
        for number in 0..SMALL_COUNT {
            let file = connection.create(&folder, &format!("file-{number}")).unwrap();
            connection.write(&file, 0, &Random::new(client, number).bytes(SMALL_BYTES), Stable::Unstable).unwrap();
        }
    });
}

fn large_files(address: SocketAddr, root: &Handle) {
    each_client(address, |client, mut connection| {
        let file = connection.create(root, &format!("large-{client}")).unwrap();
        for number in 0..LARGE_MIB {
            let data = Random::new(client, number).bytes(MIB as usize);
            connection.write(&file, number * MIB, &data, Stable::Unstable).unwrap();
        }
        connection.commit(&file).unwrap();
    });
}

fn look_at_all(address: SocketAddr, root: &Handle) {
    each_client(address, |client, mut connection| {
        let large = connection.lookup(root, &format!("large-{client}")).unwrap();
        for number in 0..LARGE_MIB {
            connection.read(&large, number * MIB, MIB as u32).unwrap();
        }
        let folder = connection.lookup(root, &format!("small-{client}")).unwrap();
        assert!(connection.list(&folder).unwrap() >= SMALL_COUNT);
        for number in 0..SMALL_COUNT {
            let file = connection.lookup(&folder, &format!("file-{number}")).unwrap();
            assert_eq!(connection.read(&file, 0, 4096).unwrap().len(), SMALL_BYTES);
        }
    });
}

fn each_client(address: SocketAddr, work: impl Fn(u64, Connection) + Sync) {
    std::thread::scope(|scope| {
        for client in 0..CLIENT_COUNT {
            let work = &work;
            scope.spawn(move || work(client, Connection::open(address).unwrap()));
        }
    });
}

/// The binary in a folder of its own.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(dir: &Path, allocator: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = format!(
            "data_dir = \"data\"\nfirst_pool = false\nlisten = [\"127.0.0.1\"]\nport = {port}\n\
             cache = \"{CACHE_MIB}M\"\ndirty_data_max = \"{DIRTY_MIB}M\"\n[http]\nlisten = \"off\"\n\
             [[export]]\ndataset = \"{POOL}\"\nrules = \"127.0.0.0/8(rw,no_root_squash,insecure)\"\n"
        );
        std::fs::write(dir.join("config.toml"), config).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tally"));
        command.args(["serve", "--config", "config.toml"]).env("_RJEM_MALLOC_CONF", allocator).current_dir(dir);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let server = Self { child, address: SocketAddr::from(([127, 0, 0, 1], port)) };
        let began = Instant::now();
        while TcpStream::connect(server.address).is_err() {
            assert!(began.elapsed() < START_TIMEOUT, "the server does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
        server
    }

    /// On a file, whose content is nobody's memory: the server reads and writes past the kernel's cache.
    fn make_pool(&self, dir: &Path) -> Handle {
        let disk = dir.join("disk");
        File::create(&disk).unwrap().set_len(4096 * MIB).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tally"));
        command.args(["pool", "create", POOL, disk.to_str().unwrap(), "--socket", "data/tally.sock"]);
        let made = command.current_dir(dir).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        let target = Target { nfs: self.address, mount: self.address, export: format!("/{POOL}") };
        Connection::mount(&target).unwrap()
    }

    /// The most that the process has had in memory, the binary's own pages with it.
    fn memory_max(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
