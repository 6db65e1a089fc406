//! One connection: a head that must come in time, an answer that must be taken in time, the end.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use super::request::{self, HEAD_BYTES_MAX};
use super::response::{Response, Status};
use super::site::Site;
use crate::places::Place;

/// For the whole head, so that nobody holds a place by sending a byte now and then.
const HEAD_TIME_MAX: Duration = Duration::from_secs(5);
/// For the whole answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(20);
/// Bytes that are written before the time is looked at again.
const PIECE_BYTES: usize = 64 << 10;

/// Answers one request. The peer may hang up whenever it likes.
pub(super) fn serve(stream: &TcpStream, site: &Site, place: &Place<TcpStream>) {
    let (response, head_only) = match read(stream, site) {
        Ok(Some(request)) => {
            place.is_busy();
            (site.answer(&request), request.head_only)
        }
        Ok(None) => return,
        Err(status) => (Response::refusal(status), false),
    };
    let deadline = Instant::now() + ANSWER_TIME_MAX;
    let body: &[u8] = if head_only { &[] } else { &response.body };
    let written = write(stream, response.head().as_bytes(), deadline).and_then(|()| write(stream, body, deadline));
    if written.is_ok() {
        // What the peer still sends is not waited for.
        let _ = stream.shutdown(Shutdown::Write);
    }
}

/// A request; `None` if there will be none.
fn read(mut stream: &TcpStream, site: &Site) -> Result<Option<request::Request>, Status> {
    let deadline = Instant::now() + HEAD_TIME_MAX;
    let mut head = Vec::with_capacity(1024);
    let mut piece = [0; 1024];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return Err(Status::Timeout);
        }
        match stream.read(&mut piece) {
            Ok(0) => return Ok(None),
            Ok(count) => head.extend_from_slice(piece.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return if head.is_empty() { Ok(None) } else { Err(Status::Timeout) };
            }
            Err(_) => return Ok(None),
        }
        debug_assert!(head.len() <= HEAD_BYTES_MAX + piece.len());
        if let Some(request) = request::parse(&head, site.host_names())? {
            return Ok(Some(request));
        }
    }
}

fn write(mut stream: &TcpStream, bytes: &[u8], deadline: Instant) -> io::Result<()> {
    for piece in bytes.chunks(PIECE_BYTES) {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(left))?;
        stream.write_all(piece)?;
    }
    Ok(())
}
