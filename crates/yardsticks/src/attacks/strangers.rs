//! The attacks. Each keeps its connections up: one that the server has closed is opened again.

use std::io::{ErrorKind, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use tally_bench::wire::Target;

use super::worker::{TOP, Worker};

const NFS: u32 = 100_003;
const NOBODY: u32 = 65_534;
/// Little room, so that replies stay in the server.
const RECEIVE_BYTES: usize = 16 << 10;
/// More than takes a thread of any priority, as nice(2) counts it, to where it runs when nobody else wants to.
const LAST_IN_TURN: i32 = 39;
/// Between two looks at its connections.
const ROUND: Duration = Duration::from_millis(200);

/// One way to be in the way.
#[derive(Clone, Copy)]
pub(super) struct Attack {
    pub(super) name: &'static str,
    connections: usize,
    /// What each connection sends, as far as it is taken.
    words: fn(&Stage) -> Vec<u8>,
    /// It hangs up when it has sent that, and comes again.
    hangs_up: bool,
}

/// All of them. The first three need no right to anything.
pub(super) const ALL: [Attack; 7] = [
    Attack { name: "idle", connections: 4096, words: |_| Vec::new(), hangs_up: false },
    Attack { name: "half a record", connections: 300, words: |_| half_a_record(), hangs_up: false },
    Attack { name: "unread nulls", connections: 100, words: |_| call(0, &[]).repeat(40_000), hangs_up: false },
    Attack { name: "unread lists", connections: 500, words: |stage| stage.lists(100), hangs_up: false },
    Attack { name: "unread reads and writes", connections: 200, words: Stage::reads_and_writes, hangs_up: false },
    Attack { name: "refused renames", connections: 16, words: Stage::refused_renames, hangs_up: false },
    Attack { name: "come and go", connections: 2000, words: |stage| stage.lists(20), hangs_up: true },
];

/// Whom they attack, and what they ask for.
pub(super) struct Stage {
    server: SocketAddrV4,
    root: Vec<u8>,
    file: Vec<u8>,
    folder: Vec<u8>,
    deepest: Vec<u8>,
    addresses: u8,
}

struct Stranger {
    stream: TcpStream,
    sent: usize,
}

impl Stage {
    pub(super) fn new(target: &Target, good: &Worker, addresses: u8) -> Self {
        let server = SocketAddrV4::new(Ipv4Addr::LOCALHOST, target.nfs.port());
        let [root, file, folder, deepest] = good.handles().map(|handle| handle.0.clone());
        Self { server, root, file, folder, deepest, addresses }
    }

    /// Attacks until it is done. Failures are part of it: the server may close and refuse what it likes. Strangers have
    /// machines of their own; here their thread takes what the server and the good client leave of this one.
    pub(super) fn keep_up(&self, attack: &Attack, done: &AtomicBool) {
        // Without it they are only more in the way.
        let _ = rustix::process::nice(LAST_IN_TURN);
        let words = (attack.words)(self);
        let mut strangers: Vec<Option<Stranger>> = Vec::new();
        strangers.resize_with(attack.connections, || None);
        while !done.load(Ordering::Relaxed) {
            for (number, place) in strangers.iter_mut().enumerate() {
                if done.load(Ordering::Relaxed) {
                    return;
                }
                let stranger = place.take().or_else(|| self.come(number).ok());
                *place = stranger.and_then(|stranger| stranger.go_on(&words)).filter(|_| !attack.hangs_up);
            }
            std::thread::sleep(ROUND);
        }
    }

    fn come(&self, number: usize) -> Result<Stranger> {
        let address = Ipv4Addr::new(127, 0, 0, 1 + (number % usize::from(self.addresses)) as u8);
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        set_socket_recv_buffer_size(&socket, RECEIVE_BYTES)?;
        bind(&socket, &SocketAddrV4::new(address, 0))?;
        connect(&socket, &self.server)?;
        let stream = TcpStream::from(socket);
        stream.set_nonblocking(true)?;
        Ok(Stranger { stream, sent: 0 })
    }

    fn lists(&self, count: usize) -> Vec<u8> {
        let mut arguments = opaque(&self.root);
        arguments.extend([0; 16]);
        arguments.extend([(64_u32 << 10).to_be_bytes(); 2].concat());
        call(17, &arguments).repeat(count)
    }

    /// A directory to below the deepest one there is, by who may write to neither.
    fn refused_renames(&self) -> Vec<u8> {
        let [from, to] = [(&self.folder, TOP), (&self.deepest, "moved")]
            .map(|(folder, name)| [opaque(folder), opaque(name.as_bytes())].concat());
        call_by(NOBODY, 14, &[from, to].concat()).repeat(512)
    }

    fn reads_and_writes(&self) -> Vec<u8> {
        let mut words = Vec::new();
        for at in 0..24_u64 {
            let mut read = opaque(&self.file);
            read.extend((at << 20).to_be_bytes());
            read.extend((1_u32 << 20).to_be_bytes());
            words.extend(call(6, &read));
        }
        let mut write = opaque(&self.file);
        write.extend([0; 8]);
        write.extend(250_000_u32.to_be_bytes());
        write.extend([0; 4]);
        write.extend(opaque(&vec![8; 250_000]));
        words.extend(call(7, &write).repeat(8));
        words
    }
}

impl Stranger {
    /// Sends what the server takes; nothing if it has closed.
    fn go_on(mut self, words: &[u8]) -> Option<Self> {
        if self.is_closed() {
            return None;
        }
        while let Some(rest) = words.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return None,
            }
        }
        Some(self)
    }

    fn is_closed(&self) -> bool {
        matches!(self.stream.peek(&mut [0]), Ok(0)) || self.stream.take_error().is_ok_and(|error| error.is_some())
    }
}

/// A call of NFSv3 by root.
fn call(procedure: u32, arguments: &[u8]) -> Vec<u8> {
    call_by(0, procedure, arguments)
}

fn call_by(uid: u32, procedure: u32, arguments: &[u8]) -> Vec<u8> {
    let ids = [uid, uid, 0].map(u32::to_be_bytes).concat();
    let cred = [&0_u32.to_be_bytes()[..], &opaque(b"evil"), &ids].concat();
    let head = [7, 0, 2, NFS, 3, procedure, 1].map(u32::to_be_bytes).concat();
    let record = [&head[..], &opaque(&cred), &[0; 8], arguments].concat();
    [&(record.len() as u32 | 1 << 31).to_be_bytes(), &record[..]].concat()
}

fn half_a_record() -> Vec<u8> {
    [&(1_u32 << 31 | 1 << 20).to_be_bytes()[..], &vec![0; 1_000_000]].concat()
}

fn opaque(bytes: &[u8]) -> Vec<u8> {
    let mut words = (bytes.len() as u32).to_be_bytes().to_vec();
    words.extend(bytes);
    words.resize(words.len().next_multiple_of(4), 0);
    words
}
