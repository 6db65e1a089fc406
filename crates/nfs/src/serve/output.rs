//! Sending: replies of one connection, many in one write where they come together.
//!
//! Whoever finds nobody sending sends, and goes on until nothing is left; the others only add. What the
//! socket does not take stays here until epoll says that it takes more.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Write};
use std::net::TcpStream;

use parking_lot::Mutex;

use crate::rpc::Reply;

/// Pieces of one gathered write; the kernel takes up to 1,024.
const SLICES_MAX: usize = 256;
/// Replies of one gathered write.
const BATCH_MAX: usize = 64;

/// The sending side of a connection.
#[derive(Default)]
pub(super) struct Output {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Reply>,
    /// Bytes of the first reply that are sent.
    sent_of_first: usize,
    /// Bytes that are not sent.
    held_bytes: usize,
    /// Somebody is sending, outside of the lock.
    sending: bool,
    /// The socket is full; epoll tells when it is not.
    full: bool,
}

impl Output {
    /// Adds a reply; [`Output::flush`] sends it.
    pub(super) fn push(&self, reply: Reply) {
        let mut state = self.state.lock();
        state.held_bytes += reply.wire_bytes();
        state.queue.push_back(reply);
    }

    /// Bytes that wait.
    pub(super) fn held_bytes(&self) -> usize {
        self.state.lock().held_bytes
    }

    /// Whether the socket is full.
    pub(super) fn is_full(&self) -> bool {
        self.state.lock().full
    }

    /// The socket takes bytes again.
    pub(super) fn room_again(&self) {
        self.state.lock().full = false;
    }

    /// Sends what waits, as far as the socket takes it and nobody else is at it.
    pub(super) fn flush(&self, stream: &TcpStream) -> io::Result<()> {
        let mut state = self.state.lock();
        if state.sending || state.full {
            return Ok(());
        }
        state.sending = true;
        let result = loop {
            if state.queue.is_empty() {
                break Ok(());
            }
            let count = state.queue.len().min(BATCH_MAX);
            let mut batch: VecDeque<Reply> = state.queue.drain(..count).collect();
            let mut skip = state.sent_of_first;
            drop(state);
            let sent = send_once(stream, &mut batch, &mut skip);
            state = self.state.lock();
            state.sent_of_first = skip;
            while let Some(reply) = batch.pop_back() {
                state.queue.push_front(reply);
            }
            match sent {
                // The connection may have been cleared meanwhile.
                Ok(bytes) => state.held_bytes = state.held_bytes.saturating_sub(bytes),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    state.full = true;
                    break Ok(());
                }
                Err(error) => break Err(error),
            }
        };
        state.sending = false;
        result
    }

    /// Forgets everything: the connection is gone.
    pub(super) fn clear(&self) {
        let mut state = self.state.lock();
        state.queue.clear();
        state.held_bytes = 0;
        state.sent_of_first = 0;
        state.full = true;
    }
}

/// One gathered write; takes what was sent in full out of the batch.
fn send_once(mut stream: &TcpStream, batch: &mut VecDeque<Reply>, skip: &mut usize) -> io::Result<usize> {
    let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(batch.len() * 2);
    let mut first_skip = *skip;
    for reply in &*batch {
        reply.slices(first_skip, &mut slices);
        first_skip = 0;
        if slices.len() >= SLICES_MAX {
            break;
        }
    }
    slices.truncate(SLICES_MAX);
    let sent = stream.write_vectored(&slices)?;
    if sent == 0 {
        return Err(ErrorKind::WriteZero.into());
    }
    drop(slices);
    let mut left = sent;
    while let Some(reply) = batch.front() {
        let rest = reply.wire_bytes() - *skip;
        if left < rest {
            *skip += left;
            break;
        }
        left -= rest;
        *skip = 0;
        batch.pop_front();
    }
    Ok(sent)
}
