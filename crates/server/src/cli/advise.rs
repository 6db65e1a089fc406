//! `tally advise`: what another device would bring, before it is bought or moved.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueHint};
use serde::Serialize;

use super::console::{Console, Failure, Session};
use super::progress::Bar;
use super::words::duration;
use crate::advise::candidate::{self, Measured};
use crate::advise::latency::{Device, Samples};
use crate::advise::replay::{Loop, Run, recorded_device, recorded_rate};
use crate::advise::warmth::{self, SLEEP_MIN};
use crate::control::client::Client;
use crate::control::load::{KeptBy, RecordedLoad};
use crate::control::message::{Reply, Request};
use crate::control::spread::Quantiles;

/// About what.
#[derive(Debug, Subcommand)]
pub enum AdviseCommand {
    /// Measure a device and say what clients would gain if the intent log were on it
    ///
    /// The load is recorded from the running daemon while its clients work, and replayed as a closed loop: a client
    /// that is answered sooner asks sooner. Nothing is overwritten: in a directory a file is made and removed, a block
    /// device must be blank.
    Log(LogArgs),
}

/// Words of `advise log`.
#[derive(Clone, Debug, Args)]
pub struct LogArgs {
    /// A blank block device, or a directory on the device
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    device: PathBuf,

    /// How long to record what clients do
    #[arg(long, default_value_t = 30.0, value_name = "SECONDS")]
    seconds: f64,
}

/// What is said. Times are nanoseconds, rates requests per second.
#[derive(Debug, Serialize)]
struct Advice {
    device: PathBuf,
    /// Time of a durable write by its length.
    writes: Vec<Line>,
    /// Writes per second by the number of them under way.
    depths: Vec<(usize, f64)>,
    recorded_seconds: f64,
    recorded_requests: usize,
    log: Scene,
    candidate: Scene,
    /// With a log that takes no time: what no device can go beyond.
    limit: Scene,
    /// How long processors sat still between requests, how long they would, and what part of its time their work would
    /// take then.
    pause_ns: u64,
    candidate_pause_ns: u64,
    own_time_part: f64,
    /// Kinds of call: how many there were in a second, and how many there would be.
    kinds: Vec<(String, f64, f64)>,
}

/// What pauses do to processors.
#[derive(Clone, Copy, Debug)]
struct Warmth {
    pause: Duration,
    then: Duration,
    part: f64,
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[derive(Debug, Serialize)]
struct Line {
    bytes: u64,
    #[serde(flatten)]
    times: Quantiles,
}

/// Rate and latency with one log.
#[derive(Debug, Serialize)]
struct Scene {
    rate: f64,
    latency: Quantiles,
}

/// Carries it out.
pub(super) fn log(session: Session<'_>, args: &LogArgs, console: &mut Console<'_>) -> Result<(), Failure> {
    if !(0.1..=3600.0).contains(&args.seconds) {
        return Err(Failure::Usage("--seconds takes 0.1 to 3600".into()));
    }
    let mut bar = Bar::default();
    let mut client = Client::connect(session.socket)?;
    if !session.json {
        writeln!(console.err, "Recording what clients do for {} s ...", args.seconds)?;
    }
    let reply = client.ask(&Request::Record { seconds: args.seconds }, &mut |progress| bar.show(progress))?;
    let Reply::Load(load) = reply else { return Err(Failure::Mismatch) };
    if !load.events.iter().any(|event| event.by == KeptBy::Log) {
        return Err(Failure::NoLoad { seconds: load.seconds });
    }
    if !session.json {
        writeln!(console.err, "Requests: {}. Measuring {} ...", load.events.len(), args.device.display())?;
    }
    let measured = candidate::measure(&args.device, &tally_disk::SystemOpener, &mut |progress| bar.show(progress))?;
    let then = Duration::from_nanos(measured.device.samples().first().map_or(0, |shortest| shortest.quantile(0.5)));
    let pause = warmth::recorded_pause(&load);
    let warmth = Warmth { pause, then: then.min(pause), part: warmth::measure(pause, then)? };
    bar.clear();
    let advice = Advice::new(args, &load, &measured, warmth);
    let text = if session.json { serde_json::to_string_pretty(&advice)? + "\n" } else { advice.text() };
    console.out.write_all(text.as_bytes())?;
    if load.is_full && !session.json {
        writeln!(console.err, "note: only the first {:.0} s were recorded, there was no room for more", load.seconds)?;
    }
    Ok(())
}

impl Advice {
    fn new(args: &LogArgs, load: &RecordedLoad, measured: &Measured, warmth: Warmth) -> Self {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let looped = Loop::new(load, workers);
        let (seen, now) = (recorded_rate(load), looped.run(recorded_device(load)));
        // What the model leaves out is in both runs.
        let scene = |run: &Run| Scene { rate: seen * run.rate / now.rate.max(1e-9), latency: run.latency.quantiles() };
        let warmer = looped.scaled(warmth.part);
        let candidate = scene(&warmer.run(measured.device.clone()));
        let gain = candidate.rate / seen.max(1e-9);
        Self {
            device: args.device.clone(),
            writes: measured.device.samples().iter().map(Line::of).collect(),
            depths: measured.depths.clone(),
            recorded_seconds: load.seconds,
            recorded_requests: load.events.len(),
            kinds: kinds(load).map(|(name, part)| (name, part * seen, part * seen * gain)).collect(),
            log: scene(&now),
            limit: scene(&warmer.run(Device::instant())),
            candidate,
            pause_ns: nanoseconds(warmth.pause),
            candidate_pause_ns: nanoseconds(warmth.then),
            own_time_part: warmth.part,
        }
    }

    fn text(&self) -> String {
        let mut text = format!("Durable writes to {}, one at a time\n", self.device.display());
        for Line { bytes, times } in &self.writes {
            let [p50, p99, max] = [times.p50_ns, times.p99_ns, times.max_ns].map(duration);
            text += &format!("  {:>5}  p50 {p50}, p99 {p99}, max {max}\n", tally_base::Size(*bytes).to_string());
        }
        let depths: Vec<String> = self.depths.iter().map(|(depth, rate)| format!("{rate:.0}/s with {depth}")).collect();
        text += &format!("  4K, several at a time: {}\n\n", depths.join(", "));
        text += &format!(
            "The load of {:.0} s, {} requests\n{:28}{:>12}{:>14}{:>14}\n",
            self.recorded_seconds, self.recorded_requests, "", "now", "with it", "with none"
        );
        let row =
            |name: &str, cells: [String; 3]| format!("  {name:26}{:>12}{:>14}{:>14}\n", cells[0], cells[1], cells[2]);
        let scenes = [&self.log, &self.candidate, &self.limit];
        text += &row("requests per second", scenes.map(|scene| format!("{:.0}", scene.rate)));
        text += &row("wait of a request, p50", scenes.map(|scene| duration(scene.latency.p50_ns)));
        text += &row("wait of a request, p99", scenes.map(|scene| duration(scene.latency.p99_ns)));
        if self.own_time_part < 0.95 {
            let [now, then] = [self.pause_ns, self.candidate_pause_ns].map(duration);
            text += &format!(
                "  (processors that sit still for {then} and not for {now} take {:.0} % of the time for their work: measured)\n",
                self.own_time_part * 100.0
            );
        }
        if self.writes.first().is_some_and(|shortest| shortest.times.p50_ns < nanoseconds(SLEEP_MIN)) {
            text += "  (nobody sleeps for so short a wait: what the system makes of it, no measurement of the device tells, and\n   half of this rate is as likely)\n";
        }
        text += "\n";
        for (name, now, then) in &self.kinds {
            text += &format!("  {name}: {now:.0} -> {then:.0} per second\n");
        }
        let gain = self.candidate.rate / self.log.rate.max(1e-9);
        text += &match gain {
            gain if gain >= 1.1 => format!("\nClients would be {gain:.1} times as fast.\n"),
            gain if gain > 0.9 => "\nClients would hardly notice it.\n".to_owned(),
            gain => format!("\nClients would be slower: {:.0} % of the rate.\n", gain * 100.0),
        };
        text
    }
}

impl Line {
    fn of(samples: &Samples) -> Self {
        let times = Quantiles {
            count: samples.ns.len() as u64,
            p50_ns: samples.quantile(0.5),
            p99_ns: samples.quantile(0.99),
            max_ns: samples.quantile(1.0),
        };
        Self { bytes: samples.bytes, times }
    }
}

/// Kinds that wait for the log, and which part of all requests they are.
fn kinds(load: &RecordedLoad) -> impl Iterator<Item = (String, f64)> {
    let mut counts = std::collections::BTreeMap::<&str, u32>::new();
    for event in load.events.iter().filter(|event| event.by == KeptBy::Log) {
        let name = usize::try_from(event.kind).ok().and_then(|kind| load.kinds.get(kind));
        *counts.entry(name.map_or("?", String::as_str)).or_default() += 1;
    }
    #[allow(clippy::cast_precision_loss)]
    let all = load.events.len().max(1) as f64;
    counts
        .into_iter()
        .map(move |(name, count)| (name.to_owned(), f64::from(count) / all))
        .collect::<Vec<_>>()
        .into_iter()
}
