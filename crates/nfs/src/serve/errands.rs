//! Calls to hosts that lock for version 3: GRANTED, and the notice that we have started anew. They go over sockets of ours to where the host's own portmapper says, and a host may hang in each step; so each errand has a
//! thread, of which there are few, and what waits for one waits where it is (`nlm/waiting.rs`, `nlm/notices.rs`).
//!
//! A status monitor is told things by datagrams, too: those are taken here.
//!
//! *What is heard of a call* is told apart with care (N3): a host that may have been called may have the lock by then. Only where there is nobody to call, or who is there refuses such calls, it was surely not.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use socket2::{Domain, Socket, Type};

use super::hub::Hub;
use crate::nlm::nsm::DATAGRAM_BYTES_MAX;
use crate::rpc::{Assembler, Caller, Calls, Matched, Outgoing, Reply, Returned};
use crate::rpcbind::{Transport, port_at};
use crate::service::Service;
use crate::stats::count;
use crate::v4::{Heard, HostCall};

/// Most errands that are run at once.
const ERRANDS_MAX: usize = 16;
/// Between two looks at who waits, if nothing happens.
const LOOK: Duration = Duration::from_millis(250);
/// How long a connection may take, and an answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// Longest answer that is read: a cookie and a word.
const ANSWER_BYTES_MAX: usize = 4096;
/// What stands before a record.
const MARK_BYTES: usize = 4;

/// Each call has another number: who answers calls from memory goes by it.
static NEXT_XID: AtomicU32 = AtomicU32::new(1);

/// The life of the thread that sends others on errands.
pub(super) fn keep(hub: &Arc<Hub>) {
    let running = Arc::new(AtomicUsize::new(0));
    while !hub.stopping.load(SeqCst) {
        hub.service.wait_for_host_call(LOOK);
        unwound(&hub.service, || look(hub, &running));
    }
}

fn look(hub: &Arc<Hub>, running: &Arc<AtomicUsize>) {
    hub.service.look_after_hosts();
    while running.load(SeqCst) < ERRANDS_MAX
        && !hub.stopping.load(SeqCst)
        && let Some(call) = hub.service.next_host_call()
    {
        running.fetch_add(1, SeqCst);
        let (there, count, given_back) = (hub.clone(), running.clone(), call.clone());
        let go = move || {
            let heard = unwound(&there.service, || make(&call, there.options.hosts_portmapper));
            unwound(&there.service, || there.service.host_call_done(&call, &heard.unwrap_or(Heard::Nothing)));
            count.fetch_sub(1, SeqCst);
        };
        if let Err(error) = thread::Builder::new().name("nfs-errand".into()).spawn(go) {
            tracing::warn!(%error, "cannot start a thread that calls a host of NFSv3; it is tried again");
            running.fetch_sub(1, SeqCst);
            hub.service.host_call_done(&given_back, &Heard::NotCalled);
        }
    }
}

/// A panic is a bug that costs this step alone: nothing, where there was one.
fn unwound<T>(service: &Service, step: impl FnOnce() -> T) -> Option<T> {
    let outcome = catch_unwind(AssertUnwindSafe(step)).ok();
    if outcome.is_none() {
        count(&service.stats().panics);
        tracing::error!(
            "what calls hosts of NFSv3, or hears them, panicked; the server goes on. Please report this with the log"
        );
    }
    outcome
}

/// In vain, and what that says of whether the host was called.
struct Vain {
    error: io::Error,
    heard: Heard,
}

fn before(error: io::Error) -> Vain {
    Vain { error, heard: Heard::NotCalled }
}

fn behind(error: io::Error) -> Vain {
    Vain { error, heard: Heard::Nothing }
}

fn make(call: &HostCall, portmapper: u16) -> Heard {
    run(call, portmapper).map_or_else(
        |Vain { error, heard }| {
            tracing::debug!(host = %call.to, program = call.program, %error, "a host of NFSv3 was called in vain");
            heard
        },
        Heard::Results,
    )
}

/// Makes a call, and gives its results.
fn run(call: &HostCall, portmapper: u16) -> Result<Bytes, Vain> {
    let transport = if call.is_datagram { Transport::Udp } else { Transport::Tcp };
    let of_host = SocketAddr::new(call.to, portmapper);
    let port = port_at(of_host, call.program, call.version, transport).map_err(before)?;
    let at = SocketAddr::new(call.to, port);
    let (program, version, procedure) = (call.program, call.version, call.procedure);
    let outgoing = Outgoing { program, version, procedure, caller: Caller::Nobody, arguments: call.arguments.clone() };
    let calls = Calls::numbered_from(NEXT_XID.fetch_add(1, SeqCst));
    let record = calls.begin(&outgoing, ()).map_err(|()| before(ErrorKind::OutOfMemory.into()))?;
    let record = bytes(&record);
    let answer = match transport {
        Transport::Udp => ask_by_datagram(at, record.get(MARK_BYTES..).unwrap_or_default()).map_err(behind)?,
        Transport::Tcp => {
            let stream = connect(at, call.by).map_err(before)?;
            ask_over(stream, &record).map_err(behind)?
        }
    };
    match calls.returned(&answer) {
        Matched::With((), Returned::Results(results)) => Ok(results),
        // By the rules of RPC before anything was carried out.
        Matched::With((), Returned::Refused) => Err(before(ErrorKind::Unsupported.into())),
        _ => Err(behind(ErrorKind::InvalidData.into())),
    }
}

fn bytes(call: &Reply) -> Vec<u8> {
    let mut slices = Vec::new();
    call.slices(0, &mut slices);
    slices.iter().flat_map(|slice| slice.iter().copied()).collect()
}

fn ask_by_datagram(at: SocketAddr, call: &[u8]) -> io::Result<Bytes> {
    let socket = UdpSocket::bind(SocketAddr::new(unspecified(at), 0))?;
    socket.connect(at)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.send(call)?;
    let mut answer = [0; DATAGRAM_BYTES_MAX];
    let count = socket.recv(&mut answer)?;
    Ok(Bytes::copy_from_slice(answer.get(..count).unwrap_or_default()))
}

fn unspecified(at: SocketAddr) -> IpAddr {
    if at.is_ipv4() { std::net::Ipv4Addr::UNSPECIFIED.into() } else { std::net::Ipv6Addr::UNSPECIFIED.into() }
}

/// A connection from the address by which the host knows us, if that is known and still one of ours: Linux takes a lock from nobody else.
fn connect(at: SocketAddr, by: Option<IpAddr>) -> io::Result<TcpStream> {
    let socket = || Socket::new(Domain::for_address(at), Type::STREAM, None);
    let from = |by: IpAddr| {
        let socket = socket().ok()?;
        socket.bind(&SocketAddr::new(by, 0).into()).ok().map(|()| socket)
    };
    let socket = match by.and_then(from) {
        Some(socket) => socket,
        None => socket()?,
    };
    socket.connect_timeout(&at.into(), PATIENCE)?;
    Ok(socket.into())
}

fn ask_over(mut stream: TcpStream, call: &[u8]) -> io::Result<Bytes> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(call)?;
    let (mut assembler, mut records, ends) = (Assembler::default(), Vec::new(), Instant::now() + PATIENCE);
    let mut piece = [0; ANSWER_BYTES_MAX];
    loop {
        let count = stream.read(&mut piece)?;
        if count == 0 || assembler.held_bytes() > ANSWER_BYTES_MAX || Instant::now() > ends {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let is_fed = assembler.feed(piece.get(..count).unwrap_or_default(), &mut records);
        is_fed.map_err(|_| ErrorKind::InvalidData)?;
        if let Some(record) = records.pop() {
            return Ok(record);
        }
    }
}

/// A socket for datagrams beside one for connections.
pub(super) fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.set_read_timeout(Some(LOOK))?;
    Ok(socket.into())
}

/// The life of a thread that takes what the status monitors of hosts say.
pub(super) fn listen(hub: &Arc<Hub>, socket: &UdpSocket) {
    let mut call = [0; DATAGRAM_BYTES_MAX];
    while !hub.stopping.load(SeqCst) {
        let (count, peer) = match socket.recv_from(&mut call) {
            Ok(received) => received,
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) =>
            {
                continue;
            }
            Err(error) => {
                tracing::debug!(%error, "nothing can be read of what status monitors say");
                // It may last.
                thread::sleep(LOOK);
                continue;
            }
        };
        let record = Bytes::copy_from_slice(call.get(..count).unwrap_or_default());
        if let Some(Some(reply)) = unwound(&hub.service, || hub.service.answer_datagram(record, peer.ip())) {
            // Whoever is gone gets none.
            let _ = socket.send_to(bytes(&reply).get(MARK_BYTES..).unwrap_or_default(), peer);
        }
    }
}

#[cfg(test)]
mod tests;
