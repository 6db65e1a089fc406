//! Which export is measured, as a person writes it: `nfs://HOST[:PORT]/EXPORT[?OPTION=VALUE&…]`, the way libnfs
//! spells it.

mod find;

use std::fmt;

use anyhow::{Context, Result, bail, ensure};

pub use find::find;

/// An export and how to reach it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Url {
    /// Name or address of the server.
    pub host: String,
    /// The path that is mounted.
    pub export: String,
    /// Port of NFS; rpcbind knows it otherwise.
    pub nfs_port: Option<u16>,
    /// Port of MOUNT; otherwise that of NFS is tried, and rpcbind asked.
    pub mount_port: Option<u16>,
    /// User that is claimed.
    pub uid: Option<u32>,
    /// Group that is claimed.
    pub gid: Option<u32>,
}

impl std::str::FromStr for Url {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let rest = text.strip_prefix("nfs://").context("write nfs://HOST[:PORT]/EXPORT")?;
        let (address, path) = rest.split_once('/').context("the export is missing: nfs://HOST/EXPORT")?;
        let (path, options) = path.split_once('?').unwrap_or((path, ""));
        let (host, port) = host_and_port(address)?;
        ensure!(!host.is_empty(), "the host is missing: nfs://HOST/EXPORT");
        let export = format!("/{}", path.trim_end_matches('/'));
        let mut url = Self { host: host.to_owned(), export, nfs_port: port, ..Self::default() };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            url.option(option).with_context(|| format!("the option '{option}' of the URL"))?;
        }
        Ok(url)
    }
}

impl Url {
    fn option(&mut self, option: &str) -> Result<()> {
        let (name, value) = option.split_once('=').context("write name=value")?;
        let number = || value.parse::<u32>().with_context(|| format!("'{value}' is no number"));
        match name {
            "port" | "nfsport" => self.nfs_port = Some(port(value)?),
            "mountport" => self.mount_port = Some(port(value)?),
            "uid" => self.uid = Some(number()?),
            "gid" => self.gid = Some(number()?),
            "version" => ensure!(value == "3", "only version 3 is spoken"),
            _ => bail!("there are port (or nfsport), mountport, uid, gid and version"),
        }
        Ok(())
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let brackets = self.host.contains(':');
        let host = if brackets { format!("[{}]", self.host) } else { self.host.clone() };
        let port = self.nfs_port.map(|port| format!(":{port}")).unwrap_or_default();
        write!(f, "nfs://{host}{port}{}", self.export)
    }
}

/// An IPv6 address stands in brackets, because it has colons of its own.
fn host_and_port(text: &str) -> Result<(&str, Option<u16>)> {
    let (host, rest) = match text.strip_prefix('[') {
        Some(inside) => inside.split_once(']').context("a bracket is not closed")?,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    match rest {
        "" => Ok((host, None)),
        _ => Ok((host, Some(port(rest.strip_prefix(':').context("behind the address comes :PORT")?)?))),
    }
}

fn port(text: &str) -> Result<u16> {
    text.parse().ok().filter(|port| *port > 0).with_context(|| format!("'{text}' is no port"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_people_write() {
        let url = |host: &str, export: &str| Url { host: host.into(), export: export.into(), ..Url::default() };
        let cases = [
            ("nfs://filer/tank", url("filer", "/tank")),
            ("nfs://10.0.0.1:12049/tank/home/", Url { nfs_port: Some(12049), ..url("10.0.0.1", "/tank/home") }),
            ("nfs://[::1]:2049/", Url { nfs_port: Some(2049), ..url("::1", "/") }),
            (
                "nfs://filer/t?nfsport=1&mountport=2&uid=5&gid=6&version=3",
                Url { nfs_port: Some(1), mount_port: Some(2), uid: Some(5), gid: Some(6), ..url("filer", "/t") },
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Url>().unwrap(), expected, "{text}");
        }
        assert_eq!("nfs://[::1]:2049/a?uid=3".parse::<Url>().unwrap().to_string(), "nfs://[::1]:2049/a");
    }

    #[test]
    fn urls_that_make_no_sense() {
        let wrong = [
            "",
            "filer:/tank",
            "http://filer/tank",
            "nfs://filer",
            "nfs:///tank",
            "nfs://filer:/tank",
            "nfs://filer:0/tank",
            "nfs://filer:70000/tank",
            "nfs://[::1/tank",
            "nfs://[::1]2049/tank",
            "nfs://filer/tank?version=4",
            "nfs://filer/tank?uid",
            "nfs://filer/tank?uid=root",
            "nfs://filer/tank?colour=red",
        ];
        for text in wrong {
            assert!(text.parse::<Url>().is_err(), "{text}");
        }
    }
}
