//! That something has changed, for a thread that looks when it comes to it: any number of changes between two looks are one.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// One thread waits for it, and any may ring.
pub(super) struct Bell {
    state: Mutex<State>,
    heard: Condvar,
}

struct State {
    is_rung: bool,
    is_over: bool,
}

/// It has rung: who begins to wait looks first.
impl Default for Bell {
    fn default() -> Self {
        Self { state: Mutex::new(State { is_rung: true, is_over: false }), heard: Condvar::new() }
    }
}

impl Bell {
    /// Something has changed.
    pub(super) fn ring(&self) {
        self.state.lock().is_rung = true;
        self.heard.notify_one();
    }

    /// Nobody is to wait any more, but for one look that is still due.
    pub(super) fn end(&self) {
        self.state.lock().is_over = true;
        self.heard.notify_one();
    }

    /// Waits until it rings, or as long as this; gives whether it will ring again.
    pub(super) fn wait(&self, patience: Option<Duration>) -> bool {
        let mut state = self.state.lock();
        while !state.is_rung && !state.is_over {
            match patience {
                None => self.heard.wait(&mut state),
                Some(patience) if self.heard.wait_for(&mut state, patience).timed_out() => break,
                Some(_) => {}
            }
        }
        state.is_rung = false;
        !state.is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_between_two_looks_are_one() {
        let bell = Bell::default();
        assert!(bell.wait(None), "the first look is due");
        bell.ring();
        bell.ring();
        assert!(bell.wait(None));
        assert!(bell.wait(Some(Duration::ZERO)), "nothing has changed, and somebody is impatient");
        bell.end();
        assert!(!bell.wait(None));
    }
}
