//! From a URL to two services that answer. What is tried, in this order:
//!
//! | the URL says | NFS | MOUNT |
//! |---|---|---|
//! | both ports | as it says | as it says |
//! | the port of NFS | as it says | the same port; then what rpcbind says |
//! | nothing | what rpcbind says | what rpcbind says, or the URL |
//! | | 2049, then 12049 | the same port, or what the URL says |
//!
//! A server that answers and refuses the export ends the search: it is the one that was meant.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use anyhow::{Context, Result, bail};

use super::Url;
use crate::wire::{
    Caller, Connection, Handle, MOUNT_PROGRAM, NFS_PORT, NFS_PROGRAM, RPCBIND_PORT, Refused, Target, VERSION, status,
};

/// Where our own server listens when somebody else has the usual port.
const SECOND_PORT: u16 = 12049;

/// The first pair of services that mounts the export, and its root.
pub fn find(url: &Url, caller: Caller) -> Result<(Target, Handle)> {
    let mut refusals = String::new();
    for address in addresses(&url.host)? {
        for attempt in attempts(url) {
            match attempt.make(address, url, caller) {
                Ok(found) => return Ok(found),
                Err(error) if error.is::<Refused>() => return Err(refused(error, url)),
                // Writing to a string cannot fail.
                Err(error) => drop(write!(refusals, "\n  {address}, {}: {error:#}", attempt.words())),
            }
        }
    }
    bail!(
        "no NFSv3 server was found for {url}. Tried:{refusals}\n\
         Name the ports: nfs://HOST:PORT/EXPORT?mountport=PORT (`rpcinfo -p HOST` shows them)."
    )
}

fn refused(error: anyhow::Error, url: &Url) -> anyhow::Error {
    let what = match error.downcast_ref::<Refused>().map(|refused| refused.status) {
        Some(status::NOENT) => "the server exports no such path; `showmount -e HOST` lists what it does export",
        Some(status::ACCES | status::PERM) => {
            "the server does not export it to this machine; `showmount -e HOST` lists what it does export, and to whom"
        }
        _ => "the server does not let it be mounted",
    };
    error.context(format!("{url}: {what}"))
}

fn addresses(host: &str) -> Result<Vec<IpAddr>> {
    let found = (host, 0).to_socket_addrs().with_context(|| format!("the host '{host}' is not known"))?;
    let mut addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    addresses.dedup();
    Ok(addresses)
}

/// Where a port comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Port {
    Number(u16),
    Rpcbind,
}

/// One way to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Attempt {
    nfs: Port,
    mount: Port,
}

fn attempts(url: &Url) -> Vec<Attempt> {
    let number = |nfs: u16| Attempt { nfs: Port::Number(nfs), mount: Port::Number(url.mount_port.unwrap_or(nfs)) };
    match (url.nfs_port, url.mount_port) {
        (Some(nfs), Some(_)) => vec![number(nfs)],
        (Some(nfs), None) => vec![number(nfs), Attempt { mount: Port::Rpcbind, ..number(nfs) }],
        (None, mount) => {
            let asked = Attempt { nfs: Port::Rpcbind, mount: mount.map_or(Port::Rpcbind, Port::Number) };
            vec![asked, number(NFS_PORT), number(SECOND_PORT)]
        }
    }
}

impl Attempt {
    fn words(self) -> String {
        let port = |port| match port {
            Port::Number(port) => format!("port {port}"),
            Port::Rpcbind => "as rpcbind says".to_owned(),
        };
        format!("NFS {}, MOUNT {}", port(self.nfs), port(self.mount))
    }

    fn make(self, host: IpAddr, url: &Url, caller: Caller) -> Result<(Target, Handle)> {
        let nfs = self.nfs.at(host, NFS_PROGRAM, "NFS")?;
        let mount = self.mount.at(host, MOUNT_PROGRAM, "MOUNT")?;
        // First, or a MOUNT service that has nothing to do with this port would be believed.
        let mut connection = Connection::open_as(nfs, caller)?;
        let root = Connection::open_as(mount, caller)?.mnt(&url.export)?;
        connection.limits(&root)?;
        Ok((Target { nfs, mount, export: url.export.clone() }, root))
    }
}

impl Port {
    fn at(self, host: IpAddr, program: u32, name: &str) -> Result<SocketAddr> {
        let port = match self {
            Self::Number(port) => port,
            Self::Rpcbind => Connection::open(SocketAddr::new(host, RPCBIND_PORT))?
                .port_of(program, VERSION)?
                .with_context(|| format!("rpcbind knows no {name} version {VERSION} over TCP"))?,
        };
        Ok(SocketAddr::new(host, port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_the_search() {
        let attempt = |nfs, mount| Attempt { nfs, mount };
        let (rpcbind, number) = (Port::Rpcbind, Port::Number);
        let cases = [
            ("nfs://h:7/e?mountport=8", vec![attempt(number(7), number(8))]),
            ("nfs://h:7/e", vec![attempt(number(7), number(7)), attempt(number(7), rpcbind)]),
            (
                "nfs://h/e?mountport=8",
                vec![attempt(rpcbind, number(8)), attempt(number(2049), number(8)), attempt(number(12049), number(8))],
            ),
            (
                "nfs://h/e",
                vec![
                    attempt(rpcbind, rpcbind),
                    attempt(number(2049), number(2049)),
                    attempt(number(12049), number(12049)),
                ],
            ),
        ];
        for (url, expected) in cases {
            assert_eq!(attempts(&url.parse().unwrap()), expected, "{url}");
        }
    }

    #[test]
    fn nobody_there_is_said_with_all_that_was_tried() {
        // A port that was free a moment ago.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let url = format!("nfs://127.0.0.1:{port}/tank?mountport={port}").parse().unwrap();
        let error = find(&url, Caller::default()).unwrap_err().to_string();
        assert!(error.contains("no NFSv3 server was found") && error.contains("mountport="), "{error}");
    }
}
