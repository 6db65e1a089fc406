//! Attach, detach, replace, offline and online, of data and of log disks, spares that come, stand in, are given back and go, and a
//! feature that is enabled and used, with the power cut at every write and flush of them: before it, in the middle of it, and
//! behind it.
//!
//! Each command runs on a small pool with files in it, some of them in blocks and some in the log alone, and clients
//! write more at every step of it. It is run once for each of its writes and flushes, and cut there; of what no flush
//! has saved nothing stays, or all, or some writes, or some sectors. What must hold: the import takes the pool without
//! a loss, everything that was answered is there, and a walk over everything finds it sound. Where nothing or all has
//! stayed, it must be there as well if any one disk is lost besides whose mirror has another, by labels that agree; and
//! if labels do not agree yet, then either the import says so or everything is there.

mod small_pool;

use std::path::Path;
use std::sync::Arc;

use small_pool::{Command, FEATURE, Files, NEW, Start, agreed, import_and_check, is_spare, leaves_an_older_state};
use tally_disk::Disk;
use tally_members::create::add_spares;
use tally_members::label::{self, FeatureState};
use tally_sim::chance::Chance;
use tally_sim::disk::Kept;
use tally_sim::machine::Machine;

/// What stays of what was not flushed.
const KEPT: [Kept; 4] = [
    Kept { of_8: 0, tear: None },
    Kept { of_8: 8, tear: None },
    Kept { of_8: 4, tear: None },
    Kept { of_8: 4, tear: Some(512) },
];

/// What is found behind a cut, with all disks, and with each of them lost.
fn check_cut(machine: &Machine, files: &Files, kept: Kept, (command, is_done): (Command, bool)) -> Result<u64, String> {
    let mut cut = machine.copy();
    cut.lose_power_keeping(kept, &mut Chance::new(1, 1));
    let mut whole = cut.copy();
    import_and_check(&mut whole, files)?;
    check_spares(&whole, command, is_done)?;
    check_feature(&whole, command, is_done)?;
    let mut states = 1;
    if kept.tear.is_some() || !kept.of_8.is_multiple_of(8) {
        return Ok(states);
    }
    let agreed = agreed(&cut);
    for (path, _) in cut.disks().iter().filter(|(path, _)| !leaves_an_older_state(&cut, path)) {
        let mut other = cut.copy();
        other.swap(path, None);
        let must_hold = agreed.as_ref().is_some_and(|config| is_spare(config, path))
            // Nothing is on it.
            || matches!(command, Command::AddSpare | Command::RemoveSpare) && path == NEW;
        let outcome = import_and_check(&mut other, files);
        let is_refused = outcome.as_ref().is_err_and(|what| what.starts_with("refused"));
        if must_hold || !is_refused {
            outcome.map_err(|what| format!("without {path}: {what}"))?;
            states += 1;
        }
    }
    Ok(states)
}

/// A disk that was a spare before the command is one still. If it waits its label says so, before anybody has looked at it; or it
/// is that of a leg in an older configuration, as of one that was given back, and the look sets it right. In use it is a leg that
/// is not believed, or has everything. One that comes or goes is one or none, and what was begun can be done then.
fn check_spares(machine: &Machine, command: Command, is_done: bool) -> Result<(), String> {
    let pool = Arc::clone(machine.server().filer.pool());
    let config = pool.roster.config();
    let expected = match command {
        Command::TakeSpare(_) | Command::GiveBackSpare(_) => [1, 1],
        Command::AddSpare => [usize::from(is_done), 1],
        Command::RemoveSpare => [0, usize::from(!is_done)],
        _ => [0, 0],
    };
    if !expected.contains(&config.spares.len()) {
        return Err(format!("{} lines of spares, and not {expected:?}", config.spares.len()));
    }
    let label_of = |path: &Path| {
        let (_, disk) = machine.disks().iter().find(|(other, _)| Path::new(other) == path).ok_or("it is gone")?;
        label::read(disk.as_ref() as &dyn Disk).map_err(|why| why.to_string())
    };
    for spare in config.spares_available() {
        let found = label_of(&spare.path)?;
        let was_given_back = matches!(command, Command::GiveBackSpare(_)) && found.config.rank() < config.rank();
        if !found.is_spare() && !was_given_back {
            return Err("a spare that waits has a label of today that calls it a leg".into());
        }
        pool.roster.look_at_spare(&pool.platform, spare.guid)?;
        label_of(&spare.path)?.is_spare().then_some(()).ok_or("a look leaves a spare that waits with another label")?;
    }
    let paths = [NEW.into()];
    match (command, config.spares.first()) {
        // Its label may be there already, and name the pool.
        (Command::AddSpare, None) => {
            add_spares(&pool.roster, &pool.platform, &paths, true).map_err(|error| format!("again: {error}"))?;
        }
        (Command::RemoveSpare, Some(spare)) => {
            let again = pool.roster.remove_spare(&pool.platform, spare.guid);
            again.map_err(|error| error.to_string())?.map_or(Ok(()), Err)?;
        }
        // Nobody has to force it.
        (Command::RemoveSpare, None) if is_done => {
            add_spares(&pool.roster, &pool.platform, &paths, false).map_err(|error| format!("back: {error}"))?;
        }
        _ => {}
    }
    for (spare, _) in config.spares_in_use() {
        let (_, leg) = config.leg(spare.guid).ok_or("a spare in use is no leg")?;
        let says_leg = !label_of(&spare.path)?.is_spare();
        if leg.stale_since.is_none() && !(says_leg && leg.missed.is_empty()) {
            return Err("a spare in use is believed, and has not everything".into());
        }
    }
    Ok(())
}

/// A feature that is in use is one of which the labels say what it is called; and one of which it was said that it is in use is.
fn check_feature(machine: &Machine, command: Command, is_done: bool) -> Result<(), String> {
    let roster = Arc::clone(&machine.server().filer.pool().roster);
    let config = roster.config();
    let lines = config.feature_notes.lines.iter().filter(|line| line.name == FEATURE.name).count();
    let state = config.feature_state(&FEATURE);
    let is_possible = match (command, is_done) {
        (Command::Upgrade, false) => true,
        (Command::Upgrade, true) => state == FeatureState::Active,
        _ => state == FeatureState::Disabled,
    };
    let is_named = lines == usize::from(state != FeatureState::Disabled);
    if !is_possible || !is_named {
        return Err(format!("the feature is {state:?}, in {lines} lines"));
    }
    if let Command::Upgrade = command {
        let again = roster.enable_features(&[FEATURE]).and_then(|()| roster.activate(&FEATURE));
        again.map_err(|error| format!("again: {error}"))?;
    }
    Ok(())
}

fn cut_everywhere(words: &[&str], commands: &[Command]) {
    let start = Start::new(words);
    for command in commands {
        let (mut cut, mut states) = (0, 0);
        loop {
            cut += 1;
            let (machine, files, is_done) = start.run(*command, cut);
            let is_off = machine.power().is_off();
            assert!(is_done || is_off, "{command:?} fails by itself");
            for kept in KEPT {
                let checked = check_cut(&machine, &files, kept, (*command, is_done && !is_off));
                states += checked.unwrap_or_else(|what| panic!("{command:?}, cut at event {cut}, {kept:?}: {what}"));
            }
            if !is_off {
                break;
            }
        }
        println!("{command:?}: {} events, {states} states", cut - 1);
        // The labels of the disks that stay, of each two.
        let events_min = if matches!(command, Command::Offline(_)) { 2 } else { 4 };
        assert!(cut > events_min, "{command:?} writes labels at least");
    }
}

#[test]
fn disks_that_join_a_pool_with_a_log_device() {
    let commands = [
        Command::Attach("/d/data"),
        Command::Attach("/d/slog"),
        Command::Replace("/d/data"),
        Command::Replace("/d/slog"),
    ];
    cut_everywhere(&["/d/data", "log", "/d/slog"], &commands);
}

#[test]
fn disks_that_join_a_pool_with_its_log_inside() {
    cut_everywhere(&["/d/data"], &[Command::Attach("/d/data"), Command::Replace("/d/data")]);
}

#[test]
fn disks_that_are_away_and_come_back() {
    let commands = [Command::Offline("/d/data"), Command::Online("/d/data2")];
    cut_everywhere(&["mirror", "/d/data", "/d/data2"], &commands);
    let commands = [Command::Offline("/d/slog"), Command::Online("/d/slog2"), Command::Online("/d/data")];
    let words = ["mirror", "/d/data", "/d/data2", "log", "mirror", "/d/slog", "/d/slog2"];
    cut_everywhere(&words, &commands);
}

#[test]
fn spares_that_stand_in_and_are_given_back() {
    let commands = [Command::TakeSpare("/d/data2"), Command::GiveBackSpare("/d/data2")];
    cut_everywhere(&["mirror", "/d/data", "/d/data2"], &commands);
}

#[test]
fn spares_that_come_and_go_and_a_feature_that_is_used() {
    let commands = [Command::AddSpare, Command::RemoveSpare, Command::Upgrade];
    cut_everywhere(&["mirror", "/d/data", "/d/data2"], &commands);
    cut_everywhere(&["/d/data", "log", "/d/slog"], &commands);
}

#[test]
fn disks_that_leave_mirrors() {
    let words = ["mirror", "/d/data", "/d/data2", "log", "mirror", "/d/slog", "/d/slog2"];
    let commands = [
        Command::Detach("/d/data"),
        Command::Detach("/d/data2"),
        Command::Detach("/d/slog"),
        Command::Detach("/d/slog2"),
        Command::Attach("/d/slog"),
        Command::Replace("/d/slog2"),
        Command::Replace("/d/data2"),
    ];
    cut_everywhere(&words, &commands);
}
