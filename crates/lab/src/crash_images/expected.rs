//! What the client did, step by step, and the tree after each.
//!
//! The client unpacks the archive with the system calls of `tar`, one after the other, and each step here is one
//! request of the protocol that changes something:
//!
//! ```text
//! folder        made
//! file          made (empty, and of its attributes only the owner is certain) → opened (mode 0600)
//!               → written → dated → owned → given its mode
//! at the end    dated, each folder in turn
//! ```
//!
//! After each system call the client sets the mark `step:N`, N steps in all being answered. It waits for each
//! answer, so at most the steps up to the next mark can have been carried out besides, in their order, each whole.

use std::collections::BTreeMap;
use std::fmt;

use super::archive::Member;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    MakeFolder,
    MakeFile,
    Open,
    Write,
    Date,
    Own,
    SetMode,
}

/// What the client did, in order.
pub(super) struct Steps<'a>(Vec<(Action, &'a Member)>);

/// What may be found under a name. Attributes that nobody was told of are not named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Expected<'a> {
    content: Option<&'a [u8]>,
    mode: Option<u32>,
    owner: (u32, u32),
    mtime: Option<u32>,
}

/// What is found under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Object {
    /// None of a folder.
    pub(super) content: Option<Vec<u8>>,
    pub(super) mode: u32,
    pub(super) owner: (u32, u32),
    pub(super) mtime: (u32, u32),
}

/// All that is found, by path.
pub(super) type Tree = BTreeMap<String, Object>;

/// How the client opens a new file, until it gives it its mode.
const OPENED_MODE: u32 = 0o600;
/// How it makes a folder.
const FOLDER_MODE: u32 = 0o755;

impl<'a> Steps<'a> {
    pub(super) fn new(members: &'a [Member]) -> Self {
        const FILE: [Action; 6] =
            [Action::MakeFile, Action::Open, Action::Write, Action::Date, Action::Own, Action::SetMode];
        let mut steps = Vec::new();
        for member in members {
            let actions: &[Action] = if member.content.is_some() { &FILE } else { &[Action::MakeFolder] };
            steps.extend(actions.iter().map(|action| (*action, member)));
        }
        let folders = members.iter().filter(|member| member.content.is_none());
        steps.extend(folders.map(|folder| (Action::Date, folder)));
        Self(steps)
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// The first number of steps, of `least..=most`, that explains a tree; or why none does.
    pub(super) fn explain(&self, found: &Tree, least: usize, most: usize) -> Result<usize, String> {
        let mut wrong = Vec::new();
        for count in least..=most {
            match compare(&self.after(count), found) {
                Ok(()) => return Ok(count),
                Err(difference) => wrong.push(format!("after {} {difference}", self.name(count))),
            }
        }
        Err(wrong.join("; "))
    }

    fn name(&self, count: usize) -> String {
        let last = count.checked_sub(1).and_then(|index| self.0.get(index));
        last.map_or_else(
            || format!("{count} steps"),
            |(action, member)| format!("{count} steps (the last: {action:?} {})", member.path),
        )
    }

    fn after(&self, count: usize) -> BTreeMap<&'a str, Expected<'a>> {
        let mut tree: BTreeMap<&str, Expected<'_>> = BTreeMap::new();
        for (action, member) in self.0.iter().take(count) {
            let new = Expected { content: Some(&[]), mode: None, owner: (0, 0), mtime: None };
            let object = tree.entry(&member.path).or_insert(new);
            match action {
                Action::MakeFolder => (object.content, object.mode) = (None, Some(FOLDER_MODE)),
                Action::MakeFile => {}
                Action::Open => object.mode = Some(OPENED_MODE),
                Action::Write => object.content = member.content.as_deref(),
                Action::Date => object.mtime = Some(member.mtime),
                Action::Own => object.owner = member.owner,
                Action::SetMode => object.mode = Some(member.mode),
            }
        }
        tree
    }
}

fn compare(expected: &BTreeMap<&str, Expected<'_>>, found: &Tree) -> Result<(), String> {
    if let Some(path) = expected.keys().find(|path| !found.contains_key(**path)) {
        return Err(format!("{path} is missing"));
    }
    for (path, object) in found {
        let expected = expected.get(path.as_str()).ok_or_else(|| format!("{path} should not be there"))?;
        expected.compare(object).map_err(|what| format!("{path} has {what}"))?;
    }
    Ok(())
}

impl Expected<'_> {
    fn compare(&self, found: &Object) -> Result<(), String> {
        let differs = |what: &str, found: &dyn fmt::Debug, expected: &dyn fmt::Debug| {
            Err(format!("{what} {found:?} instead of {expected:?}"))
        };
        match (self.content, &found.content) {
            (None, None) => {}
            (Some(expected), Some(found)) if expected == found => {}
            (Some(expected), Some(found)) if expected.len() == found.len() => {
                let at = expected.iter().zip(found).position(|(expected, found)| expected != found);
                return Err(format!("other content from byte {} on", at.unwrap_or_default()));
            }
            (expected, found) => return differs("size", &found.as_ref().map(Vec::len), &expected.map(<[u8]>::len)),
        }
        if self.mode.is_some_and(|mode| mode != found.mode) {
            let octal = |mode| format!("{mode:04o}");
            return Err(format!("mode {} instead of {}", octal(found.mode), self.mode.map(octal).unwrap_or_default()));
        }
        if self.owner != found.owner {
            return differs("owner", &found.owner, &self.owner);
        }
        if self.mtime.is_some_and(|mtime| (mtime, 0) != found.mtime) {
            return differs("mtime", &found.mtime, &self.mtime);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
