//! Which request meets what: lines of a file that is read again whenever it changes.
//!
//! ```text
//! # disk   request   bytes          action    how often
//! log-m    durable   131072-196608  fail      1
//! log-*    write     *              sleep:8
//! a        read      409600-413696  fail
//! ```
//!
//! A disk is a file's name, with `*` for anything at its end. A request is `read`, `write` (also a durable one),
//! `durable` (a write with O_DSYNC, as RWF_DSYNC arrives) or `flush`. The first line that fits counts.

use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// What a disk is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Bytes.
    Read,
    /// Bytes into its cache.
    Write,
    /// Bytes through its cache.
    Durable,
    /// Its cache.
    Flush,
}

/// What it does instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// EIO.
    Fail,
    /// EIO, and everything is gone that was written and neither durable nor flushed.
    Lose,
    /// Nothing, until the rules change.
    Hang,
    /// The right thing, later.
    Sleep(Duration),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    disk: String,
    request: Request,
    bytes: Option<Range<u64>>,
    action: Action,
    /// How often it still fits.
    left: Option<u64>,
}

/// The file of rules.
pub struct Rules {
    path: PathBuf,
    read: Mutex<(String, Vec<Rule>)>,
}

impl Rules {
    /// Rules of this file, which may come later.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path, read: Mutex::default() }
    }

    /// What meets a request.
    pub fn judge(&self, disk: &str, request: Request, bytes: &Range<u64>) -> Option<Action> {
        let mut read = self.read.lock().expect("no holder of the rules panics");
        self.refresh(&mut read);
        let rule = read.1.iter_mut().find(|rule| rule.fits(disk, request, bytes))?;
        if let Some(left) = &mut rule.left {
            *left -= 1;
        }
        Some(rule.action)
    }

    /// Waits until the rules are others.
    pub fn wait_for_change(&self) {
        let before = self.text();
        while self.text() == before {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.path).unwrap_or_default()
    }

    fn refresh(&self, read: &mut (String, Vec<Rule>)) {
        let text = self.text();
        if text != read.0 {
            match parse(&text) {
                Ok(rules) => read.1 = rules,
                Err(error) => eprintln!("{}: {error:#}; the rules before it stay", self.path.display()),
            }
            read.0 = text;
        }
    }
}

impl Rule {
    fn fits(&self, disk: &str, request: Request, bytes: &Range<u64>) -> bool {
        let named = match self.disk.strip_suffix('*') {
            Some(start) => disk.starts_with(start),
            None => disk == self.disk,
        };
        let asked = self.request == request || (self.request == Request::Write && request == Request::Durable);
        let touched = self.bytes.as_ref().is_none_or(|range| range.start < bytes.end && bytes.start < range.end);
        named && asked && touched && self.left != Some(0)
    }
}

impl FromStr for Rule {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> Result<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (disk, request, bytes, action, count) = match words[..] {
            [disk, request, bytes, action] => (disk, request, bytes, action, None),
            [disk, request, bytes, action, count] => (disk, request, bytes, action, Some(count)),
            _ => bail!("'{line}' is no rule: DISK REQUEST BYTES ACTION [COUNT]"),
        };
        Ok(Self {
            disk: disk.to_owned(),
            request: match request {
                "read" => Request::Read,
                "write" => Request::Write,
                "durable" => Request::Durable,
                "flush" => Request::Flush,
                _ => bail!("'{request}' is neither read, write, durable nor flush"),
            },
            bytes: match bytes.split_once('-') {
                Some((from, to)) => Some(from.parse()?..to.parse()?),
                None if bytes == "*" => None,
                None => bail!("'{bytes}' is neither FROM-TO nor *"),
            },
            action: match action.split_once(':').unwrap_or((action, "")) {
                ("fail", "") => Action::Fail,
                ("lose", "") => Action::Lose,
                ("hang", "") => Action::Hang,
                ("sleep", ms) => Action::Sleep(Duration::from_millis(ms.parse().context("sleep:MILLISECONDS")?)),
                _ => bail!("'{action}' is neither fail, lose, hang nor sleep:MILLISECONDS"),
            },
            left: count.map(str::parse).transpose().context("a count is a number")?,
        })
    }
}

fn parse(text: &str) -> Result<Vec<Rule>> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::parse).collect()
}
