//! Calls to hosts that lock for version 3: GRANTED, and the notice that we have started anew. They go over sockets of ours to where the host's own portmapper says, and a host may hang in each step; so each errand has a
//! thread, of which there are few, and what waits for one waits where it is (`nlm/waiting.rs`, `nlm/notices.rs`).
//!
//! A status monitor is told things by datagrams, too: those are taken here.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use bytes::Bytes;
use socket2::{Domain, Socket, Type};

use super::hub::Hub;
use crate::nlm::nsm::DATAGRAM_BYTES_MAX;
use crate::rpc::{Assembler, Caller, Calls, Matched, Outgoing, Reply, Returned};
use crate::rpcbind::{Transport, port_at};
use crate::service::Service;
use crate::v4::Errand;

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

/// The life of the thread that sends others on errands.
pub(super) fn keep(hub: &Arc<Hub>) {
    let running = Arc::new(AtomicUsize::new(0));
    while !hub.stopping.load(SeqCst) {
        hub.service.wait_for_errand(LOOK);
        hub.service.look_after_hosts();
        while running.load(SeqCst) < ERRANDS_MAX
            && !hub.stopping.load(SeqCst)
            && let Some(errand) = hub.service.next_errand()
        {
            running.fetch_add(1, SeqCst);
            let (service, count) = (hub.service.clone(), running.clone());
            let given_back = errand.clone();
            let run = move || {
                go(&service, &errand);
                count.fetch_sub(1, SeqCst);
            };
            if let Err(error) = std::thread::Builder::new().name("nfs-errand".into()).spawn(run) {
                tracing::warn!(%error, "cannot start a thread that calls a host of NFSv3; it is tried again");
                running.fetch_sub(1, SeqCst);
                hub.service.errand_done(&given_back, None);
            }
        }
    }
}

fn go(service: &Service, errand: &Errand) {
    let results = run(errand);
    if let Err(error) = &results {
        tracing::debug!(host = %errand.to, program = errand.program, %error, "a host of NFSv3 was called in vain");
    }
    service.errand_done(errand, results.ok().as_ref());
}

/// Makes a call, and gives its results.
fn run(errand: &Errand) -> io::Result<Bytes> {
    let transport = if errand.is_datagram { Transport::Udp } else { Transport::Tcp };
    let port = port_at(errand.to, errand.program, errand.version, transport)?;
    let at = SocketAddr::new(errand.to, port);
    let (program, version, procedure) = (errand.program, errand.version, errand.procedure);
    let outgoing =
        Outgoing { program, version, procedure, caller: Caller::Nobody, arguments: errand.arguments.clone() };
    let calls = Calls::numbered_from(std::process::id());
    let call = calls.begin(&outgoing, ()).map_err(|()| io::ErrorKind::OutOfMemory)?;
    let call = bytes(&call);
    let answer = match transport {
        Transport::Udp => ask_by_datagram(at, call.get(MARK_BYTES..).unwrap_or_default())?,
        Transport::Tcp => ask_over_connection(at, &call)?,
    };
    match calls.returned(&answer) {
        Matched::With((), Returned::Results(results)) => Ok(results),
        _ => Err(io::ErrorKind::InvalidData.into()),
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

fn unspecified(at: SocketAddr) -> std::net::IpAddr {
    if at.is_ipv4() { std::net::Ipv4Addr::UNSPECIFIED.into() } else { std::net::Ipv6Addr::UNSPECIFIED.into() }
}

fn ask_over_connection(at: SocketAddr, call: &[u8]) -> io::Result<Bytes> {
    let mut stream = TcpStream::connect_timeout(&at, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(call)?;
    let (mut assembler, mut records, ends) = (Assembler::default(), Vec::new(), Instant::now() + PATIENCE);
    let mut piece = [0; ANSWER_BYTES_MAX];
    loop {
        let count = stream.read(&mut piece)?;
        if count == 0 || assembler.held_bytes() > ANSWER_BYTES_MAX || Instant::now() > ends {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let is_fed = assembler.feed(piece.get(..count).unwrap_or_default(), &mut records);
        is_fed.map_err(|_| io::ErrorKind::InvalidData)?;
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
        let Ok((count, peer)) = socket.recv_from(&mut call) else { continue };
        let record = Bytes::copy_from_slice(call.get(..count).unwrap_or_default());
        if let Some(reply) = hub.service.answer_datagram(record, peer.ip()) {
            // Whoever is gone gets none.
            let _ = socket.send_to(bytes(&reply).get(MARK_BYTES..).unwrap_or_default(), peer);
        }
    }
}
