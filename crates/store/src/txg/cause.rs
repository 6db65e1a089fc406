//! Why a group is synced, counted: on a server at ease it is time or room, and where it is something else somebody waits
//! for groups who could have had the log.

/// Why a group was closed: who asked for that first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Nobody: its time was over.
    Time,
    /// It has as much in memory as one should, or memory is full.
    Memory,
    /// It has its part of a ring of the log.
    Ring,
    /// It has as much to patch as one may.
    Patches,
    /// More data comes than the disks take, and somebody waits on the slope.
    Slope,
    /// Somebody's reply waits for it, and the log is not what keeps his promise.
    Reply,
    /// Somebody was refused, and a group brings what he lacks: space, a quota, a lease of time.
    Refusal,
    /// A command or a chore: an export, removed files, a lane that failed.
    Chore,
}

impl Cause {
    /// All, in the order in which they are shown.
    pub const ALL: [Self; 8] =
        [Self::Time, Self::Memory, Self::Ring, Self::Patches, Self::Slope, Self::Reply, Self::Refusal, Self::Chore];

    /// As metrics and JSON call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Memory => "memory",
            Self::Ring => "ring",
            Self::Patches => "patches",
            Self::Slope => "slope",
            Self::Reply => "reply",
            Self::Refusal => "refusal",
            Self::Chore => "chore",
        }
    }
}

/// How many groups were closed for each cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Causes([u64; Cause::ALL.len()]);

impl Causes {
    pub(super) fn count(&mut self, cause: Cause) {
        self.0[cause as usize] += 1;
    }

    /// How many groups were closed for each.
    pub fn iter(&self) -> impl Iterator<Item = (Cause, u64)> + '_ {
        Cause::ALL.into_iter().map(|cause| (cause, self.0[cause as usize]))
    }
}
