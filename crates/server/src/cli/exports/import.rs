//! `tally exports import`: datasets and rules of what a file like /etc/exports says.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use tally_nfs::exports::{ExportsTable, Remark, read_exports};

use super::plan::{Step, There, in_order, twice};
use crate::cli::console::{Console, Failure, Session, ask, print_json};
use crate::cli::words::harmless;
use crate::control::message::{Reply, Request};
use crate::control::report::PropertyLine;

/// Longest file that is read: none that a person wrote is longer.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Words of `exports import`.
#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// Only print the commands, for a person or a shell
    #[arg(short = 'n', long)]
    plan: bool,
    /// Carry out what is understood, although something is not
    #[arg(short)]
    force: bool,
    /// Below which dataset paths come that are in no pool [default: the pool, if there is one alone]
    #[arg(long, value_name = "DATASET")]
    under: Option<String>,
    /// The file
    #[arg(default_value = "/etc/exports", value_hint = ValueHint::FilePath)]
    file: PathBuf,
}

/// `tally exports import`.
pub(super) fn run(
    session: Session<'_>,
    args: &ImportArgs,
    here: &Path,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let ExportsTable { exports, mut refused, notes } = read_exports(&read(&here.join(&args.file))?);
    let there =
        There { datasets: datasets(session, console)?, heirs: heirs(session, console)?, under: args.under.clone() };
    if let Some(under) = args.under.as_ref().filter(|under| !there.datasets.contains(*under)) {
        return Err(Failure::Usage(format!(
            "there is no dataset '{under}'; `tally dataset list` shows those that are"
        )));
    }
    let mut steps = Vec::new();
    for export in &exports {
        match there.step(export) {
            Ok(step) => steps.extend(step),
            Err(text) => refused.push(Remark { line: export.line, text }),
        }
    }
    let steps = in_order(steps);
    if let Some(text) = twice(&steps) {
        return Err(Failure::Usage(text));
    }
    // Before any is left out: each is asked about with all that the table says.
    let widened: Vec<_> = steps.iter().map(|step| there.widened(step, &steps)).collect();
    let mut kept = Vec::new();
    for (step, below) in steps.iter().zip(widened) {
        match below {
            None => kept.push(step),
            Some(below) => refused.push(Remark {
                line: step.line,
                text: format!(
                    "{}: '{below}' would be exported with it, as a dataset has the rules of the one above; say first who may mount that: \
                     `tally dataset set sharenfs=off {below}` for nobody",
                    step.path
                ),
            }),
        }
    }
    let file = harmless(&args.file.to_string_lossy());
    refused.sort_by_key(|remark| remark.line);
    for Remark { line, text } in &notes {
        writeln!(console.err, "{file}:{line}: note: {}", harmless(text))?;
    }
    for Remark { line, text } in &refused {
        writeln!(console.err, "{file}:{line}: {}", harmless(text))?;
    }
    if args.plan {
        print(session, &args.file, &kept, console)?;
    } else if refused.is_empty() || args.force {
        carry_out(session, &kept, console)?;
    }
    match refused.len() {
        0 => Ok(()),
        count => Err(Failure::NotTaken {
            count,
            and: match (args.plan, args.force) {
                (true, _) => "",
                (false, true) => "; the rest is done",
                (false, false) => "; nothing was done, and with -f the rest is",
            },
        }),
    }
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let unread = |error| Failure::Unread { file: file.to_owned(), error };
    let mut bytes = Vec::new();
    fs::File::open(file).map_err(unread)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unread)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(unread(std::io::Error::other("it is longer than 4 MiB, and no table of exports")));
    }
    Ok(bytes)
}

fn datasets(session: Session<'_>, console: &mut Console<'_>) -> Result<std::collections::BTreeSet<String>, Failure> {
    let all = Request::DatasetList { names: Vec::new(), recursive: false, users: Vec::new() };
    match ask(session, &all, console)? {
        Reply::Datasets(datasets) => Ok(datasets.into_iter().map(|dataset| dataset.name).collect()),
        _ => Err(Failure::Mismatch),
    }
}

/// From whom datasets have rules that are not their own.
fn heirs(session: Session<'_>, console: &mut Console<'_>) -> Result<BTreeMap<String, Option<String>>, Failure> {
    let rules = Request::DatasetGet { names: Vec::new(), recursive: true, properties: vec!["sharenfs".into()] };
    let Reply::Properties(lines) = ask(session, &rules, console)? else { return Err(Failure::Mismatch) };
    let is_heir = |line: &PropertyLine| line.source == "default" || line.inherited_from().is_some();
    let heirs = lines.into_iter().filter(is_heir);
    Ok(heirs.map(|line| (line.name.clone(), line.inherited_from().map(str::to_owned))).collect())
}

fn print(session: Session<'_>, file: &Path, steps: &[&Step], console: &mut Console<'_>) -> Result<(), Failure> {
    if session.json {
        return print_json(Reply::Done(steps.iter().map(|step| step.words()).collect()), console);
    }
    for step in steps {
        let moved = if step.path == format!("/{}", step.dataset) {
            String::new()
        } else {
            format!("; clients mount /{} from now on", step.dataset)
        };
        writeln!(
            console.out,
            "# {}:{}: {}{moved}",
            harmless(&file.to_string_lossy()),
            step.line,
            harmless(&step.path)
        )?;
        writeln!(console.out, "{}", step.words())?;
    }
    Ok(())
}

fn carry_out(session: Session<'_>, steps: &[&Step], console: &mut Console<'_>) -> Result<(), Failure> {
    let mut told = Vec::new();
    for step in steps {
        let Reply::Done(remarks) = ask(session, &step.request(), console)? else { return Err(Failure::Mismatch) };
        let done = format!("/{}: {}", step.dataset, step.sharenfs);
        if !session.json {
            writeln!(console.out, "{done}")?;
        }
        told.push(done);
        // The same one is told of each.
        remarks.into_iter().for_each(|remark| {
            if !told.contains(&remark) {
                told.push(remark)
            }
        });
    }
    if session.json {
        return print_json(Reply::Done(told), console);
    }
    told.iter().filter(|line| line.starts_with("note: ")).try_for_each(|line| writeln!(console.err, "{line}"))?;
    Ok(())
}
