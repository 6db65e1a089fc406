//! What a server may keep in memory, and what it took above that.

use clap::Args;

use crate::figures::{Bar, Figures};

/// What the server may need beside its cache and its dirty data, MiB.
const SLACK_MEBIBYTES: f64 = 256.0;

const ABOVE_LIMITS: &str = "resident memory above cache and dirty limit, highest";

/// The limits that are set for a run.
#[derive(Args)]
pub(crate) struct Limits {
    /// The server's cache, MiB.
    #[arg(long, default_value_t = 512)]
    cache_mebibytes: u64,
    /// The server's limit on dirty data, MiB.
    #[arg(long, default_value_t = 256)]
    dirty_mebibytes: u64,
}

impl Limits {
    /// Lines of the server's configuration file.
    pub(crate) fn configuration(&self) -> String {
        format!("cache = \"{}M\"\ndirty_data_max = \"{}M\"\n", self.cache_mebibytes, self.dirty_mebibytes)
    }

    /// A run had so many bytes resident at most.
    pub(crate) fn add_peak(&self, figures: &mut Figures, resident_bytes: u64) {
        let limits = (self.cache_mebibytes + self.dirty_mebibytes) as f64;
        figures.add(ABOVE_LIMITS, "MiB", resident_bytes as f64 / f64::from(1 << 20) - limits);
    }

    /// What came of all runs, against the bar.
    pub(crate) fn row(&self, figures: &Figures, benchmark: &str) {
        println!("cache {} MiB, dirty data at most {} MiB", self.cache_mebibytes, self.dirty_mebibytes);
        figures.row(benchmark, ABOVE_LIMITS, Bar::AtMost(SLACK_MEBIBYTES));
    }
}
