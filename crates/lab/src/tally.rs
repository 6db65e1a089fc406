//! Counting: every kind of test ends in one line `N passed, N failed, N skipped`.

use std::fmt;
use std::ops::AddAssign;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::cargo;

/// Outcomes of tests, of whatever kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// That did what they should.
    pub passed: u64,
    /// That did not, or could not be ended.
    pub failed: u64,
    /// That could not be run here.
    pub skipped: u64,
}

impl Tally {
    /// One test that could not be run.
    pub const SKIPPED: Self = Self { passed: 0, failed: 0, skipped: 1 };
    /// One check that passed.
    pub const PASSED: Self = Self { passed: 1, failed: 0, skipped: 0 };
    /// One check that failed, and nothing besides.
    pub const FAILED: Self = Self { passed: 0, failed: 1, skipped: 0 };

    /// Reads a line of our own, or cargo's `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
    pub fn parse(line: &str) -> Option<Self> {
        let line = line.strip_prefix("test result: ").map_or(line, |rest| rest.split_once(". ").map_or("", |r| r.1));
        let mut tally = Self::default();
        let mut found = false;
        for part in line.split([',', ';']) {
            let mut words = part.split_whitespace();
            let (Some(Ok(count)), Some(word)) = (words.next().map(str::parse), words.next()) else { continue };
            match word {
                "passed" => tally.passed = count,
                "failed" => tally.failed = count,
                "skipped" | "ignored" => tally.skipped = count,
                _ => continue,
            }
            found = true;
        }
        found.then_some(tally)
    }

    /// Runs a command of ours, whose last line of counts it is. One that prints none, or fails without saying what
    /// failed, is one failure.
    pub fn of(command: &mut Command) -> Result<Self> {
        let mut tally = None;
        let succeeded = cargo::watch(command, |line| tally = Self::parse(line).or(tally))?;
        let mut tally = tally.unwrap_or(Self::FAILED);
        if !succeeded && tally.failed == 0 {
            tally.failed = 1;
        }
        Ok(tally)
    }

    /// Fails if a test failed, or if none ran.
    pub fn into_result(self) -> Result<()> {
        println!("{self}");
        ensure!(self.failed == 0, "{} failed", self.failed);
        ensure!(self.passed + self.skipped > 0, "no test ran");
        Ok(())
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

#[cfg(test)]
mod tests;
