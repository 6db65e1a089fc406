//! Ways to serve a lone client, side by side on the bare loop: who reads the request, and who writes the log. What
//! they differ by is what a server pays for the choice (docs/design, pages 4 and 9).

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, mpsc};

use anyhow::{Context, Result, ensure};
use clap::Args;
use tally_bench::wire::Target;
use tally_disk::AlignedBuf;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;

use crate::Site;
use crate::figures::{Bar, Figures};
use crate::floor::{Call, Medium, REQUEST_BYTES_MAX};
use crate::load::{self, Load};

/// What `ways` takes.
#[derive(Args)]
pub struct Ways {
    #[command(flatten)]
    site: Site,
    /// Requests in each run.
    #[arg(long, default_value_t = 20_000)]
    items: u64,
    /// Connections, each with its own thread.
    #[arg(long, default_value_t = 1)]
    connections: usize,
}

/// Who reads requests and sends replies.
#[derive(Clone, Copy, Debug)]
enum Readers {
    /// A thread for each connection.
    Threads,
    /// tasks of a tokio runtime with as many workers as processors.
    Tokio,
}

/// Who writes the log.
#[derive(Clone, Copy, Debug)]
enum Writer {
    /// Whoever read the request.
    Reader,
    /// A thread that does nothing else.
    Thread,
}

const WAYS: [(&str, Readers, Writer); 4] = [
    ("threads, the reader writes", Readers::Threads, Writer::Reader),
    ("threads, a log thread writes", Readers::Threads, Writer::Thread),
    ("tokio, the reader writes", Readers::Tokio, Writer::Reader),
    ("tokio, a log thread writes", Readers::Tokio, Writer::Thread),
];

impl Ways {
    /// Runs all of them alternately on one file.
    pub fn run(&self) -> Result<()> {
        let path = self.site.folder()?.join("ways.log");
        let served: Vec<_> = WAYS
            .iter()
            .map(|&(name, readers, writer)| Ok((name, serve(&path, readers, writer)?)))
            .collect::<Result<_>>()?;
        let mut figures = Figures::default();
        for _ in 0..self.site.runs {
            for (name, target) in &served {
                let measured = load::run(target, Load::Lone, self.connections, self.items)?;
                figures.add(name, "1/s", measured.rate());
                let quantile = |quantile| measured.latency_ns.value_at_quantile(quantile) as f64 / 1000.0;
                figures.add(&format!("{name}: p50"), "µs", quantile(0.5));
                figures.add(&format!("{name}: p99"), "µs", quantile(0.99));
            }
        }
        // The servers end with this process.
        let _ = std::fs::remove_file(&path);
        for (name, _) in &served[1..] {
            figures.add_ratios(&format!("{name}: rate against the first"), name, WAYS[0].0);
        }
        figures.finish("ways")?;
        let command = format!("bench ways --connections {}", self.connections);
        for (name, _) in &served[1..] {
            figures.row(&command, &format!("{name}: rate against the first"), Bar::Stated);
        }
        Ok(())
    }
}

/// Starts to serve on loopback; it goes on until the process ends.
fn serve(path: &Path, readers: Readers, writer: Writer) -> Result<Target> {
    let log = Arc::new(Log::start(Medium::create(path)?, writer));
    let address = match readers {
        Readers::Threads => on_threads(log)?,
        Readers::Tokio => on_tokio(log)?,
    };
    Ok(Target { nfs: address, mount: address, export: "/ways".to_owned() })
}

/// Where durable writes go.
enum Log {
    Here(Medium),
    Thread(mpsc::Sender<Append>),
}

/// A durable write that a log thread is asked for.
struct Append {
    head: Vec<u8>,
    bytes: usize,
    done: oneshot::Sender<std::io::Result<()>>,
}

impl Log {
    fn start(medium: Medium, writer: Writer) -> Self {
        let Writer::Thread = writer else { return Self::Here(medium) };
        let (sender, appends) = mpsc::channel::<Append>();
        std::thread::spawn(move || {
            let mut buffer = AlignedBuf::zeroed(8192);
            while let Ok(append) = appends.recv() {
                // Nobody hears it whose connection broke.
                let _ = append.done.send(write(&medium, &mut buffer, &append.head, append.bytes));
            }
        });
        Self::Thread(sender)
    }

    /// Asks for a write of `bytes` that begins with `request`, unless it is done here and now.
    fn append(
        &self,
        request: &[u8],
        bytes: usize,
        buffer: &mut AlignedBuf,
    ) -> Result<Option<oneshot::Receiver<std::io::Result<()>>>> {
        let head = &request[..request.len().min(4096)];
        match self {
            Self::Here(medium) => write(medium, buffer, head, bytes).map(|()| None).map_err(Into::into),
            Self::Thread(thread) => {
                let (done, waited) = oneshot::channel();
                thread.send(Append { head: head.to_vec(), bytes, done }).context("the log thread is gone")?;
                Ok(Some(waited))
            }
        }
    }
}

fn write(medium: &Medium, buffer: &mut AlignedBuf, head: &[u8], bytes: usize) -> std::io::Result<()> {
    buffer[..head.len()].copy_from_slice(head);
    medium.write(&buffer[..bytes])
}

fn length_of(mark: [u8; 4]) -> Result<usize> {
    let length = (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize;
    ensure!((40..=REQUEST_BYTES_MAX).contains(&length), "request of {length} bytes");
    Ok(length)
}

fn on_threads(log: Arc<Log>) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let log = Arc::clone(&log);
            std::thread::spawn(move || on_thread(stream, &log));
        }
    });
    Ok(address)
}

/// Answers one connection until it closes.
fn on_thread(mut stream: TcpStream, log: &Log) -> Result<()> {
    stream.set_nodelay(true)?;
    let (mut request, mut reply) = (Vec::new(), Vec::new());
    let mut buffer = AlignedBuf::zeroed(8192);
    loop {
        let mut mark = [0; 4];
        stream.read_exact(&mut mark)?;
        request.resize(length_of(mark)?, 0);
        stream.read_exact(&mut request)?;
        let call = Call::of(&request);
        if let Some(bytes) = call.durable_bytes()
            && let Some(waited) = log.append(&request, bytes, &mut buffer)?
        {
            waited.blocking_recv()??;
        }
        call.reply(&mut reply);
        stream.write_all(&reply)?;
    }
}

fn on_tokio(log: Arc<Log>) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_io().build()?;
    std::thread::spawn(move || {
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            loop {
                let (stream, _) = listener.accept().await?;
                tokio::spawn(on_task(stream, Arc::clone(&log)));
            }
            #[expect(unreachable_code, reason = "gives the block its type")]
            Ok::<(), std::io::Error>(())
        })
    });
    Ok(address)
}

/// Answers one connection until it closes.
async fn on_task(mut stream: tokio::net::TcpStream, log: Arc<Log>) -> Result<()> {
    stream.set_nodelay(true)?;
    let (mut request, mut reply) = (Vec::new(), Vec::new());
    let mut buffer = AlignedBuf::zeroed(8192);
    loop {
        let mut mark = [0; 4];
        stream.read_exact(&mut mark).await?;
        request.resize(length_of(mark)?, 0);
        stream.read_exact(&mut request).await?;
        let call = Call::of(&request);
        if let Some(bytes) = call.durable_bytes()
            && let Some(waited) = log.append(&request, bytes, &mut buffer)?
        {
            waited.await??;
        }
        call.reply(&mut reply);
        stream.write_all(&reply).await?;
    }
}
