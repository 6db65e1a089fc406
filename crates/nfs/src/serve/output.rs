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

/// Places for replies that a connection keeps when none waits.
const QUEUE_KEPT: usize = 16;

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
    /// What the replies that are not sent in full hold in memory.
    held_bytes: usize,
    /// Somebody is sending, outside of the lock.
    sending: bool,
    /// The socket is full; epoll tells when it is not.
    full: bool,
}

impl Output {
    /// Adds a reply; [`Output::flush`] sends it.
    pub(super) fn push(&self, mut reply: Reply) {
        let mut state = self.state.lock();
        if state.full {
            reply.let_go_of_blocks();
        }
        state.held_bytes += reply.held_bytes();
        state.queue.push_back(reply);
    }

    /// Bytes of memory that waiting replies hold.
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

    /// Sends what waits, as far as the socket takes it and nobody else is at it; true if it took something.
    pub(super) fn flush(&self, stream: &TcpStream) -> io::Result<bool> {
        let mut state = self.state.lock();
        if state.sending || state.full {
            return Ok(false);
        }
        state.sending = true;
        let mut taken = false;
        let result = loop {
            if state.queue.is_empty() {
                state.queue.shrink_to(QUEUE_KEPT);
                break Ok(taken);
            }
            let count = state.queue.len().min(BATCH_MAX);
            let mut batch: VecDeque<Reply> = state.queue.drain(..count).collect();
            let mut skip = state.sent_of_first;
            drop(state);
            let before: usize = batch.iter().map(Reply::held_bytes).sum();
            let sent = send_once(stream, &mut batch, &mut skip);
            let after: usize = batch.iter().map(Reply::held_bytes).sum();
            state = self.state.lock();
            state.sent_of_first = skip;
            while let Some(reply) = batch.pop_back() {
                state.queue.push_front(reply);
            }
            // The connection may have been cleared meanwhile.
            state.held_bytes = (state.held_bytes + after).saturating_sub(before);
            match sent {
                Ok(()) => taken = true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    state.full = true;
                    state.queue.iter_mut().for_each(Reply::let_go_of_blocks);
                    break Ok(taken);
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
        state.queue = VecDeque::new();
        state.held_bytes = 0;
        state.sent_of_first = 0;
        state.full = true;
    }
}

/// One gathered write; takes what was sent in full out of the batch.
fn send_once(mut stream: &TcpStream, batch: &mut VecDeque<Reply>, skip: &mut usize) -> io::Result<()> {
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
    Ok(())
}
