//! The programs of a directory, and one of them at work: it has so long, so much is shown of what it prints, and nothing of it is left
//! behind.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, OFlags, access, fcntl_setfl};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, kill_process_group, pidfd_open};
use serde::Serialize;

use super::super::words;
use super::orphans::{DYING_TIME_MAX, Orphans};
use super::say;
use crate::control::report::EventReport;
use crate::dates::utc_as_history;
use crate::process::host_name;

/// So long a program has.
const TIME_MAX: Duration = Duration::from_secs(10);
/// So much is shown of what it prints for one event. The rest is read and dropped.
const OUTPUT_BYTES_MAX: usize = 64 << 10;
/// How long it is waited before a program is tried again that could not be begun.
const AGAIN_IN: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(4), Duration::from_secs(16)];
/// So many of a directory are run.
const HOOKS_MAX: usize = 64;
/// So much of an event's text is handed on: there is little room in an environment.
const TEXT_CHARS_MAX: usize = 4096;

/// A directory of programs.
pub(super) struct Hooks {
    dir: PathBuf,
    time_max: Duration,
    again_in: [Duration; 3],
    /// Ends what programs leave behind; without it, what they leave in their group alone is ended.
    orphans: Option<Orphans>,
    /// What programs have left behind and goes on.
    alive: usize,
    /// What was found wrong with it, which is said once.
    said: BTreeSet<String>,
}

impl Hooks {
    pub(super) const fn of(dir: PathBuf, orphans: Option<Orphans>) -> Self {
        Self { dir, time_max: TIME_MAX, again_in: AGAIN_IN, orphans, alive: 0, said: BTreeSet::new() }
    }

    /// Runs each of them for this event. What they print, and how they fail, goes to stdout.
    pub(super) fn run(&mut self, event: &EventReport) {
        say(&format!("{}: {} of {}", event.class, words::harmless(&event.text), event.pool));
        for hook in self.programs() {
            let name = hook.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let began = Instant::now();
            let outcome = self.run_one(&hook, event).map(|(status, shown)| {
                shown.lines().for_each(|line| say(&format!("{name}: {}", words::harmless(line))));
                status
            });
            match outcome {
                Ok(Some(status)) if status.success() => {}
                Ok(Some(status)) => say(&format!("{name} ended with {}", how(status))),
                Ok(None) => say(&format!("{name} was killed: it had not ended after {} s", began.elapsed().as_secs())),
                Err(error) => say(&format!("{name} is not told of it: it could not be run: {error}")),
            }
            self.end_orphans(&name);
        }
    }

    /// Ends what this program has left behind.
    fn end_orphans(&mut self, name: &str) {
        let Some(orphans) = &self.orphans else { return };
        match orphans.end() {
            Ok(left) => {
                if left.ended > 0 {
                    say(&format!("{name} left {} processes behind, which were ended", left.ended));
                }
                if left.alive > self.alive {
                    say(&format!("{name} left processes behind that cannot be ended, and go on: {}", left.alive));
                }
                self.alive = left.alive;
            }
            Err(error) => say(&format!("{name}: cannot end what it has left behind: {error}")),
        }
    }

    /// The executable files of the directory, by name.
    fn programs(&mut self) -> Vec<PathBuf> {
        let (mut programs, mut wrong) = (Vec::new(), BTreeSet::new());
        match fs::read_dir(&self.dir) {
            // Whoever may write there may put a program in the place of one that was looked at.
            Ok(_) if fs::metadata(&self.dir).is_ok_and(|dir| dir.mode() & 0o022 != 0) => {
                wrong
                    .insert(format!("nothing in {} is run: others than its owner may write to it", self.dir.display()));
            }
            Ok(entries) => {
                for path in entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| is_meant(path)) {
                    match checked(&path) {
                        Ok(_) => programs.push(path),
                        Err(why) => drop(wrong.insert(format!("{} is not run: {why}", path.display()))),
                    }
                }
            }
            Err(error) => drop(wrong.insert(format!("cannot list {}: {error}", self.dir.display()))),
        }
        programs.sort();
        if programs.len() > HOOKS_MAX {
            programs.truncate(HOOKS_MAX);
            wrong.insert(format!("{}: only the first {HOOKS_MAX} programs are run", self.dir.display()));
        }
        wrong.difference(&self.said).for_each(|line| say(line));
        self.said = wrong;
        programs
    }

    /// Runs one, and gives how it ended, if it did by itself, and what is to be shown of its output.
    fn run_one(&self, hook: &Path, event: &EventReport) -> io::Result<(Option<ExitStatus>, String)> {
        let (child, output) = self.begin(hook, event)?;
        // Until it is waited for its number, which is its group's, is nobody else's.
        let pid = Pid::from_child(&child);
        let ended = attend(pid, output, Instant::now() + self.time_max);
        match kill_process_group(pid, Signal::KILL) {
            // All of it has ended, or another user's, which a program that may become one has left behind.
            Ok(()) | Err(Errno::SRCH | Errno::PERM) => {}
            Err(error) => say(&format!("{}: cannot end what it has begun: {error}", hook.display())),
        }
        let status = end_of(child, hook)?;
        let (in_time, shown) = ended?;
        Ok((status.filter(|_| in_time), shown))
    }

    /// Begins it. Where the machine has no room for it this moment, it is tried again.
    fn begin(&self, hook: &Path, event: &EventReport) -> io::Result<(Child, OwnedFd)> {
        for wait in self.again_in {
            match begin(hook, event) {
                Err(error) if will_pass(&error) => {
                    let seconds = wait.as_secs();
                    say(&format!("{} cannot be begun: {error}; it is tried again in {seconds} s", hook.display()));
                    std::thread::sleep(wait);
                }
                begun => return begun,
            }
        }
        begin(hook, event)
    }
}

/// Begins one, and gives the end of the pipe that it prints to.
fn begin(hook: &Path, event: &EventReport) -> io::Result<(Child, OwnedFd)> {
    // Others have run since the directory was looked at.
    let program = checked(hook).map_err(io::Error::other)?;
    let (output, input) = pipe_with(PipeFlags::CLOEXEC)?;
    let mut command = Command::new(program);
    command.arg0(hook).current_dir("/").stdin(Stdio::null()).stdout(input.try_clone()?).stderr(input);
    command.envs(variables(event)?).process_group(0);
    Ok((command.spawn()?, output))
}

/// Whether an error says something of this moment, and nothing of the program: no room for it, or somebody writes to it.
fn will_pass(error: &io::Error) -> bool {
    use Errno as E;
    matches!(E::from_io_error(error), Some(E::AGAIN | E::NOMEM | E::MFILE | E::NFILE | E::TXTBSY))
}

/// How it ended. None: it cannot be killed, as it became another user or its disk does not answer, and others do not wait for it.
fn end_of(mut child: Child, hook: &Path) -> io::Result<Option<ExitStatus>> {
    let until = Instant::now() + DYING_TIME_MAX;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= until {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    say(&format!("{} cannot be ended, and goes on beside those that come next", hook.display()));
    Ok(None)
}

/// Reads what a process prints until it ends or the time is over: whether it has ended, and what is to be shown.
fn attend(pid: Pid, output: OwnedFd, until: Instant) -> io::Result<(bool, String)> {
    fcntl_setfl(&output, OFlags::NONBLOCK)?;
    let (process, mut output, mut shown) =
        (pidfd_open(pid, PidfdFlags::empty())?, File::from(output), Shown::default());
    let mut is_open = true;
    let in_time = loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break false;
        }
        let mut files = vec![PollFd::new(&process, PollFlags::IN)];
        files.extend(is_open.then(|| PollFd::new(&output, PollFlags::IN)));
        match poll(&mut files, Timespec::try_from(left).ok().as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let has_ended = files.first().is_some_and(|process| !process.revents().is_empty());
        // Once more behind its end, for its last words.
        is_open = is_open && shown.read(&mut output);
        if has_ended {
            break true;
        }
    };
    Ok((in_time, shown.text()))
}

/// The beginning of what a process prints.
#[derive(Default)]
struct Shown {
    bytes: Vec<u8>,
    dropped: bool,
}

impl Shown {
    /// Reads a piece, and says whether there may be more.
    fn read(&mut self, output: &mut File) -> bool {
        let mut piece = [0; 16 << 10];
        // As much as a pipe holds: whoever writes without end gets no more of our time than anybody.
        for _ in 0..4 {
            match output.read(&mut piece) {
                Ok(0) => return false,
                Ok(count) => {
                    let read = piece.get(..count).unwrap_or_default();
                    let room = OUTPUT_BYTES_MAX - self.bytes.len();
                    self.bytes.extend(read.iter().take(room));
                    self.dropped |= count > room;
                }
                Err(error) => return matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
            }
        }
        true
    }

    fn text(self) -> String {
        let more = if self.dropped { "\n(and more, which is not shown)" } else { "" };
        String::from_utf8_lossy(&self.bytes).into_owned() + more
    }
}

/// Files of editors and of dpkg are nobody's hooks.
fn is_meant(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    !(name.starts_with('.') || name.ends_with('~') || name.contains(".dpkg-"))
}

/// The path by which it is run, in which only root and this user can put something else; or why it is not.
fn checked(hook: &Path) -> Result<PathBuf, String> {
    // Behind a link stands what counts, and what is looked at is what is run.
    let path = fs::canonicalize(hook).map_err(|error| error.to_string())?;
    let metadata = fs::metadata(&path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is no file".into());
    }
    if !is_ours(&metadata) {
        return Err("it belongs to another user; give it to root".into());
    }
    if metadata.mode() & 0o022 != 0 {
        return Err("others may write to it; chmod go-w".into());
    }
    for folder in path.ancestors().skip(1) {
        let metadata = fs::metadata(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        // Where the bit 1000 is set nobody takes away what is another's.
        if !is_ours(&metadata) || metadata.mode() & 0o022 != 0 && metadata.mode() & 0o1000 == 0 {
            return Err(format!(
                "others may put something else in its place, as {} is theirs to write; move it to a folder of root's",
                folder.display()
            ));
        }
    }
    access(&path, Access::EXEC_OK).map_err(|_| "it is not executable; chmod +x has it run".to_owned())?;
    Ok(path)
}

fn is_ours(metadata: &fs::Metadata) -> bool {
    metadata.uid() == 0 || metadata.uid() == geteuid().as_raw()
}

/// An event, with the machine on which it has happened: who hears of it elsewhere has several.
#[derive(Serialize)]
struct Told<'a> {
    host: &'a str,
    #[serde(flatten)]
    event: EventReport,
}

/// As much of a text as is handed on.
fn beginning(text: &str) -> String {
    let Some((end, _)) = text.char_indices().nth(TEXT_CHARS_MAX) else { return text.to_owned() };
    format!("{} (and more, which `tally events` shows)", text.get(..end).unwrap_or_default())
}

/// What a program is told.
fn variables(event: &EventReport) -> io::Result<Vec<(&'static str, String)>> {
    let host = host_name();
    let text = beginning(&event.text);
    let told = Told { host: &host, event: EventReport { text: text.clone(), ..event.clone() } };
    Ok(vec![
        ("TALLY_CLASS", words::harmless(&event.class)),
        ("TALLY_POOL", words::harmless(&event.pool)),
        ("TALLY_TEXT", words::harmless(&text)),
        ("TALLY_TIME", utc_as_history(event.time_ns)),
        ("TALLY_TIME_NS", event.time_ns.to_string()),
        ("TALLY_HOST", words::harmless(&host)),
        ("TALLY_JSON", serde_json::to_string(&told)?),
    ])
}

fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}

#[cfg(test)]
mod tests;
