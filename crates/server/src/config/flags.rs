//! The flags of `tally serve`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use tally_base::Size;

use super::{Domain, HttpListen, LeaseTime, Rpcbind};

/// Flags of `serve`. They override the configuration file.
#[derive(Clone, Debug, Default, Args)]
pub struct ServeArgs {
    /// Configuration file; `tally config` prints one
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,

    /// Directory of the control socket, the list of pools, and the first pool [default: ./tally-data]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub data_dir: Option<PathBuf>,

    /// The control socket: what is said before or behind `serve` by the flag that all commands have.
    #[arg(skip)]
    pub socket: Option<PathBuf>,

    /// Address to listen on; may be repeated [default: 127.0.0.1 and ::1]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Vec<IpAddr>,

    /// TCP port of NFS and MOUNT [default: 2049 if it is free, else 12049]
    #[arg(long)]
    pub port: Option<u16>,

    /// How clients find the port that ask for it, as `showmount` does: auto, register, serve or off, of which `tally config` says
    /// more [default: auto]
    #[arg(long, value_name = "HOW")]
    pub rpcbind: Option<Rpcbind>,

    /// Speak NFS version 4 although the configuration file has `nfs4 = false`
    #[arg(long, overrides_with = "no_nfs4")]
    pub nfs4: bool,

    /// Speak NFS version 3 alone: `tally config` says more of `nfs4`
    #[arg(long, overrides_with = "nfs4")]
    pub no_nfs4: bool,

    /// Seconds for which a client of NFSv4 keeps its locks without a word, and is waited for behind a restart, 5 to 3600 [default: 90]
    #[arg(long, value_name = "SECONDS")]
    pub lease_time: Option<LeaseTime>,

    /// Domain in which NFSv4 calls owners by names of this machine's users and groups, as alice@example.org [default: owners are numbers]
    #[arg(long, value_name = "DOMAIN")]
    pub nfs4_domain: Option<Domain>,

    /// Address and port of the dashboard and of Prometheus' metrics, or 'off' [default: 127.0.0.1:12050 if it is free]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub http: Option<HttpListen>,

    /// Name by which pools know this machine, which no other may have [default: made of /etc/machine-id]
    #[arg(long, value_name = "NAME")]
    pub host_id: Option<String>,

    /// Size of the first pool [default: 10G or half of the free space, whichever is smaller]
    #[arg(long)]
    pub size: Option<Size>,

    /// Import what is found on this disk, in this file or directory, instead of the pools of the last run; may be
    /// repeated
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub pool: Vec<PathBuf>,
}
