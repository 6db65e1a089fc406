//! A directory of users that answers, fails, takes its time or says nothing, as a test has it.

use std::io;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use tally_nfs::v4::naming::{Kind, NameService};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Answers,
    /// It cannot say.
    Fails,
    /// It says nothing, until it is something else.
    Hangs,
}

/// `root` is 0, `alice` 1000, `bob` 1001, and `u12345` 12345 as all from 10,000 to 20,000; the same of groups. Nobody else has a name.
pub struct Directory {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    how: How,
    asked: Vec<(Kind, String)>,
    count: usize,
    /// So many are never answered.
    left: usize,
}

const NAMED: [(&str, u32); 3] = [("root", 0), ("alice", 1000), ("bob", 1001)];

impl Directory {
    pub fn new(how: How) -> Arc<Self> {
        let state = State { how, asked: Vec::new(), count: 0, left: 0 };
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new() })
    }

    pub fn become_one_that(&self, how: How) {
        self.state.lock().how = how;
        self.changed.notify_all();
    }

    /// Who was asked by now is never answered, and others are.
    pub fn leave_who_waits(&self) {
        let mut state = self.state.lock();
        (state.left, state.how) = (state.count, How::Answers);
        self.changed.notify_all();
    }

    /// What it was asked since the last time, in order.
    pub fn asked(&self) -> Vec<(Kind, String)> {
        std::mem::take(&mut self.state.lock().asked)
    }

    fn ask<T>(&self, kind: Kind, what: String, answer: T) -> io::Result<T> {
        let mut state = self.state.lock();
        state.asked.push((kind, what));
        let nth = state.count;
        state.count += 1;
        self.changed.wait_while(&mut state, |state| state.how == How::Hangs || nth < state.left);
        if state.how == How::Fails { Err(io::Error::from_raw_os_error(5)) } else { Ok(answer) }
    }
}

impl NameService for Directory {
    fn name(&self, kind: Kind, id: u32) -> io::Result<Option<String>> {
        let named = NAMED.iter().find(|(_, named)| *named == id).map(|(name, _)| (*name).to_owned());
        let name = named.or_else(|| (10_000..20_000).contains(&id).then(|| format!("u{id}")));
        self.ask(kind, id.to_string(), name)
    }

    fn id(&self, kind: Kind, name: &str) -> io::Result<Option<u32>> {
        let numbered = || name.strip_prefix('u')?.parse().ok();
        let id = NAMED.iter().find(|(named, _)| *named == name).map(|(_, id)| *id).or_else(numbered);
        self.ask(kind, name.to_owned(), id)
    }
}
