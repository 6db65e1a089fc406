//! A connection: its socket, what comes in, what goes out, and how much of it is in the house.

use std::collections::VecDeque;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use parking_lot::Mutex;

use super::input::Input;
use super::output::Output;
use super::queue::Work;
use crate::service::Link;

/// A client's TCP connection.
pub(super) struct Connection {
    pub(super) link: Arc<Link>,
    pub(super) stream: Arc<TcpStream>,
    /// Locked while one worker receives: records come out in the order of the stream.
    pub(super) input: Mutex<Input>,
    pub(super) output: Output,
    /// Requests in the house.
    pub(super) request_count: AtomicUsize,
    /// Bytes of a partial record, as counted in the hub's total.
    pub(super) partial_bytes: AtomicUsize,
    /// Set before a worker decides not to read on; whoever then makes room arms the connection again.
    pub(super) paused: AtomicBool,
    /// Guards the arming in epoll, so that the last to arm saw everything.
    pub(super) arming: Mutex<()>,
    /// Requests that wait until the socket has taken more replies.
    pub(super) stalled: Mutex<VecDeque<Box<Work>>>,
}

impl Connection {
    pub(super) fn new(id: u64, peer: SocketAddr, stream: TcpStream) -> Self {
        let stream = Arc::new(stream);
        Self {
            link: Arc::new(Link::over(id, peer, &stream)),
            stream,
            input: Mutex::default(),
            output: Output::default(),
            request_count: AtomicUsize::new(0),
            partial_bytes: AtomicUsize::new(0),
            paused: AtomicBool::new(false),
            arming: Mutex::new(()),
            stalled: Mutex::default(),
        }
    }

    /// Ends both directions. What is in the house goes on without it.
    pub(super) fn shut_down(&self) {
        self.link.close();
        // It fails if the peer was faster, which is as good.
        let _ = self.stream.shutdown(Shutdown::Both);
        self.output.clear();
    }

    /// Drops the requests that waited for its socket; not under `arming`, as that gives their charges back.
    pub(super) fn drop_stalled(&self) {
        let stalled = std::mem::take(&mut *self.stalled.lock());
        drop(stalled);
    }
}
