//! NFSv3 for one client, as far as the probe and a long file ask for it: everything succeeds, and nothing is kept but
//! the newest content at each offset.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use super::Manner;
use super::machine::Machine;
use crate::promise::Kind;

const NOTSUPP: u32 = 10_004;

/// A request that changes something.
#[derive(Clone)]
pub(super) struct Call {
    kind: Option<Kind>,
    /// Its content.
    pub(super) bytes: u64,
    /// Whether it is a SETATTR of the mode.
    pub(super) sets_mode: bool,
    said_stable: Cell<bool>,
    refused: Cell<bool>,
}

impl Call {
    pub(super) fn is(&self, kind: Kind) -> bool {
        self.kind == Some(kind)
    }

    pub(super) fn is_one_of(&self, kinds: &[Kind]) -> bool {
        self.kind.is_some_and(|kind| kinds.contains(&kind))
    }

    /// Whether it is a WRITE that may be lost.
    pub(super) fn is_unstable(&self) -> bool {
        self.kind.is_none()
    }

    /// Its reply says that it is stable.
    pub(super) fn say_stable(&self) {
        self.said_stable.set(true);
    }

    /// Its reply says that the server does not do it, if it is of these kinds.
    pub(super) fn refuse(&self, kinds: &[Kind]) {
        self.refused.set(self.is_one_of(kinds));
    }
}

pub(super) struct Server {
    port: u16,
}

/// What was written last, by its offset.
type Content = Arc<Mutex<BTreeMap<u32, Vec<u8>>>>;

impl Server {
    /// Serves until the process ends, or nobody connects any more.
    pub(super) fn start(machine: Machine, manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            let content = Content::default();
            for stream in listener.incoming().flatten() {
                let (machine, content) = (machine.clone(), content.clone());
                // It ends with its client.
                thread::spawn(move || serve(stream, &machine, manner, &content));
            }
        });
        Self { port }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }
}

fn serve(mut stream: TcpStream, machine: &Machine, manner: Manner, content: &Content) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    loop {
        let mut mark = [0; 4];
        stream.read_exact(&mut mark).ok()?;
        let mut record = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
        stream.read_exact(&mut record).ok()?;
        let mut reply = Words::default();
        answer(&mut Arguments(&record), &mut reply, machine, manner, content)?;
        let mark = (reply.0.len() as u32 | 1 << 31).to_be_bytes();
        stream.write_all(&[&mark[..], &reply.0].concat()).ok()?;
    }
}

fn answer(
    call: &mut Arguments<'_>,
    reply: &mut Words,
    machine: &Machine,
    manner: Manner,
    content: &Content,
) -> Option<()> {
    let xid = call.number()?;
    let [_call, _rpc, program, _version, procedure] = [(); 5].map(|()| call.number());
    (0..2).try_for_each(|_| {
        call.number()?;
        call.opaque().map(drop)
    })?;
    [xid, 1, 0, 0, 0, 0].into_iter().for_each(|word| reply.number(word));
    match (program?, procedure?) {
        (_, 0) => {}
        // MOUNT: a handle, and AUTH_SYS.
        (100_005, 1) => {
            reply.number(0);
            reply.opaque(b"root");
            [1, 1].into_iter().for_each(|word| reply.number(word));
        }
        (100_005, _) => {}
        // LOOKUP: the same handle for every name.
        (_, 3) => {
            reply.number(0);
            reply.opaque(b"node");
            [0, 0].into_iter().for_each(|word| reply.number(word));
        }
        // READ: what was written there, and no more than was asked for.
        (_, 6) => {
            let _node = call.opaque()?;
            let [_high, low, count] = [(); 3].map(|()| call.number());
            let (low, count) = (low?, count? as usize);
            let content = content.lock().ok()?;
            let data = content.get(&low)?.get(..count)?;
            [0, 0, count as u32, 0].into_iter().for_each(|word| reply.number(word));
            reply.opaque(data);
        }
        // READDIRPLUS: nothing is there.
        (_, 17) => [0, 0, 0, 0, 0, 1].into_iter().for_each(|word| reply.number(word)),
        // FSINFO: a megabyte at once.
        (_, 19) => {
            [0, 0].into_iter().for_each(|word| reply.number(word));
            [1 << 20; 7].into_iter().for_each(|word| reply.number(word));
            [0; 5].into_iter().for_each(|word| reply.number(word));
        }
        (_, procedure) => {
            if procedure == 7 {
                keep_content(Arguments(call.0), content)?;
            }
            change(procedure, call, reply, machine, manner)?;
        }
    }
    Some(())
}

fn keep_content(mut write: Arguments<'_>, content: &Content) -> Option<()> {
    let _node = write.opaque()?;
    let [_high, low, _count, _stable] = [(); 4].map(|()| write.number());
    content.lock().ok()?.insert(low?, write.opaque()?.to_vec());
    Some(())
}

fn change(
    procedure: u32,
    arguments: &mut Arguments<'_>,
    reply: &mut Words,
    machine: &Machine,
    manner: Manner,
) -> Option<()> {
    let (kind, bytes) = what(procedure, arguments)?;
    let sets_mode = kind == Some(Kind::SetAttr) && arguments.number()? == 1;
    let call = Call { kind, bytes, sets_mode, said_stable: Cell::new(false), refused: Cell::new(false) };
    manner(machine, &call);
    if call.refused.get() {
        reply.number(NOTSUPP);
        [0; 4].into_iter().for_each(|word| reply.number(word));
        return Some(());
    }
    reply.number(0);
    match procedure {
        // A count, how stable, and the verifier.
        7 => {
            let stable = match kind {
                None if !call.said_stable.get() => 0,
                Some(Kind::WriteDataSync) => 1,
                _ => 2,
            };
            [0, 0, bytes as u32, stable, 0, 7].into_iter().for_each(|word| reply.number(word));
        }
        8..=11 => {
            reply.number(1);
            reply.opaque(b"node");
            [0; 3].into_iter().for_each(|word| reply.number(word));
        }
        21 => [0, 0, 0, 7].into_iter().for_each(|word| reply.number(word)),
        _ => [0; 5].into_iter().for_each(|word| reply.number(word)),
    }
    Some(())
}

/// What kind of change it is, if it promises anything, and how much content it has.
fn what(procedure: u32, arguments: &mut Arguments<'_>) -> Option<(Option<Kind>, u64)> {
    let _node = arguments.opaque()?;
    let kind = match procedure {
        2 => Kind::SetAttr,
        7 => {
            let [_high, _low, count, stable] = [(); 4].map(|()| arguments.number());
            let kind = match stable? {
                0 => None,
                1 => Some(Kind::WriteDataSync),
                _ => Some(Kind::WriteFileSync),
            };
            return Some((kind, count?.into()));
        }
        8 => {
            let _name = arguments.opaque()?;
            if arguments.number()? == 2 { Kind::CreateExclusive } else { Kind::Create }
        }
        9 => Kind::MkDir,
        10 => Kind::SymLink,
        11 => Kind::MkNod,
        12 => Kind::Remove,
        13 => Kind::RmDir,
        14 => Kind::Rename,
        15 => Kind::Link,
        21 => Kind::Commit,
        _ => return None,
    };
    Some((Some(kind), 0))
}

struct Arguments<'a>(&'a [u8]);

impl<'a> Arguments<'a> {
    fn number(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*word))
    }

    fn opaque(&mut self) -> Option<&'a [u8]> {
        let length = self.number()? as usize;
        let (bytes, rest) = self.0.split_at_checked(length.next_multiple_of(4))?;
        self.0 = rest;
        bytes.get(..length)
    }
}

#[derive(Default)]
struct Words(Vec<u8>);

impl Words {
    fn number(&mut self, word: u32) {
        self.0.extend(word.to_be_bytes());
    }

    fn opaque(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u32);
        self.0.extend(bytes);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }
}
