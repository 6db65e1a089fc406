//! Requests that are dropped with their connection, and sent again.

use tally_vfs::{CreateHow, Identity, Names, SetAttr};

use super::*;
use crate::history::run::History;
use crate::history::{Plan, Syncs, Trace, Trouble};
use crate::op::Object;

/// Who makes and removes things here.
const ONE: usize = 0;
/// Whose connection ends.
const OTHER: usize = 1;

fn history() -> History {
    let plan =
        Plan { seed: 1, steps: 0, syncs: Syncs::Between, trouble: Trouble::None, reserves: false, skipped: Vec::new() };
    History::new(&plan, &Trace::default()).expect("empty disks")
}

impl State {
    /// A client sends something, whose answer waits for the log.
    fn send(&mut self, client: usize, op: Op) {
        let (cred, record) = (self.clients[client].cred(), self.clients[client].record(&op.call()));
        let attempt = self.open(op, (client, cred), record, None).expect("a good request");
        let known = self.sent.len() as u64 + self.totals.dropped;
        self.carry_out(attempt, &mut Chance::new(1, 1)).expect("it is as the model says");
        assert_eq!(self.sent.len() as u64 + self.totals.dropped, known + 1, "it waits, or the seed has dropped it");
    }

    /// The connection of a client ends, if the seed has not ended it; the one request that was not answered on it is
    /// dropped.
    fn hang_up(&mut self, client: usize) {
        self.clients[client].reconnect();
        self.drop_jobs(client).expect("what is dropped owes nobody anything");
        assert_eq!(self.totals.dropped, 1);
    }

    fn has_name(&self, name: &str) -> bool {
        let model = &self.parts[0].oracle.live;
        self.look().expect("the server has what the model has");
        model.lookup(&Cred::root(), model.root(), name.as_bytes()).is_ok()
    }
}

fn create(dir: &Object) -> Op {
    Op::Create { dir: Arc::clone(dir), name: "a", how: CreateHow::Unchecked(SetAttr::default()) }
}

/// A RENAME does not find its source, and waits to say so until the removal is durable: dropped there, it has left
/// nothing. Then there is such a file again, and the repetition moves it.
#[test]
fn a_refused_request_that_was_dropped_is_carried_out_when_it_is_sent_again() {
    let history = history();
    let root = history.0.lock().root(0);
    history.0.lock().send(ONE, create(&root));
    history.answer_all().expect("the log takes it");
    {
        let mut state = history.0.lock();
        state.send(ONE, Op::Remove { dir: Arc::clone(&root), name: "a" });
        let rename = Op::Rename { from_dir: Arc::clone(&root), from: "a", to_dir: Arc::clone(&root), to: "b" };
        state.send(OTHER, rename);
        state.hang_up(OTHER);
        state.send(ONE, create(&root));
        assert!(state.has_name("a") && !state.has_name("b"));
        let again = state.repeat(&mut Chance::new(1, 1)).expect("nothing swallows it");
        let again = again.expect("it is a request like any other");
        assert!(matches!(again.op, Op::Rename { .. }));
        state.carry_out(again, &mut Chance::new(1, 1)).expect("it moves what is there now");
        assert!(state.has_name("b") && !state.has_name("a"));
    }
    history.answer_all().expect("the log takes it");
}

/// One that was carried out is answered by what it did, and not done a second time: the name would be there by then.
#[test]
fn a_request_that_was_carried_out_and_dropped_is_answered_when_it_is_sent_again() {
    let history = history();
    let mut state = history.0.lock();
    let dir = state.root(0);
    state.send(OTHER, Op::Mkdir { dir, name: "a" });
    state.hang_up(OTHER);
    assert!(state.repeat(&mut Chance::new(1, 1)).expect("it is answered, and with a success").is_none());
    assert!(state.past.iter().any(|past| past.fate == Fate::Here && past.reply.is_some()));
    assert!(state.has_name("a"));
}
