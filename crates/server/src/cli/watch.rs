//! Commands that look again and again: each sample is the difference of two reports of counters that only rise, all
//! asked for on one connection. The first is about everything since the start.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tally_base::{Clock, SystemClock};

use super::arcstat::{ArcstatArgs, Counts};
use super::console::{Console, Failure, Session};
use super::iostat::{self, IostatArgs, Plan};
use super::stat::{self, AccountArgs, By};
use super::words;
use super::zilstat::{self, Sums, ZilstatArgs};
use crate::control::client::Client;
use crate::control::message::{Reply, Request};
use crate::control::observation::Observation;
use crate::control::report::PoolReport;
use crate::dates::utc_as_history;

/// `tally pool iostat`.
pub(super) fn iostat(
    session: Session<'_>,
    words: &[String],
    args: IostatArgs,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let plan = Plan::parse(words).map_err(Failure::Usage)?;
    let mut client = Client::connect(session.socket)?;
    let request = Request::PoolStatus { names: plan.names.clone() };
    let mut look = || {
        let Reply::Pools(mut now) = client.ask(&request, &mut |_| {})? else { return Err(Failure::Mismatch) };
        // Its disks are not even open.
        now.retain(PoolReport::is_imported);
        Ok(now)
    };
    let mut before: Option<Vec<PoolReport>> = None;
    let mut has_header = args.table.plain || args.has_histograms();
    if args.skip_first {
        let interval = plan.interval.ok_or_else(|| Failure::Usage(NO_INTERVAL.into()))?;
        before = Some(look()?);
        sleep(interval);
    }
    repeat(&plan, &mut || {
        let now = look()?;
        if session.json {
            writeln!(console.out, "{}", serde_json::to_string(&now)?)?;
        } else {
            let width = iostat::name_width(&now, args.verbose);
            if !std::mem::replace(&mut has_header, true) {
                console.out.write_all(iostat::header(width, args).as_bytes())?;
            }
            console.out.write_all(iostat::sample(&now, before.as_deref(), args, width).as_bytes())?;
        }
        before = Some(now);
        Ok(console.out.flush()?)
    })
}

/// What `iostat -y` is told that has nothing else to show.
const NO_INTERVAL: &str =
    "-y leaves out what is about all since the import: say an interval, as in `tally pool iostat -y 1`";

/// Shows something as often as was asked for. That a pool is not well ends nothing, and is what comes of it in the end.
pub(super) fn again(plan: &Plan, show: &mut dyn FnMut() -> Result<(), Failure>) -> Result<(), Failure> {
    let mut newest = Ok(());
    repeat(plan, &mut || {
        newest = match show() {
            Err(sick @ Failure::Sick { .. }) => Err(sick),
            shown => Ok(shown?),
        };
        Ok(())
    })?;
    newest
}

/// `tally events`: with `follow` until somebody ends it.
pub(super) fn events(session: Session<'_>, follow: bool, console: &mut Console<'_>) -> Result<(), Failure> {
    let mut client = Client::connect(session.socket)?;
    let mut since = 0;
    loop {
        let Reply::Events(events) = client.ask(&Request::Events { since }, &mut |_| {})? else {
            return Err(Failure::Mismatch);
        };
        for event in &events {
            if session.json {
                writeln!(console.out, "{}", serde_json::to_string(event)?)?;
            } else {
                let (moment, class) = (utc_as_history(event.time_ns), words::harmless(&event.class));
                writeln!(console.out, "{moment} {class:<16} {}: {}", event.pool, words::harmless(&event.text))?;
            }
        }
        console.out.flush()?;
        since = events.iter().map(|event| event.number).max().unwrap_or(since);
        if !follow {
            return Ok(());
        }
        sleep(EVENTS_INTERVAL);
    }
}

/// How often [`events`] asks.
const EVENTS_INTERVAL: Duration = Duration::from_millis(500);

/// `tally stat clients` and `tally stat exports`.
pub(super) fn accounts(
    session: Session<'_>,
    by: By,
    args: &AccountArgs,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let plan = only_numbers(Plan::parse(&args.words))?;
    let mut client = Client::connect(session.socket)?;
    let mut before: Option<Observation> = None;
    repeat(&plan, &mut || {
        let now = observe(&mut client)?;
        let grown = now.accounts_since(before.as_ref());
        if session.json {
            writeln!(console.out, "{}", serde_json::to_string(&grown)?)?;
        } else {
            let text = stat::accounts(&grown, by, args);
            console.out.write_all(text.as_bytes())?;
            if text.is_empty() {
                writeln!(console.err, "nobody has called")?;
            } else if plan.count != Some(1) && !args.table.plain {
                writeln!(console.out)?;
            }
        }
        before = Some(now);
        Ok(console.out.flush()?)
    })
}

/// `tally zilstat`. Within an interval it looks every second, for the highest rate.
pub(super) fn zilstat(session: Session<'_>, args: &ZilstatArgs, console: &mut Console<'_>) -> Result<(), Failure> {
    let plan = only_numbers(args.plan())?;
    let mut client = Client::connect(session.socket)?;
    let first = observe(&mut client)?;
    args.check(&first).map_err(Failure::Usage)?;
    if !session.json && !args.style().plain {
        console.out.write_all(zilstat::header().as_bytes())?;
    }
    let mut before = Sums::of(&first, args);
    let Some(interval) = plan.interval else { return print_sums(session, args, &before, false, console) };
    let mut left = plan.count;
    while left != Some(0) {
        let mut rates = Sums::default();
        let mut piece_before = before.clone();
        let end = Instant::now() + interval;
        loop {
            sleep(ZilstatArgs::piece(&plan).min(end.saturating_duration_since(Instant::now())));
            let now = Sums::of(&observe(&mut client)?, args);
            rates.raise(&now.since(&piece_before));
            piece_before = now;
            if Instant::now() >= end {
                break;
            }
        }
        print_sums(session, args, &piece_before.since(&before).with_rates_of(&rates), true, console)?;
        before = piece_before;
        left = left.map(|left| left - 1);
    }
    Ok(())
}

/// `tally arcstat`.
pub(super) fn arcstat(session: Session<'_>, args: &ArcstatArgs, console: &mut Console<'_>) -> Result<(), Failure> {
    let plan = only_numbers(args.plan())?;
    let mut client = Client::connect(session.socket)?;
    let mut look = || match client.ask(&Request::PoolStatus { names: Vec::new() }, &mut |_| {})? {
        Reply::Pools(pools) => Ok((pools, Instant::now())),
        _ => Err(Failure::Mismatch),
    };
    if !session.json {
        console.out.write_all(args.header().as_bytes())?;
    }
    let mut before: Option<(Counts, Instant)> = None;
    if let Some(interval) = plan.interval {
        let (pools, at) = look()?;
        before = Some((Counts::of(&pools), at));
        sleep(interval);
    }
    repeat(&plan, &mut || {
        let (pools, at) = look()?;
        if session.json {
            let caches = pools.iter().map(|pool| (&pool.name, &pool.cache)).collect::<BTreeMap<_, _>>();
            writeln!(console.out, "{}", serde_json::to_string(&caches)?)?;
        } else {
            let (counts, time) = (Counts::of(&pools), SystemClock::default().now().seconds());
            let seconds = before.map_or(1.0, |(_, then)| (at - then).as_secs_f64());
            let line = args.line(counts, before.map(|(counts, _)| counts), seconds, time);
            console.out.write_all(line.as_bytes())?;
            before = Some((counts, at));
        }
        Ok(console.out.flush()?)
    })
}

fn print_sums(
    session: Session<'_>,
    args: &ZilstatArgs,
    sums: &Sums,
    watched: bool,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let text =
        if session.json { serde_json::to_string(&sums.with_quantiles())? + "\n" } else { sums.print(args, watched) };
    console.out.write_all(text.as_bytes())?;
    Ok(console.out.flush()?)
}

/// Asks for everything.
pub(super) fn observe(client: &mut Client) -> Result<Observation, Failure> {
    match client.ask(&Request::Observe, &mut |_| {})? {
        Reply::Observation(seen) => Ok(*seen),
        _ => Err(Failure::Mismatch),
    }
}

fn only_numbers(plan: Result<Plan, String>) -> Result<Plan, Failure> {
    let plan = plan.map_err(Failure::Usage)?;
    match plan.names.first() {
        None => Ok(plan),
        Some(word) => Err(Failure::Usage(format!("'{word}' is no interval: write seconds, like 1 or 0.5"))),
    }
}

/// Takes as many samples as were asked for, with the interval between them.
fn repeat(plan: &Plan, sample: &mut dyn FnMut() -> Result<(), Failure>) -> Result<(), Failure> {
    let mut left = plan.count;
    loop {
        sample()?;
        left = left.map(|left| left - 1);
        if left == Some(0) {
            return Ok(());
        }
        sleep(plan.interval.unwrap_or(Duration::ZERO));
    }
}
