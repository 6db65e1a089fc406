//! Receiving: from a socket to complete records.

use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;

use bytes::Bytes;

use crate::rpc::{Assembler, RecordError};

/// A worker's buffer for what arrives, before it is known where it belongs.
pub(super) const SCRATCH_BYTES: usize = 64 << 10;
/// What is received at a time, so that one connection does not hold a worker for ever.
const TURN_BYTES_MAX: usize = 1 << 20;
/// Records after which nothing more is received at a time: a megabyte of the smallest would be twenty thousand.
const TURN_RECORDS_MAX: usize = 64;

/// Why nothing more comes.
#[derive(Debug)]
pub(super) enum End {
    /// The peer is done.
    Closed,
    /// The peer cannot be followed.
    Record(RecordError),
    /// The network broke it.
    Io(io::Error),
}

/// The receiving side of a connection.
#[derive(Default)]
pub(super) struct Input {
    assembler: Assembler,
}

impl Input {
    /// Receives what is there. Complete records go to `found`, also those before the end.
    pub(super) fn receive(
        &mut self,
        stream: &TcpStream,
        scratch: &mut [u8],
        found: &mut Vec<Bytes>,
    ) -> Result<(), End> {
        let mut turn_bytes = 0;
        while turn_bytes < TURN_BYTES_MAX && found.len() < TURN_RECORDS_MAX {
            let Received { count, room } = match self.receive_once(stream, scratch, found) {
                Ok(received) => received,
                Err(End::Io(error)) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(End::Io(error)) if error.kind() == ErrorKind::Interrupted => continue,
                Err(end) => return Err(end),
            };
            turn_bytes += count;
            // A read that did not fill its buffer has emptied the socket; epoll tells if that changes.
            if count < room {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Bytes that a partial record holds.
    pub(super) fn held_bytes(&self) -> usize {
        self.assembler.held_bytes()
    }

    /// Bytes of a partial record that have arrived.
    pub(super) fn arrived_bytes(&self) -> usize {
        self.assembler.arrived_bytes()
    }

    /// Whether a record has begun and not ended.
    pub(super) fn is_partial(&self) -> bool {
        self.assembler.is_partial()
    }

    fn receive_once(
        &mut self,
        mut stream: &TcpStream,
        scratch: &mut [u8],
        found: &mut Vec<Bytes>,
    ) -> Result<Received, End> {
        if let Some(buffer) = self.assembler.direct() {
            let room = buffer.capacity() - buffer.len();
            let count = rustix::io::read(stream, rustix::buffer::spare_capacity(buffer))
                .map_err(|errno| End::Io(errno.into()))?;
            if count == 0 {
                return Err(End::Closed);
            }
            self.assembler.received(count, found).map_err(End::Record)?;
            return Ok(Received { count, room });
        }
        let count = stream.read(scratch).map_err(End::Io)?;
        if count == 0 {
            return Err(End::Closed);
        }
        self.assembler.feed(scratch.get(..count).unwrap_or_default(), found).map_err(End::Record)?;
        Ok(Received { count, room: scratch.len() })
    }
}

struct Received {
    count: usize,
    room: usize,
}
