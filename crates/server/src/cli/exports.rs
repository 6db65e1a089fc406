//! `tally exports`: what is exported, to whom and why; and the way from a table of exports to datasets.

mod import;
mod plan;

use std::path::Path;

use clap::{Args, Subcommand};

use self::import::ImportArgs;
use super::console::{Console, Failure, Session, ask, print_reply};
use super::table::{Align, Table, TableArgs};
use crate::control::exports::{ExportReport, MountedBy};
use crate::control::message::{Reply, Request};

/// Words of `exports`.
#[derive(Debug, Args)]
pub struct ExportsArgs {
    /// Or from a table.
    #[command(subcommand)]
    what: Option<ExportsCommand>,
    /// A line for each rule, with all its options, and the addresses of those who have it mounted
    #[arg(short)]
    verbose: bool,
    /// No header, and a single tab between fields
    #[arg(short = 'H')]
    plain: bool,
}

/// What can be done with a table of exports.
#[derive(Debug, Subcommand)]
enum ExportsCommand {
    /// Make datasets and rules of what a file like /etc/exports says; files are not copied
    Import(ImportArgs),
}

/// `tally exports`.
pub(super) fn run(
    session: Session<'_>,
    args: &ExportsArgs,
    here: &Path,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    match &args.what {
        Some(ExportsCommand::Import(words)) => import::run(session, words, here, console),
        None => {
            let reply = ask(session, &Request::Exports, console)?;
            print_reply(session.json, reply, console, &|reply| match reply {
                Reply::Exports(exports) if args.verbose => Some(rules(exports, args.style())),
                Reply::Exports(exports) => Some(lines(exports, args.style())),
                _ => None,
            })
        }
    }
}

/// `tally dataset share`, of one dataset or of all: what is exported is so already.
pub(super) fn share(session: Session<'_>, dataset: Option<&str>, console: &mut Console<'_>) -> Result<(), Failure> {
    let Reply::Exports(mut exports) = ask(session, &Request::Exports, console)? else { return Err(Failure::Mismatch) };
    exports.retain(|export| dataset.is_none_or(|dataset| export.dataset == dataset));
    if let Some(dataset) = dataset.filter(|_| exports.is_empty()) {
        return Err(Failure::NotShared { dataset: dataset.to_owned() });
    }
    if !session.json {
        writeln!(console.err, "nothing is to be done: sharenfs counts from the next request on")?;
    }
    print_reply(session.json, Reply::Exports(exports), console, &|reply| match reply {
        Reply::Exports(exports) => Some(lines(exports, TableArgs::default())),
        _ => None,
    })
}

impl ExportsArgs {
    const fn style(&self) -> TableArgs {
        TableArgs { plain: self.plain, exact: false }
    }
}

fn lines(exports: &[ExportReport], style: TableArgs) -> String {
    let mut table = Table::new(&[
        ("PATH", Align::Left),
        ("SOURCE", Align::Left),
        ("MOUNTED", Align::Right),
        ("RULES", Align::Left),
    ]);
    for export in exports {
        let rules = match &export.problem {
            None => export.rules.clone(),
            Some(problem) => format!("nobody: {problem}"),
        };
        table.row(vec![export.path.clone(), export.source.clone(), export.mounted.len().to_string(), rules]);
    }
    table.print(style)
}

fn rules(exports: &[ExportReport], style: TableArgs) -> String {
    let mut table = Table::new(&[
        ("PATH", Align::Left),
        ("HOSTS", Align::Left),
        ("OPTIONS", Align::Left),
        ("SOURCE", Align::Left),
        ("MOUNTED BY", Align::Left),
    ]);
    for export in exports {
        let told = |MountedBy { client, version }: &MountedBy| format!("{client} (v{version})");
        let mounted: Vec<_> = export.mounted.iter().map(told).collect();
        let mounted = if mounted.is_empty() { "-".to_owned() } else { mounted.join(", ") };
        let mut row = |hosts: &str, options: &str| {
            table.row(vec![export.path.clone(), hosts.into(), options.into(), export.source.clone(), mounted.clone()]);
        };
        match &export.problem {
            None => export.clients.iter().for_each(|client| row(&client.hosts, &client.options)),
            Some(problem) => row("nobody", problem),
        }
    }
    table.print(style)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::exports::ExportedTo;

    #[test]
    fn an_export_is_told_with_its_rule_and_where_that_is_from() {
        let client = |hosts: &str, options: &str| ExportedTo { hosts: hosts.into(), options: options.into() };
        let mounted = |client: &str, version: &str| MountedBy { client: client.into(), version: version.into() };
        let home = ExportReport {
            path: "/tank/home".into(),
            dataset: "tank/home".into(),
            rules: "10.0.0.1(ro) *(rw)".into(),
            source: "inherited from tank".into(),
            clients: vec![client("10.0.0.1", "ro,sync"), client("*", "rw,sync")],
            problem: None,
            mounted: vec![mounted("10.0.0.1", "3"), mounted("10.0.0.2", "4")],
        };
        let wrong = ExportReport {
            path: "/tank/x".into(),
            rules: "(".into(),
            source: "[[export]] of tank/x".into(),
            problem: Some("no".into()),
            ..ExportReport::default()
        };
        let expected = "\
PATH        SOURCE                MOUNTED  RULES
/tank/home  inherited from tank         2  10.0.0.1(ro) *(rw)
/tank/x     [[export]] of tank/x        0  nobody: no
";
        assert_eq!(lines(&[home.clone(), wrong.clone()], TableArgs::default()), expected);
        let plain = rules(&[home, wrong], TableArgs { plain: true, exact: false });
        let first = "/tank/home\t10.0.0.1\tro,sync\tinherited from tank\t10.0.0.1 (v3), 10.0.0.2 (v4)\n";
        assert!(
            plain.starts_with(first) && plain.ends_with("/tank/x\tnobody\tno\t[[export]] of tank/x\t-\n"),
            "{plain}"
        );
    }
}
