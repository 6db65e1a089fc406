//! Connections of the ledger's clients. A client must be able to send a request again, byte for byte and on
//! another connection, as a kernel does after a crash; the client crate draws a new transaction id for every
//! call, so the transport keeps the last record that went out and the last that came in.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nfs3_client::io::{AsyncRead, AsyncWrite};
use nfs3_types::nfs3::NFS_PROGRAM;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

/// How long an answer may take.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest reply that is believed, bytes.
const REPLY_BYTES_MAX: usize = 4 << 20;

/// The last request and what has come of its reply, both without record marks.
#[derive(Clone, Debug, Default)]
pub struct Exchange {
    /// The call.
    pub request: Vec<u8>,
    /// The reply; empty if there was none.
    pub reply: Vec<u8>,
}

/// Where a connection writes down what passes over it.
#[derive(Clone, Default)]
pub struct Record(Arc<Mutex<Exchange>>);

impl Record {
    /// What passed last.
    #[must_use]
    pub fn last(&self) -> Exchange {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Exchange> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A TCP connection that keeps a record.
pub struct Wire {
    stream: tokio::net::TcpStream,
    record: Record,
}

impl Wire {
    /// Connects from a loopback address of the client's own: servers tell clients apart by it.
    pub async fn connect(from: IpAddr, to: SocketAddr, record: Record) -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(from, 0))?;
        let stream = socket.connect(to).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, record })
    }
}

impl AsyncRead for Wire {
    async fn async_read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(buf).await?;
        // The client crate would read an ended stream for ever.
        if count == 0 && !buf.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(count)
    }

    async fn async_read_exact(&mut self, buf: &mut [u8]) -> io::Result<()> {
        self.stream.read_exact(buf).await?;
        // The mark of four bytes comes first, then the whole reply.
        if buf.len() > 4 {
            self.record.lock().reply = buf.to_vec();
        }
        Ok(())
    }
}

impl AsyncWrite for Wire {
    async fn async_write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.stream.write(buf).await
    }

    async fn async_write_all(&mut self, buf: &[u8]) -> io::Result<()> {
        *self.record.lock() = Exchange { request: buf.get(4..).unwrap_or_default().to_vec(), reply: Vec::new() };
        self.stream.write_all(buf).await
    }
}

/// What a reply says, as far as a repetition of it must say the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// NFS status.
    pub status: u32,
    /// The handle of what was made.
    pub handle: Option<Vec<u8>>,
}

impl Answer {
    /// Reads a reply to a call of `procedure`.
    pub fn parse(procedure: NFS_PROGRAM, reply: &[u8]) -> Result<Self> {
        let mut rest = Numbers(reply);
        let (_xid, kind, accepted, _flavor) = (rest.next()?, rest.next()?, rest.next()?, rest.next()?);
        let verifier = rest.next()? as usize;
        rest.skip(verifier.next_multiple_of(4))?;
        let success = rest.next()?;
        ensure!((kind, accepted, success) == (1, 0, 0), "call refused: {kind}, {accepted}, {success}");
        let status = rest.next()?;
        let makes = matches!(
            procedure,
            NFS_PROGRAM::NFSPROC3_CREATE | NFS_PROGRAM::NFSPROC3_MKDIR | NFS_PROGRAM::NFSPROC3_SYMLINK
        );
        let mut handle = None;
        if makes && status == 0 && rest.next()? == 1 {
            let length = rest.next()? as usize;
            handle = Some(rest.skip(length)?.to_vec());
        }
        Ok(Self { status, handle })
    }
}

struct Numbers<'a>(&'a [u8]);

impl<'a> Numbers<'a> {
    fn skip(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).context("reply too short")?;
        self.0 = rest;
        Ok(taken)
    }

    fn next(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.skip(4)?.try_into()?))
    }
}

/// Sends a recorded request again on a new connection, with its old transaction id, and gives the reply. The connection
/// has ended on both sides then: TCP keeps no order between its end and what comes on the next one, and before the end
/// has arrived it is another living sender, who gets no answer of this one's.
pub async fn retransmit(from: IpAddr, to: SocketAddr, request: &[u8]) -> Result<Vec<u8>> {
    let exchange = async {
        let mut stream = Wire::connect(from, to, Record::default()).await?.stream;
        stream.write_all(&(u32::try_from(request.len())? | 1 << 31).to_be_bytes()).await?;
        stream.write_all(request).await?;
        let mark = stream.read_u32().await.context("no answer")?;
        let length = (mark & 0x7fff_ffff) as usize;
        ensure!(mark >> 31 == 1 && length <= REPLY_BYTES_MAX, "reply in fragments or of {length} bytes");
        let mut reply = vec![0; length];
        stream.read_exact(&mut reply).await?;
        ensure!(reply.get(..4) == request.get(..4), "the reply has another transaction id");
        stream.shutdown().await?;
        ensure!(stream.read(&mut [0]).await? == 0, "the server sends more than one reply");
        Ok(reply)
    };
    tokio::time::timeout(ANSWER_TIMEOUT, exchange).await.context("no answer in time")?
}
