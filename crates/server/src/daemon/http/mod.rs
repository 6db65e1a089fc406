//! What can be seen with a browser and by Prometheus: a dashboard, its data as JSON, and metrics. Everything is for
//! reading; nothing here changes anything.
//!
//! Parsing is `httparse`'s, which half of Rust's web stands on. The rest is plain threads, one for each connection and
//! one request for each connection: a page and a scraper ask every few seconds. A server library would bring a runtime,
//! or (the small ones) threads and buffers without bounds.
//!
//! ```text
//!   accept ─▶ place free? ─▶ head within 8 KiB and 5 s ─▶ GET or HEAD? ─▶ Host ours? ─▶ known path ─▶ answer within 20 s
//!                │ no: another goes │ no: 400, 408, 431       │ no: 405      │ no: 421      │ no: 404
//! ```
//!
//! Who may look: whoever reaches the address, which is this machine's own unless somebody chose another. A page from
//! elsewhere that a browser shows on this machine must not read it either: no answer carries CORS headers, so other
//! origins cannot; and a foreign name that is made to point here (DNS rebinding) is refused by the request's Host,
//! which must be an address, `localhost`, this machine's name, or one from the configuration.
//!
//! Bounds: [`CONNECTIONS_MAX`] connections, of which the oldest without a whole head gives way to who comes, and else the
//! oldest of all ([`crate::places`]); [`request::HEAD_BYTES_MAX`], two times above, and an observation at most
//! every [`site::FRESH`], however many ask.

mod connection;
mod listen;
mod request;
mod response;
mod site;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub use listen::HttpError;
pub(super) use listen::listen;
pub(super) use site::{Look, Site};

use crate::places::{IfAllAreBusy, Places};

/// Most connections at a time.
const CONNECTIONS_MAX: usize = 32;

/// The running server. It ends when this is dropped.
pub(super) struct HttpServer {
    listener: Arc<TcpListener>,
    stop: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl HttpServer {
    /// Answers on `listener`, in threads of its own.
    pub(super) fn start(listener: TcpListener, site: Arc<Site>) -> io::Result<Self> {
        let (listener, stop) = (Arc::new(listener), Arc::new(AtomicBool::new(false)));
        let (socket, stopped) = (Arc::clone(&listener), Arc::clone(&stop));
        let accept = move || accept_all(&socket, &site, &stopped);
        let acceptor = thread::Builder::new().name("http".into()).spawn(accept)?;
        Ok(Self { listener, stop, acceptor: Some(acceptor) })
    }

    /// With the port that the kernel chose, if none was asked for.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // Linux wakes a thread that accepts on a socket that is shut down.
        let woken = rustix::net::shutdown(self.listener.as_fd(), rustix::net::Shutdown::Both).is_ok();
        if let Some(acceptor) = self.acceptor.take().filter(|_| woken) {
            // If it panicked, that was printed.
            let _ = acceptor.join();
        }
    }
}

fn accept_all(listener: &TcpListener, site: &Arc<Site>, stop: &AtomicBool) {
    let places = Places::new(CONNECTIONS_MAX, IfAllAreBusy::DropFirst);
    for stream in listener.incoming() {
        if stop.load(Ordering::Acquire) {
            return;
        }
        let Ok(stream) = stream else {
            // Out of descriptors, most likely: others need the time to give some back.
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        let stream = Arc::new(stream);
        let Some(place) = places.take(&stream) else { continue };
        let site = Arc::clone(site);
        let serve = move || connection::serve(&stream, &site, &place);
        let spawned = thread::Builder::new().name("http".into()).spawn(serve);
        if let Err(error) = spawned {
            tracing::warn!(%error, "no thread for an HTTP connection");
        }
    }
}

#[cfg(test)]
mod tests;
