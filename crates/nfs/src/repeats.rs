//! Whether a request was here before: asked once its targets are found, or a compound has entered an export, and before anything is changed (rules F12).
//!
//! Who gets no target gets nobody's answer either, and leaves nothing behind. What the server remembers itself is in [`crate::replies`]; what the pool
//! remembers across a crash is asked for here, and answers only whom it was for ([`crate::senders`]).

use std::cell::Cell;

use tally_vfs::{RememberedReply, ReplyKey, Vfs};

use crate::link::Link;
use crate::rpc::Reply;
use crate::senders::Senders;

/// Tells whether a request was here before, from whom it names, or from this user.
pub type Begin<'a> = dyn Fn(Option<u32>) -> Result<Memo, Repeated> + 'a;

/// What is known of a request that is carried out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memo {
    /// Under which key the file system remembers the answer.
    pub key: Option<ReplyKey>,
    /// Whether only an answer of its own sender counts: it was carried out already, or runs beside another connection's.
    pub is_own: bool,
}

/// Why a request is not carried out.
#[derive(Clone, Debug)]
pub enum Repeated {
    /// It was, and this was the answer.
    Answered(Reply),
    /// It is being carried out; its answer will go to this connection too.
    UnderWay,
}

/// What a client is told, as far as that says whether it comes again, and whether it is told the same then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// All that it asked for was done.
    Ok,
    /// Something was not.
    Failed,
    /// Nothing was done, and it is to come again.
    ComeAgain,
    /// Something of ours broke.
    Fault,
}

/// Asks for one request.
pub struct Repeats<'a> {
    begin: &'a Begin<'a>,
    /// Who else has sent something.
    senders: &'a Senders,
    link: &'a Link,
    memo: Cell<Option<Memo>>,
}

impl<'a> Repeats<'a> {
    /// For the one that came on this connection.
    pub(crate) fn new(begin: &'a Begin<'a>, senders: &'a Senders, link: &'a Link) -> Self {
        Self { begin, senders, link, memo: Cell::new(None) }
    }

    /// Asks, the first time.
    pub(crate) fn begin(&self, user: Option<u32>) -> Result<(), Repeated> {
        if self.memo.get().is_none() {
            self.memo.set(Some((self.begin)(user)?));
        }
        Ok(())
    }

    /// Under which key the pool remembers the answer of this request, or of its operation with that number.
    pub(crate) fn key(&self, operation: Option<u32>) -> Option<ReplyKey> {
        let key = self.memo.get()?.key?;
        Some(operation.map_or(key, |nth| key.of_operation(nth)))
    }

    /// The first answer under such a key, given before a crash or a broken connection.
    pub(crate) fn remembered(&self, vfs: &dyn Vfs, operation: Option<u32>) -> Option<RememberedReply> {
        let key = &self.key(operation)?;
        let is_own_number = |number| number == key.number() || self.senders.is(self.link, number);
        let own = vfs.remembered_of(key, &is_own_number);
        // What was answered on another connection that lives is another request.
        let of_the_dead = || vfs.remembered_of(key, &|number| !self.senders.is_alive(number));
        if self.memo.get().is_some_and(|memo| memo.is_own) { own } else { own.or_else(of_the_dead) }
    }
}
