//! `tally nfsstat`: what clients call, in the form and with the options of `nfsstat -s`, which knows the kernel's server alone.

use clap::{Args, ValueEnum};
use tally_nfs::stats::{Kind, Operation};

use crate::control::report::{OpReport, OpsReport};

/// Words of `nfsstat`.
#[derive(Clone, Debug, Default, Args)]
#[allow(clippy::struct_excessive_bools)] // They are what its users know.
pub struct NfsstatArgs {
    /// The server's counts, which are all there are here
    #[arg(short = 's', long)]
    server: bool,
    /// A client's: its kernel has those
    #[arg(short = 'c', long, hide = true)]
    client: bool,
    /// Mounts of a client: its kernel has those
    #[arg(short = 'm', long, hide = true)]
    mounts: bool,
    /// Only what counts calls of RPC
    #[arg(short = 'r', long)]
    rpc: bool,
    /// Only procedures and operations
    #[arg(short = 'n', long)]
    nfs: bool,
    /// Version 2: there is none
    #[arg(short = '2', hide = true)]
    v2: bool,
    /// Only version 3
    #[arg(short = '3')]
    v3: bool,
    /// Only version 4
    #[arg(short = '4')]
    v4: bool,
    /// What is shown
    #[arg(short = 'o', value_name = "FACILITY")]
    facility: Option<Facility>,
    /// All that there is, as without it
    #[arg(short = 'v', long = "verbose", visible_alias = "all")]
    verbose: bool,
    /// A line for each that was called
    #[arg(short = 'l', long)]
    list: bool,
}

/// What `nfsstat -o` has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Facility {
    /// Procedures and operations
    Nfs,
    /// Calls, and those that were refused
    Rpc,
    /// Replies that were given again
    Rc,
    /// All of it
    All,
}

/// Counts by name, of a version.
struct Counted {
    /// As the table and the list call it.
    label: &'static str,
    tag: &'static str,
    counts: Vec<(&'static str, u64)>,
}

impl NfsstatArgs {
    /// What is asked for and is not here.
    pub(super) fn check(&self) -> Result<(), String> {
        match () {
            () if self.client || self.mounts => {
                Err("what a client calls is counted by its kernel: run `nfsstat -c` there; here is what the server was asked".into())
            }
            () if self.v2 => Err("version 2 of NFS is not served; leave out -2".into()),
            () => Ok(()),
        }
    }

    /// The text.
    pub(super) fn print(&self, report: &OpsReport) -> String {
        let is_wanted = |facility| match self.facility {
            None => {
                (!self.rpc && !self.nfs)
                    || (self.rpc && facility == Facility::Rpc)
                    || (self.nfs && facility == Facility::Nfs)
            }
            Some(wanted) => wanted == Facility::All || wanted == facility,
        };
        let mut text = String::new();
        if is_wanted(Facility::Rpc) {
            let calls = report.procedures.iter().map(|one| one.calls).sum::<u64>() + report.refused;
            text += &self.numbers("Server rpc stats:", "rpc", &[("calls", calls), ("badcalls", report.refused)]);
        }
        if is_wanted(Facility::Rc) {
            text += &self.numbers("Server reply cache:", "rc", &[("hits", report.retransmissions)]);
        }
        if is_wanted(Facility::Nfs) {
            text += &self.versions(report).iter().map(|version| self.calls(version)).collect::<String>();
        }
        text
    }

    fn versions(&self, report: &OpsReport) -> Vec<Counted> {
        let calls_of = |all: &[OpReport], name: &str| {
            all.iter().filter(|one| one.procedure == name).map(|one| one.calls).sum::<u64>()
        };
        let mut versions = Vec::new();
        if self.v3 || !self.v4 {
            let mut names: Vec<&'static str> = Kind::all().map(Kind::name).filter(|name| !is_compound(name)).collect();
            names.dedup();
            let counts = names.into_iter().map(|name| (name, calls_of(&report.procedures, name))).collect();
            versions.push(Counted { label: "Server nfs v3:", tag: "nfs v3 server", counts });
        }
        if self.v4 || !self.v3 {
            let compounds = Kind::all().map(Kind::name).filter(|name| is_compound(name));
            let compounds = compounds.map(|name| calls_of(&report.procedures, name)).sum();
            versions.push(Counted {
                label: "Server nfs v4:",
                tag: "nfs v4 server",
                counts: vec![("compound", compounds)],
            });
            let counts = Operation::all()
                .map(|one| (of_operation(one.name()), calls_of(&report.operations, one.name())))
                .collect();
            versions.push(Counted { label: "Server nfs v4 operations:", tag: "nfs v4 servop", counts });
        }
        versions
    }

    fn numbers(&self, label: &str, tag: &str, counts: &[(&str, u64)]) -> String {
        if self.list {
            return counts.iter().map(|(name, count)| line(tag, name, *count)).collect::<String>() + "\n";
        }
        let names: String = counts.iter().map(|(name, _)| format!("{name:<11}")).collect();
        let values: String = counts.iter().map(|(_, count)| format!("{count:<11}")).collect();
        format!("{label}\n{}\n{}\n\n", names.trim_end(), values.trim_end())
    }

    /// Five of them in a row, each with its part of all.
    fn calls(&self, Counted { label, tag, counts }: &Counted) -> String {
        let total: u64 = counts.iter().map(|(_, count)| count).sum();
        if self.list {
            let called = counts.iter().filter(|(_, count)| *count > 0).map(|(name, count)| line(tag, name, *count));
            let rule = "------------- ------------- --------\n";
            return if total == 0 {
                String::new()
            } else {
                line(tag, "total", total) + rule + &called.collect::<String>() + "\n"
            };
        }
        let percent = |count: u64| u128::from(count) * 100 / u128::from(total.max(1));
        let row = |row: &[(&str, u64)]| {
            let names: String = row.iter().map(|(name, _)| format!("{name:<17}")).collect();
            let values: String =
                row.iter().map(|(_, count)| format!("{count:<8}{:>3}%     ", percent(*count))).collect();
            format!("{}\n{}\n", names.trim_end(), values.trim_end())
        };
        format!("{label}\n{}\n", counts.chunks(5).map(row).collect::<String>())
    }
}

fn line(tag: &str, name: &str, count: u64) -> String {
    format!("{tag:>13} {:>13} {count:>8}\n", format!("{name}:"))
}

fn is_compound(name: &str) -> bool {
    name.starts_with("compound")
}

/// What `nfsstat` calls an operation of version 4; procedures of version 3 have one name.
fn of_operation(name: &'static str) -> &'static str {
    match name {
        "open_confirm" => "open_conf",
        "open_downgrade" => "open_dgrd",
        "lookupp" => "lookup_root",
        "setclientid" => "setcltid",
        "setclientid_confirm" => "setcltidconf",
        "release_lockowner" => "rellockowner",
        "backchannel_ctl" => "bc_ctl",
        "bind_conn_to_session" => "bind_conn",
        "create_session" => "create_ses",
        "destroy_session" => "destroy_ses",
        "get_dir_delegation" => "getdirdeleg",
        "getdeviceinfo" => "getdevinfo",
        "getdevicelist" => "getdevlist",
        "secinfo_no_name" => "secinfononam",
        "want_delegation" => "want_deleg",
        "destroy_clientid" => "destroy_clid",
        "reclaim_complete" => "reclaim_comp",
        name => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> OpsReport {
        let op = |procedure: &str, calls| OpReport { procedure: procedure.into(), calls, ..OpReport::default() };
        let write = |how: &str, calls| OpReport { stable_how: Some(how.into()), ..op("write", calls) };
        OpsReport {
            procedures: vec![
                op("getattr", 30),
                write("UNSTABLE", 9),
                write("FILE_SYNC", 1),
                op("compound", 2),
                op("compound_modify", 3),
            ],
            operations: vec![op("putfh", 4), op("setclientid", 1)],
            refused: 2,
            retransmissions: 7,
            ..OpsReport::default()
        }
    }

    #[test]
    fn it_looks_as_its_users_know_it() {
        let text = NfsstatArgs { server: true, ..NfsstatArgs::default() }.print(&report());
        assert!(text.starts_with("Server rpc stats:\ncalls      badcalls\n47         2\n\n"), "{text}");
        let v3 = "Server nfs v3:\nnull             getattr          setattr          lookup           access\n\
                  0         0%     30       75%     0         0%     0         0%     0         0%\n";
        assert!(text.contains(v3), "{text}");
        assert!(text.contains("Server nfs v4:\ncompound\n5       100%\n"), "{text}");
        assert!(text.contains("setcltid "), "{text}");
    }

    #[test]
    fn a_list_has_what_was_called() {
        let text = NfsstatArgs { list: true, v3: true, nfs: true, ..NfsstatArgs::default() }.print(&report());
        let expected = "\
nfs v3 server        total:       40
------------- ------------- --------
nfs v3 server      getattr:       30
nfs v3 server        write:       10

";
        assert_eq!(text, expected);
    }
}
