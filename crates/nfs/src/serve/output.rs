//! Sending: replies of one connection, many in one write where they come together.
//!
//! Whoever finds nobody sending sends, and goes on until nothing is left; the others only add. What the
//! socket does not take stays here until epoll says that it takes more. A call of ours goes ahead of replies that wait for
//! that: who reads as fast as his line allows has megabytes of them before him all the time.

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
    /// The socket is full, and nobody is sending; epoll tells when it is not.
    full: bool,
}

impl State {
    /// The place behind what is sent in part, and behind the calls that wait there.
    fn behind_begun(&self) -> usize {
        let begun = usize::from(self.sent_of_first > 0).min(self.queue.len());
        begun + self.queue.iter().skip(begun).take_while(|waiting| waiting.is_call()).count()
    }
}

impl Output {
    /// Adds a reply; [`Output::flush`] sends it.
    pub(super) fn push(&self, mut reply: Reply) {
        let mut state = self.state.lock();
        if state.full {
            reply.let_go_of_blocks();
        }
        state.held_bytes += reply.held_bytes();
        let at = if state.full && reply.is_call() { state.behind_begun() } else { state.queue.len() };
        state.queue.insert(at, reply);
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

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use bytes::Bytes;

    use super::*;
    use crate::rpc::{Caller, Calls, Outgoing};
    use crate::xdr::Encoder;

    const LARGE: usize = 16 << 20;

    fn reply(xid: u32, bytes: usize) -> Reply {
        let mut words = Encoder::new();
        words.raw(&vec![0; bytes]);
        Reply::success(xid, words)
    }

    #[test]
    fn a_call_goes_ahead_of_what_a_full_socket_has_not_begun_with() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let (output, calls) = (Output::default(), Calls::numbered_from(100));
        let arguments = Bytes::from_static(b"what");
        let outgoing = Outgoing { program: 1, version: 1, procedure: 1, caller: Caller::Nobody, arguments };
        let call = |known_by: u32| calls.begin(&outgoing, known_by).unwrap();
        output.push(reply(1, 8));
        output.push(call(1));
        output.push(reply(2, LARGE));
        output.push(reply(3, 8));
        assert!(output.flush(&stream).unwrap() && output.is_full(), "it takes some of the large one");
        output.push(reply(4, 8));
        output.push(call(2));
        output.push(call(3));
        output.push(reply(5, 8));
        let reads = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            peer.read_to_end(&mut bytes).unwrap();
            bytes
        });
        while output.held_bytes() > 0 {
            output.room_again();
            output.flush(&stream).unwrap();
        }
        drop(stream);
        let (bytes, mut xids) = (reads.join().unwrap(), Vec::new());
        let mut rest = &bytes[..];
        let word = |bytes: &[u8]| u32::from_be_bytes(bytes[..4].try_into().unwrap());
        while !rest.is_empty() {
            xids.push(word(&rest[4..]));
            rest = &rest[4 + (word(rest) & !(1 << 31)) as usize..];
        }
        assert_eq!(xids, [1, 100, 2, 101, 102, 3, 4, 5]);
    }
}
