//! A portmapper, for a machine that has none: it says where we listen, and registers nobody (RFC 1833).
//!
//! Versions 2 to 4, over UDP and TCP: NULL, GETPORT and GETADDR, DUMP; SET and UNSET say no. Nothing else is there, above all no CALLIT, by
//! which a stranger has a portmapper call others.
//!
//! One thread waits for all its sockets. **What strangers can take of it is bounded:** a call is at most [`CALL_BYTES_MAX`] long, a
//! connection lasts [`LIFETIME`], there are [`CONNECTIONS_MAX`] of them, and with one more the oldest goes of the address that has most.
//! Over UDP, where whoever asks may have written another's address into the datagram, an answer is hardly longer than the question: DUMP is
//! for this machine alone there, and for others over TCP.

use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use socket2::{Domain, Socket, Type};

use super::{DUMP, GETPORT, PROGRAM, PROGRAMS, SET, TCP, Transport, UDP, UNSET, monitor};
use crate::nlm::{self, nsm};
use crate::rpc::{AcceptError, Assembler, Call, Refusal, Reply};
use crate::v3;
use crate::xdr::{Decoder, Encoder, Garbage};

/// Longest call: header with its credential, and three strings.
const CALL_BYTES_MAX: usize = 2048;
/// Most connections at a time: each asks for a number.
const CONNECTIONS_MAX: usize = 64;
/// So long one lasts, whatever it does.
const LIFETIME: Duration = Duration::from_secs(10);
/// Connections that are taken, and datagrams that are answered, before the others are looked at.
const AT_ONCE: usize = 16;
const BACKLOG: i32 = 64;

const VERSIONS: [u32; 3] = [2, 3, 4];
/// Longest name of a transport and longest address (`tcp6`, and an IPv6 address with its port).
const NETID_BYTES_MAX: usize = 32;
const ADDRESS_BYTES_MAX: usize = 128;

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum PortmapperError {
    /// The port is another's, or for root.
    #[error("cannot be a portmapper at {address}: {source}")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// What the kernel says.
        source: io::Error,
    },
    /// Out of descriptors or threads.
    #[error("cannot begin to be a portmapper: {0}")]
    Io(#[from] io::Error),
}

/// It answers as long as this lives.
#[derive(Debug)]
pub struct Portmapper {
    /// Closed at the end, which the thread hears.
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Portmapper {
    /// Begins to answer at `port` of these addresses that NFS is at `nfs`, by version 4 as well if that is spoken, and the status monitor by what that is heard by.
    pub fn start(
        addresses: &[IpAddr],
        port: u16,
        nfs: u16,
        has: (bool, &[Transport]),
    ) -> Result<Self, PortmapperError> {
        let (mut listeners, mut sockets) = (Vec::new(), Vec::new());
        for address in addresses.iter().map(|address| SocketAddr::new(*address, port)) {
            let failed = |source| PortmapperError::Bind { address, source };
            listeners.push(TcpListener::from(bind(address, Type::STREAM).map_err(failed)?));
            sockets.push(UdpSocket::from(bind(address, Type::DGRAM).map_err(failed)?));
        }
        let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from)?;
        let table = Table::new(addresses, port, nfs, has);
        let waiting = Waiting { table, listeners, sockets, connections: Vec::new(), stopped };
        let thread = thread::Builder::new().name("portmapper".into()).spawn(move || waiting.run())?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Portmapper {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // If it panicked, that was printed; there is nothing left to stop.
            let _ = thread.join();
        }
    }
}

fn bind(address: SocketAddr, kind: Type) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    if kind == Type::STREAM {
        // Connections of the last run that linger must not keep a restart from its port.
        socket.set_reuse_address(true)?;
    }
    socket.bind(&address.into())?;
    if kind == Type::STREAM {
        socket.listen(BACKLOG)?;
    }
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// What the thread has.
struct Waiting {
    table: Table,
    listeners: Vec<TcpListener>,
    sockets: Vec<UdpSocket>,
    /// In the order in which they came.
    connections: Vec<Connection>,
    stopped: OwnedFd,
}

struct Connection {
    stream: TcpStream,
    peer: IpAddr,
    at: Option<SocketAddr>,
    ends: Instant,
    assembler: Assembler,
}

impl Waiting {
    fn run(mut self) {
        loop {
            let now = Instant::now();
            self.connections.retain(|connection| connection.ends > now);
            let patience = self.connections.first().map(|first| first.ends.saturating_duration_since(now));
            let patience = patience.and_then(|patience| Timespec::try_from(patience).ok());
            let Some(ready) = self.ready(patience.as_ref()) else { return };
            let (listeners, rest) = ready.split_at(self.listeners.len().min(ready.len()));
            let (sockets, connections) = rest.split_at(self.sockets.len().min(rest.len()));
            // Those that come now have not been asked, and stand behind these.
            let mut asked = connections.iter();
            self.connections.retain_mut(|connection| {
                !asked.next().is_some_and(|is_ready| *is_ready) || connection.goes_on(&self.table)
            });
            for (socket, _) in self.sockets.iter().zip(sockets).filter(|(_, is_ready)| **is_ready) {
                answer_datagrams(socket, &self.table);
            }
            for (listener, _) in self.listeners.iter().zip(listeners).filter(|(_, is_ready)| **is_ready) {
                accept(listener, &mut self.connections);
            }
        }
    }

    /// Waits until one of them has something: for each listener, socket and connection whether it has. None at the end.
    fn ready(&self, patience: Option<&Timespec>) -> Option<Vec<bool>> {
        let mut files = vec![PollFd::new(&self.stopped, PollFlags::IN)];
        files.extend(self.listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN)));
        files.extend(self.sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)));
        files.extend(self.connections.iter().map(|connection| PollFd::new(&connection.stream, PollFlags::IN)));
        if poll(&mut files, patience).is_err() {
            return Some(Vec::new());
        }
        let mut ready = files.iter().map(|file| !file.revents().is_empty());
        if ready.next() == Some(true) { None } else { Some(ready.collect()) }
    }
}

/// Answers some datagrams; where more have come, poll says so again.
fn answer_datagrams(socket: &UdpSocket, table: &Table) {
    let mut call = [0; CALL_BYTES_MAX];
    for _ in 0..AT_ONCE {
        let Ok((count, peer)) = socket.recv_from(&mut call) else { return };
        let call = Bytes::copy_from_slice(call.get(..count).unwrap_or_default());
        let way = Way { is_udp: true, is_v6: peer.is_ipv6(), at: None, is_near: peer.ip().is_loopback() };
        if let Some(reply) = table.answer(call, &way) {
            // Whoever is gone gets none.
            let _ = socket.send_to(bytes(&reply).get(RECORD_MARK_BYTES..).unwrap_or_default(), peer);
        }
    }
}

/// Takes connections. Where there are too many, one goes that is of who has most.
fn accept(listener: &TcpListener, connections: &mut Vec<Connection>) {
    for _ in 0..AT_ONCE {
        let (stream, peer) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => {
                // Out of descriptors, most likely, and poll will say again that somebody waits.
                thread::sleep(Duration::from_millis(100));
                return;
            }
        };
        if stream.set_nonblocking(true).is_err() {
            continue;
        }
        if connections.len() >= CONNECTIONS_MAX {
            let mut counts: HashMap<IpAddr, usize> = HashMap::new();
            connections.iter().for_each(|connection| *counts.entry(connection.peer).or_default() += 1);
            let most = counts.values().max().copied();
            let goes = connections.iter().position(|connection| counts.get(&connection.peer).copied() == most);
            goes.map(|at| connections.remove(at));
        }
        let (at, ends) = (stream.local_addr().ok(), Instant::now() + LIFETIME);
        connections.push(Connection { stream, peer: peer.ip(), at, ends, assembler: Assembler::default() });
    }
}

impl Connection {
    /// Answers what has come, and says whether there may be more.
    fn goes_on(&mut self, table: &Table) -> bool {
        let mut piece = [0; CALL_BYTES_MAX];
        let count = match self.stream.read(&mut piece) {
            Ok(0) => return false,
            Ok(count) => count,
            Err(error) => return matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        };
        let mut calls = Vec::new();
        let is_fed = self.assembler.feed(piece.get(..count).unwrap_or_default(), &mut calls);
        if is_fed.is_err() || self.assembler.held_bytes() > 2 * CALL_BYTES_MAX {
            return false;
        }
        let way = Way {
            is_udp: false,
            is_v6: self.peer.is_ipv6(),
            at: self.at.map(|at| at.ip()),
            is_near: self.peer.is_loopback(),
        };
        calls.into_iter().all(|call| {
            // Who does not read what he asked for has had enough.
            let reply = table.answer(call, &way);
            reply.is_some_and(|reply| self.stream.write_all(&bytes(&reply)).is_ok())
        })
    }
}

const RECORD_MARK_BYTES: usize = 4;

/// A reply with its mark.
fn bytes(reply: &Reply) -> Vec<u8> {
    let mut slices = Vec::new();
    reply.slices(0, &mut slices);
    slices.iter().flat_map(|slice| slice.iter().copied()).collect()
}

/// How a call has come.
struct Way {
    is_udp: bool,
    is_v6: bool,
    /// At which address of ours.
    at: Option<IpAddr>,
    /// From this machine, as nobody else can say.
    is_near: bool,
}

/// One program at one port.
#[derive(Clone, Copy)]
struct Place {
    program: u32,
    version: u32,
    protocol: u32,
    port: u16,
}

/// What is said to whoever asks.
struct Table {
    places: Vec<Place>,
    /// Where we listen, by family.
    v4: Option<Ipv4Addr>,
    v6: Option<Ipv6Addr>,
}

impl Table {
    fn new(addresses: &[IpAddr], port: u16, nfs: u16, (speaks_4, heard_by): (bool, &[Transport])) -> Self {
        let own = VERSIONS.iter().flat_map(|version| [(PROGRAM, *version, TCP, port), (PROGRAM, *version, UDP, port)]);
        let version_4 = speaks_4.then_some((v3::PROGRAM, 4));
        let ours = PROGRAMS.into_iter().chain(version_4).chain([(nlm::PROGRAM, nlm::VERSION)]);
        let places = own.chain(ours.map(|(program, version)| (program, version, TCP, nfs)));
        let places =
            places.chain(monitor(heard_by).map(|(program, version, protocol)| (program, version, protocol, nfs)));
        let place = |(program, version, protocol, port)| Place { program, version, protocol, port };
        Self {
            places: places.map(place).collect(),
            v4: addresses.iter().find_map(|address| if let IpAddr::V4(it) = address { Some(*it) } else { None }),
            v6: addresses.iter().find_map(|address| if let IpAddr::V6(it) = address { Some(*it) } else { None }),
        }
    }

    /// The answer to a record, if there is one.
    fn answer(&self, record: Bytes, way: &Way) -> Option<Reply> {
        if record.len() > CALL_BYTES_MAX {
            return None;
        }
        let call = match Call::parse(record) {
            Ok(call) => call,
            Err(Refusal::Answer(reply)) => return Some(*reply),
            Err(Refusal::NotACall) => return None,
        };
        Some(match self.results(&call, way) {
            Ok(results) => Reply::success(call.xid, results),
            Err(error) => Reply::accept_error(call.xid, error),
        })
    }

    fn results(&self, call: &Call, way: &Way) -> Result<Encoder, AcceptError> {
        if call.program != PROGRAM {
            return Err(AcceptError::ProgramUnavailable);
        }
        if !VERSIONS.contains(&call.version) {
            return Err(AcceptError::ProgramMismatch { low: 2, high: 4 });
        }
        let mut words = call.arguments();
        let garbage = |Garbage| AcceptError::GarbageArguments;
        let mut out = Encoder::new();
        match (call.version, call.procedure) {
            (_, 0) => {}
            // This is nobody's list but ours.
            (_, SET | UNSET) => {
                out.bool(false);
            }
            (2, GETPORT) => {
                out.u32(self.port_of(&mut words, way).map_err(garbage)?);
            }
            // GETADDR.
            (_, GETPORT) => {
                out.opaque(self.address_of(&mut words, way).map_err(garbage)?.as_bytes());
            }
            (_, DUMP) if way.is_udp && !way.is_near => return Err(AcceptError::ProcedureUnavailable),
            (2, DUMP) => self.mappings(&mut out),
            (_, DUMP) => self.addresses(&mut out),
            _ => return Err(AcceptError::ProcedureUnavailable),
        }
        Ok(out)
    }

    /// A program over a protocol, in this version if we have it: else the program itself says which it has. To this machine our status monitor is none (N5).
    fn place(&self, (program, version, protocol): (u32, u32, u32), way: &Way) -> Option<&Place> {
        let is_told = |it: &Place| !(way.is_near && it.program == nsm::PROGRAM);
        let of_program =
            || self.places.iter().filter(|it| it.program == program && it.protocol == protocol && is_told(it));
        of_program().find(|it| it.version == version).or_else(|| of_program().next())
    }

    /// GETPORT: program, version, protocol, and a port that means nothing.
    fn port_of(&self, words: &mut Decoder<'_>, way: &Way) -> Result<u32, Garbage> {
        let [program, version, protocol, _] = [words.u32()?, words.u32()?, words.u32()?, words.u32()?];
        Ok(self.place((program, version, protocol), way).map_or(0, |place| place.port.into()))
    }

    /// GETADDR: program, version, transport, the address at which the asker knows us, and an owner that means nothing. An empty
    /// answer is no address.
    fn address_of(&self, words: &mut Decoder<'_>, way: &Way) -> Result<String, Garbage> {
        let (program, version) = (words.u32()?, words.u32()?);
        let transport = words.opaque(NETID_BYTES_MAX)?;
        let known = words.opaque(ADDRESS_BYTES_MAX)?;
        words.opaque(ADDRESS_BYTES_MAX)?;
        let (protocol, is_v6) = match transport {
            b"tcp" => (TCP, false),
            b"tcp6" => (TCP, true),
            b"udp" => (UDP, false),
            b"udp6" => (UDP, true),
            b"" => (if way.is_udp { UDP } else { TCP }, way.is_v6),
            _ => return Ok(String::new()),
        };
        let listens: Option<IpAddr> = if is_v6 { self.v6.map(IpAddr::V6) } else { self.v4.map(IpAddr::V4) };
        let (Some(listens), Some(place)) = (listens, self.place((program, version, protocol), way)) else {
            return Ok(String::new());
        };
        let candidates = [host(known), way.at, Some(listens)].into_iter().flatten();
        let at = candidates.filter(|at| at.is_ipv6() == is_v6).find(|at| !at.is_unspecified());
        Ok(universal(at.unwrap_or(listens), place.port))
    }

    /// DUMP of version 2.
    fn mappings(&self, out: &mut Encoder) {
        for Place { program, version, protocol, port } in &self.places {
            out.bool(true).u32(*program).u32(*version).u32(*protocol).u32((*port).into());
        }
        out.bool(false);
    }

    /// DUMP of versions 3 and 4.
    fn addresses(&self, out: &mut Encoder) {
        let families = [self.v4.map(|it| ("", IpAddr::V4(it))), self.v6.map(|it| ("6", IpAddr::V6(it)))];
        for (suffix, address) in families.into_iter().flatten() {
            for Place { program, version, protocol, port } in &self.places {
                let transport = if *protocol == TCP { "tcp" } else { "udp" };
                out.bool(true).u32(*program).u32(*version).opaque(format!("{transport}{suffix}").as_bytes());
                out.opaque(universal(address, *port).as_bytes()).opaque(b"superuser");
            }
        }
        out.bool(false);
    }
}

/// An address and a port as RFC 5665 writes them: `192.0.2.1.8.1`.
fn universal(address: IpAddr, port: u16) -> String {
    let [high, low] = port.to_be_bytes();
    format!("{address}.{high}.{low}")
}

/// The host of such an address.
fn host(universal: &[u8]) -> Option<IpAddr> {
    let mut parts = std::str::from_utf8(universal).ok()?.rsplitn(3, '.').skip(2);
    parts.next()?.parse().ok()
}

#[cfg(test)]
mod tests;
