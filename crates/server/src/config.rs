//! The configuration file, and what the flags make of it. Below the commands and the daemon, which both need it.

mod domain;
mod flags;
mod http;
mod lease;
mod rpcbind;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::{fmt, fs, io};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tally_base::Size;

use crate::control::socket::{DATA_DIR_DEFAULT, SOCKET_NAME};

pub use domain::Domain;
pub use flags::ServeArgs;
pub use http::{HttpListen, PORT_HTTP};
pub use lease::LeaseTime;
pub use rpcbind::Rpcbind;

/// The file that `tally config` prints: every key with its meaning and its default.
pub const DOCUMENTED: &str = include_str!("config/default.toml");

/// The file with the shares, beside the control socket.
const SMB_CONF_NAME: &str = "smb.conf";

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {}: {source}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// It says something that is not understood.
    #[error("{}, line {line}: {message}\n`tally config` prints every key with its default.", path.display())]
    Parse {
        /// Which file.
        path: PathBuf,
        /// Where in it, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
}

/// A running daemon's settings. Defaults stand in [`DOCUMENTED`] too; a test keeps the two equal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(missing_docs)] // Their meaning is in the documented file.
pub struct Config {
    pub data_dir: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smb_conf: Option<PathBuf>,
    pub socket_group: String,
    pub first_pool: bool,
    pub listen: Vec<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    pub rpcbind: Rpcbind,
    pub nfs4: bool,
    pub lease_time: LeaseTime,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nfs4_domain: Option<Domain>,
    pub nlm: bool,
    pub cache: Memory,
    pub dirty_data_max: Memory,
    pub txg_interval_seconds: u32,
    pub open_files: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_id: Option<String>,
    pub log: LogConfig,
    pub http: HttpConfig,
    #[serde(rename = "export", skip_serializing_if = "Vec::is_empty", deserialize_with = "export_rules")]
    pub exports: Vec<ExportRule>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data_dir: DATA_DIR_DEFAULT.into(),
            socket: None,
            smb_conf: None,
            socket_group: "tally".into(),
            first_pool: true,
            listen: vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)],
            port: None,
            rpcbind: Rpcbind::default(),
            nfs4: true,
            lease_time: LeaseTime::default(),
            nfs4_domain: None,
            nlm: false,
            cache: Memory::Percent(25),
            dirty_data_max: Memory::Percent(10),
            txg_interval_seconds: 5,
            open_files: 65536,
            host_id: None,
            log: LogConfig::default(),
            http: HttpConfig::default(),
            exports: Vec::new(),
        }
    }
}

/// Messages on stderr.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// `text` by default.
    pub format: LogFormat,
    /// The least important that is shown, in `tracing`'s words, or a filter by module.
    pub level: String,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { format: LogFormat::Text, level: "info".into() }
    }
}

/// Form of the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines: one object a line.
    Json,
}

/// The dashboard and the metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpConfig {
    /// Where they are; without it at the default's address, if that is free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<HttpListen>,
    /// Names of this server in URLs, besides its addresses, `localhost` and the machine's own name.
    pub host_names: Vec<String>,
}

/// Rules that stand above the property `sharenfs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportRule {
    /// For this dataset and those below it.
    pub dataset: String,
    /// As the value of `sharenfs`.
    pub rules: String,
}

impl ExportRule {
    /// Whether a dataset of this name is meant, by itself or by one above it.
    #[must_use]
    pub fn covers(&self, dataset: &str) -> bool {
        dataset.strip_prefix(self.dataset.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// A table of the configuration that holds for a dataset under its new name, too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// The dataset that the table names.
    pub table: String,
    /// What that was renamed to.
    pub to: String,
}

impl Moved {
    /// Whether the file still has the table, and none for the new name.
    #[must_use]
    pub fn holds(&self, file: &[ExportRule]) -> bool {
        let has = |name: &str| file.iter().any(|rule| rule.dataset == name);
        has(&self.table) && !has(&self.to)
    }
}

/// The tables as they are compared: `/tank/home`, the path that is mounted, is `tank/home`. Of two for one dataset one would be
/// forgotten, and who wrote it takes it for true.
fn export_rules<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ExportRule>, D::Error> {
    let mut rules = Vec::<ExportRule>::deserialize(deserializer)?;
    for at in 0..rules.len() {
        let name = rules[at].dataset.split('/').filter(|component| !component.is_empty()).collect::<Vec<_>>().join("/");
        if name.is_empty() {
            return Err(D::Error::custom("an [[export]] names no dataset; write dataset = \"tank/home\""));
        }
        if rules[..at].iter().any(|other| other.dataset == name) {
            return Err(D::Error::custom(format!("two [[export]] tables are for dataset '{name}'; keep one of them")));
        }
        rules[at].dataset = name;
    }
    Ok(rules)
}

/// An amount of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// That many bytes.
    Bytes(u64),
    /// A part of the machine's memory, 1..=90.
    Percent(u8),
}

impl Memory {
    /// Bytes of it on a machine with `total` bytes.
    #[must_use]
    pub const fn of(self, total: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => total / 100 * percent as u64,
        }
    }
}

impl FromStr for Memory {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(percent) = text.strip_suffix('%') {
            let percent = percent.trim().parse().ok().filter(|percent| (1..=90).contains(percent));
            return percent.map(Self::Percent).ok_or_else(|| format!("'{text}' is not a percentage from 1% to 90%"));
        }
        text.parse().map(|Size(bytes)| Self::Bytes(bytes)).map_err(|error: tally_base::SizeError| error.to_string())
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => Size(*bytes).fmt(f),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl Serialize for Memory {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Memory {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl Config {
    /// Reads the file that the flags name, if any, and lets the flags override it.
    pub fn load(args: &ServeArgs) -> Result<Self, ConfigError> {
        let mut config = match &args.config {
            None => Self::default(),
            Some(path) => {
                let read = |source| ConfigError::Read { path: path.clone(), source };
                Self::parse(&fs::read_to_string(path).map_err(read)?, path)?
            }
        };
        if let Some(data_dir) = &args.data_dir {
            config.data_dir.clone_from(data_dir);
        }
        config.socket = args.socket.clone().or(config.socket);
        if !args.listen.is_empty() {
            config.listen.clone_from(&args.listen);
        }
        config.port = args.port.or(config.port);
        config.rpcbind = args.rpcbind.unwrap_or(config.rpcbind);
        config.nfs4 = (config.nfs4 || args.nfs4) && !args.no_nfs4;
        config.lease_time = args.lease_time.unwrap_or(config.lease_time);
        config.nfs4_domain = args.nfs4_domain.clone().or(config.nfs4_domain);
        config.host_id = args.host_id.clone().or(config.host_id);
        config.http.listen = args.http.or(config.http.listen);
        Ok(config)
    }

    /// Reads the text of the file at `path`.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let config: Self = toml::from_str(text).map_err(|error: toml::de::Error| {
            let start = error.span().map_or(0, |span| span.start);
            let line = 1 + text.bytes().take(start).filter(|&byte| byte == b'\n').count();
            ConfigError::Parse { path: path.into(), line, message: error.message().trim_end().into() }
        })?;
        // What is of the right type and nothing can be made of.
        let empty = [
            ("listen", "an address to listen on", config.listen.is_empty()),
            ("data_dir", "a path", config.data_dir.as_os_str().is_empty()),
            ("smb_conf", "a path", config.smb_conf.as_ref().is_some_and(|file| file.as_os_str().is_empty())),
            ("socket", "a path", config.socket.as_ref().is_some_and(|socket| socket.as_os_str().is_empty())),
        ];
        match empty.into_iter().find(|(_, _, is_empty)| *is_empty) {
            Some((key, wanted, _)) => {
                let is_it = |line: &str| {
                    line.trim_start().strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='))
                };
                let line = 1 + text.lines().position(is_it).unwrap_or(0);
                Err(ConfigError::Parse {
                    path: path.into(),
                    line,
                    message: format!("`{key}` is empty: write {wanted}, or leave it out"),
                })
            }
            None => Ok(config),
        }
    }

    /// Where the control socket is.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.socket.clone().unwrap_or_else(|| self.data_dir.join(SOCKET_NAME))
    }

    /// Where the file with the shares is to be that Samba includes.
    #[must_use]
    pub fn smb_conf(&self) -> PathBuf {
        self.smb_conf.clone().unwrap_or_else(|| self.socket().with_file_name(SMB_CONF_NAME))
    }
}

#[cfg(test)]
mod tests;
