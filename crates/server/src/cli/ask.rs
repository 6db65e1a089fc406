//! Carries a command out: asks the daemon and prints what it says.

use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;

use super::advise::{self, AdviseCommand};
use super::arcstat::ArcstatArgs;
use super::args::{Cli, Command, ConfigCommand, EventsCommand};
use super::columns::Sorting;
use super::console::{Console, Failure, Session, ask, nothing, print_json, print_reply};
use super::dataset::{DatasetCommand, DatasetRow};
use super::mount::Standing;
use super::pool::{Activity, ImportArgs, PoolCommand};
use super::stat::{self, By, StatCommand};
use super::status::Detail;
use super::{
    bench, completion, doctor, exports, found, holdings, hooks, init, inspect, mount, rewind, smb, status, top,
    upgrade, watch,
};
use crate::config::{self, Config, ServeArgs};
use crate::control::holdings::Held;
use crate::control::message::{Reply, Request};
use crate::control::mounts::WOULD_UNMOUNT;
use crate::control::report::{PoolReport, PropertyLine};
use crate::control::server::{PortmapperReport, ServerReport};

/// Carries out any command but `serve`.
pub fn run(cli: &Cli, here: &Path, console: &mut Console<'_>) -> Result<(), Failure> {
    let session = Session { socket: cli.socket.as_deref(), json: cli.json };
    match &cli.command {
        Command::Serve(_) => unreachable!("the binary serves by itself"),
        Command::Config { what: None } => Ok(console.out.write_all(config::DOCUMENTED.as_bytes())?),
        Command::Config { what: Some(ConfigCommand::Check { file }) } => {
            Config::load(&ServeArgs { config: Some(file.clone()), ..ServeArgs::default() })?;
            Ok(writeln!(console.out, "{}: nothing is wrong with it", file.display())?)
        }
        Command::OfOthers(words) => Err(Failure::Usage(words.instead().into())),
        Command::OfZfs(words) => Err(Failure::Usage(words.instead().into())),
        Command::OfZpool(words) => Err(Failure::Usage(words.instead().into())),
        Command::OfBoth(words) => Err(Failure::Usage(format!("say of what: {}", words.instead()))),
        Command::Version => Ok(writeln!(console.out, "tally {}", env!("CARGO_PKG_VERSION"))?),
        Command::Inspect(args) => inspect::run(args, &tally_disk::SystemOpener, here, session.json, console),
        Command::Bench(command) => bench::run(command, session.socket, session.json, console),
        Command::Man(args) => Ok(args.write()?),
        Command::Completions { shell } => Ok(console.out.write_all(shell.script().as_bytes())?),
        Command::Complete(args) => completion::run(session, args, here, console),
        Command::Pool(command) | Command::Zpool(command) => of_pools(session, command, here, console),
        Command::Events { what: Some(EventsCommand::Run(args)), .. } => hooks::run(session, args, console),
        Command::Events { what: None, args } => watch::events(session, args.follow, console),
        Command::Advise(AdviseCommand::Log(args)) => advise::log(session, args, console),
        Command::Init(args) => init::run(session, args, here, console),
        Command::Doctor => doctor::run(session, console),
        Command::Top(args) => top::run(session, args),
        Command::Zilstat(args) => watch::zilstat(session, args, console),
        Command::Stat(StatCommand::Clients(args)) => watch::accounts(session, By::Client, args, console),
        Command::Stat(StatCommand::Sessions(args)) => holdings::list(session, Held::Sessions, args, console),
        Command::Stat(StatCommand::Opens(args)) => holdings::list(session, Held::Opens, args, console),
        Command::Locks(args) | Command::Stat(StatCommand::Locks(args)) => {
            holdings::list(session, Held::Locks, args, console)
        }
        Command::Client(command) => holdings::client(session, command, console),
        Command::Stat(StatCommand::Exports(args)) => watch::accounts(session, By::Export, args, console),
        Command::Dataset(DatasetCommand::Destroy { recursive, dry_run, verbose, name, .. }) if *dry_run || *verbose => {
            destroy(session, (name, *recursive), *dry_run, console)
        }
        Command::Dataset(DatasetCommand::Share { all, name }) => {
            exports::share(session, name.as_deref().filter(|_| !all), console)
        }
        Command::Mount(args) | Command::Dataset(DatasetCommand::Mount(args)) => {
            mount::mount(session, args, here, console)
        }
        Command::Unmount(args) | Command::Dataset(DatasetCommand::Unmount(args)) => {
            mount::unmount(session, args, here, console)
        }
        Command::Dataset(command) => datasets(session, command, console),
        Command::ArcSummary { table } | Command::Stat(StatCommand::Cache { table }) => {
            let reply = ask(session, &Request::PoolStatus { names: Vec::new() }, console)?;
            print_reply(session.json, reply, console, &|reply| match reply {
                Reply::Pools(pools) => Some(stat::caches(pools, *table)),
                _ => None,
            })
        }
        Command::Stat(StatCommand::Prefetch { table }) => {
            let reply = ask(session, &Request::PoolStatus { names: Vec::new() }, console)?;
            print_reply(session.json, reply, console, &|reply| match reply {
                Reply::Pools(pools) => Some(stat::prefetch(pools, *table)),
                _ => None,
            })
        }
        Command::Arcstat(args) if args.verbose => Ok(console.out.write_all(ArcstatArgs::told().as_bytes())?),
        Command::Arcstat(args) => watch::arcstat(session, args, console),
        Command::MountProgram(args) => mount::mount_program(session, args, here, console),
        Command::UnmountProgram(args) => mount::unmount_program(session, args, here, console),
        Command::Exports(args) => exports::run(session, args, here, console),
        Command::Smb(args) => smb::run(session, args, here, console),
        Command::Nfsstat(args) => {
            args.check().map_err(Failure::Usage)?;
            let reply = ask(session, &Request::StatOps, console)?;
            print_reply(session.json, reply, console, &|reply| match reply {
                Reply::Ops(report) => Some(args.print(report)),
                _ => None,
            })
        }
        Command::Stat(StatCommand::Ops { table }) => {
            let reply = ask(session, &Request::StatOps, console)?;
            print_reply(session.json, reply, console, &|reply| match reply {
                Reply::Ops(report) => Some(stat::ops(report, *table)),
                _ => None,
            })
        }
    }
}

/// `tally pool`.
fn of_pools(
    session: Session<'_>,
    command: &PoolCommand,
    here: &Path,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    match command {
        PoolCommand::Events(args) => watch::events(session, args.follow, console),
        PoolCommand::Iostat { words, args } => watch::iostat(session, words, *args, console),
        command @ (PoolCommand::Status { .. } | PoolCommand::List(_)) => {
            let plan = command.plan().map_err(Failure::Usage)?;
            let mut is_first = true;
            watch::again(&plan, &mut || {
                if !std::mem::take(&mut is_first) && !session.json && !command.is_for_scripts() {
                    writeln!(console.out)?;
                }
                if let PoolCommand::Status { detail, only_sick: true, .. } = command {
                    return sick(session, &plan.names, *detail, console);
                }
                pools(session, command, here, console)
            })
        }
        PoolCommand::Upgrade(args) if args.verbose => Ok(console.out.write_all(upgrade::known().as_bytes())?),
        PoolCommand::History(args) if args.internal && !session.json => {
            let Reply::History(pools) = ask(session, &args.request(), console)? else { return Err(Failure::Mismatch) };
            let Reply::Events(events) = ask(session, &Request::Events { since: 0 }, console)? else {
                return Err(Failure::Mismatch);
            };
            Ok(console.out.write_all(args.print(&pools, &events).as_bytes())?)
        }
        PoolCommand::Wait { activities, name } => wait(session, activities, name, console),
        PoolCommand::Import(args) if args.check().is_err() => args.check().map_err(Failure::Usage),
        PoolCommand::Import(args) if args.goes_back() => rewind::run(session, args, here, console),
        PoolCommand::Export { all, names } => {
            let names = if *all { imported(session, console)? } else { names.clone() };
            each(session, names.into_iter().map(|name| Request::PoolExport { name }), console)
        }
        PoolCommand::Sync { names } => {
            let names = if names.is_empty() { imported(session, console)? } else { names.clone() };
            each(session, names.into_iter().map(|name| Request::PoolSync { name }), console)
        }
        PoolCommand::Import(args) if args.all => import_all(session, args, here, console),
        command => pools(session, command, here, console),
    }
}

/// Asks for something. What this machine has mounted of a pool or dataset that is to go is unmounted before, unless that is in use or would be in vain.
fn released(session: Session<'_>, request: &Request, console: &mut Console<'_>) -> Result<Reply, Failure> {
    let unmounted = match request {
        Request::PoolExport { name } => mount::release(session, name, None, console)?,
        Request::PoolDestroy { name } | Request::DatasetDestroy { name, .. } => {
            mount::release(session, name, Some(request), console)?
        }
        _ => Vec::new(),
    };
    let mut reply = ask(session, request, console)?;
    if let Reply::Done(told) = &mut reply {
        told.splice(..0, unmounted);
    }
    Ok(reply)
}

/// A command on pools that is one request.
fn pools(session: Session<'_>, command: &PoolCommand, here: &Path, console: &mut Console<'_>) -> Result<(), Failure> {
    let request = command.request(here).map_err(Failure::Usage)?;
    let reply = released(session, &request, console)?;
    print_reply(session.json, reply, console, &|reply| pool_text(command, reply))?;
    if matches!(command, PoolCommand::Status { .. }) && !session.json {
        how_found(session, console)?;
        how_mounted(session, console)?;
    }
    Ok(())
}

/// A command on datasets that is one request, or a list of more than a list has.
fn datasets(session: Session<'_>, command: &DatasetCommand, console: &mut Console<'_>) -> Result<(), Failure> {
    let request = command.request().map_err(Failure::Usage)?;
    let reply = command.only_meant(released(session, &request, console)?);
    let lines = match command.properties_request().filter(|_| !session.json) {
        None => Vec::new(),
        Some(request) => match ask(session, &request, console)? {
            Reply::Properties(lines) => lines,
            _ => return Err(Failure::Mismatch),
        },
    };
    print_reply(session.json, reply, console, &|reply| dataset_text(command, reply, &lines))
}

/// Whether something keeps clients from finding the server, behind the pools that are well otherwise. It is no pool's, and no field of
/// theirs in JSON.
fn how_found(session: Session<'_>, console: &mut Console<'_>) -> Result<(), Failure> {
    // A daemon of before does not know the question.
    match ask(session, &Request::Server, console) {
        Ok(Reply::Server(ServerReport { portmapper: PortmapperReport { trouble: Some(trouble), .. }, .. })) => {
            Ok(writeln!(console.err, "note: {trouble}")?)
        }
        _ => Ok(()),
    }
}

/// What of this machine's mounts nobody serves any more: it is no pool's, either.
fn how_mounted(session: Session<'_>, console: &mut Console<'_>) -> Result<(), Failure> {
    let Ok(Reply::Mounts(mounts)) = ask(session, &Request::Mounts, console) else { return Ok(()) };
    let standing = Standing::of(&mounts, Vec::new(), &[]);
    Ok(standing.dead_lines().try_for_each(|line| writeln!(console.err, "note: {line}"))?)
}

/// `tally pool status -x`.
fn sick(session: Session<'_>, names: &[String], detail: Detail, console: &mut Console<'_>) -> Result<(), Failure> {
    let request = Request::PoolStatus { names: names.to_vec() };
    let Reply::Pools(mut pools) = ask(session, &request, console)? else { return Err(Failure::Mismatch) };
    let is_empty = pools.is_empty();
    pools.retain(|pool| !pool.is_well());
    let count = pools.len();
    if session.json {
        print_json(Reply::Pools(pools), console)?;
    } else if is_empty {
        writeln!(console.err, "{}", nothing(&Reply::Pools(pools)))?;
    } else if count > 0 {
        console.out.write_all(status::print(&pools, detail).as_bytes())?;
    } else if names.is_empty() {
        writeln!(console.out, "all pools are healthy")?;
    } else {
        names.iter().try_for_each(|name| writeln!(console.out, "pool '{name}' is healthy"))?;
    }
    if count == 0 { Ok(()) } else { Err(Failure::Sick { count }) }
}

/// `tally dataset destroy`, with what goes: told before it would, or behind it.
fn destroy(
    session: Session<'_>,
    (name, recursive): (&str, bool),
    dry_run: bool,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let destroy = Request::DatasetDestroy { name: name.into(), recursive };
    let told = Request::PoolTry { what: Box::new(destroy.clone()) };
    let Reply::Done(mut told) = ask(session, &told, console)? else { return Err(Failure::Mismatch) };
    if !dry_run {
        let Reply::Done(unmounted) = released(session, &destroy, console)? else { return Err(Failure::Mismatch) };
        let gone = told.iter().filter(|line| !line.starts_with(WOULD_UNMOUNT));
        let gone = gone.map(|line| line.replacen("would destroy", "destroyed", 1));
        told = unmounted.into_iter().chain(gone).collect();
    }
    if session.json {
        return print_json(Reply::Done(told), console);
    }
    Ok(told.iter().try_for_each(|line| writeln!(console.out, "{line}"))?)
}

/// The names of all pools that are imported.
fn imported(session: Session<'_>, console: &mut Console<'_>) -> Result<Vec<String>, Failure> {
    match ask(session, &Request::PoolStatus { names: Vec::new() }, console)? {
        Reply::Pools(pools) => Ok(pools.into_iter().filter(PoolReport::is_imported).map(|pool| pool.name).collect()),
        _ => Err(Failure::Mismatch),
    }
}

/// `tally pool import -a`.
fn import_all(session: Session<'_>, args: &ImportArgs, here: &Path, console: &mut Console<'_>) -> Result<(), Failure> {
    let look = PoolCommand::find(args, here);
    let Reply::Found(found) = ask(session, &look, console)? else { return Err(Failure::Mismatch) };
    each(session, found.pools.iter().map(|pool| args.one(&pool.guid, here)), console)
}

/// Asks for one after the other. One that fails keeps none of the others; what the last of these was told is the failure of all.
fn each(
    session: Session<'_>,
    requests: impl Iterator<Item = Request>,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let (mut remarks, mut failed) = (Vec::new(), None);
    for request in requests {
        match released(session, &request, console) {
            Ok(Reply::Done(told)) if session.json => remarks.extend(told),
            Ok(told @ Reply::Done(_)) => print_reply(false, told, console, &|_| None)?,
            Ok(_) => return Err(Failure::Mismatch),
            Err(stop @ Failure::Interrupted { .. }) => return Err(stop),
            Err(failure) => {
                if let Some(before) = failed.replace(failure) {
                    writeln!(console.err, "tally: {before}")?;
                }
            }
        }
    }
    if session.json {
        print_json(Reply::Done(remarks), console)?;
    }
    failed.map_or(Ok(()), Err)
}

/// `tally pool wait`.
fn wait(session: Session<'_>, activities: &[Activity], name: &str, console: &mut Console<'_>) -> Result<(), Failure> {
    let activities = if activities.is_empty() { Activity::value_variants() } else { activities };
    let request = Request::PoolStatus { names: vec![name.into()] };
    loop {
        let Reply::Pools(pools) = ask(session, &request, console)? else { return Err(Failure::Mismatch) };
        let goes_on = |pool: &PoolReport| activities.iter().any(|activity| activity.is_under_way(pool));
        if !pools.iter().any(goes_on) {
            return if session.json { print_json(Reply::Done(Vec::new()), console) } else { Ok(()) };
        }
        std::thread::sleep(WAIT_INTERVAL);
    }
}

/// How often [`wait`] asks.
const WAIT_INTERVAL: Duration = Duration::from_millis(200);

fn pool_text(command: &PoolCommand, reply: &Reply) -> Option<String> {
    match (command, reply) {
        (PoolCommand::List(args), Reply::Pools(pools)) => Some(args.print(pools)),
        (PoolCommand::Status { detail, .. }, Reply::Pools(pools)) => Some(status::print(pools, *detail)),
        (PoolCommand::History(args), Reply::History(pools)) => Some(args.print(pools, &[])),
        (PoolCommand::Import(_), Reply::Found(found)) => Some(found::print(found)),
        (PoolCommand::Upgrade(_), Reply::Pools(pools)) => Some(upgrade::lacking(pools)),
        (PoolCommand::Get { fields, table, .. }, Reply::Properties(lines)) => Some(fields.print(lines, *table)),
        _ => None,
    }
}

fn dataset_text(command: &DatasetCommand, reply: &Reply, lines: &[PropertyLine]) -> Option<String> {
    match (command, reply) {
        (DatasetCommand::List { columns, up, down, table, .. }, Reply::Datasets(datasets)) => {
            Some(columns.print(&DatasetRow::of(datasets, lines), &Sorting { up, down }, *table))
        }
        (DatasetCommand::Get { fields, table, .. }, Reply::Properties(lines)) => Some(fields.print(lines, *table)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
