//! What a client that has a file for writing says of it, where another one looks at its attributes (RFC 8881 §10.4.3 and §20.1; rules V11).
//!
//! Whoever looks has a ticket: an answer counts that comes behind it, be it to a call that was under way by then. So however many look at a moment, the client is called once.

use tally_base::FileTime;

/// What it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Attributes {
    /// As it was when the file was given, if the client has nothing to send.
    pub change: u64,
    /// With what it has not sent.
    pub size: u64,
    /// When it was read and written there, of one that sets these.
    pub accessed: Option<FileTime>,
    pub modified: Option<FileTime>,
}

/// What is known of a file beside that: its change when it was given, and the time that it has got by the last look, which may be one that was to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Noted {
    pub change: u64,
    pub modified: Option<FileTime>,
}

/// One delegation's.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look {
    is_under_way: bool,
    answers: u64,
    said: Option<Attributes>,
    noted_modified: Option<FileTime>,
}

impl Look {
    /// Somebody looks: his ticket, and whether the client is to be called for that.
    pub(super) fn begin(&mut self) -> (u64, bool) {
        (self.answers, !std::mem::replace(&mut self.is_under_way, true))
    }

    /// It could not be called.
    pub(super) fn not_begun(&mut self) {
        self.is_under_way = false;
    }

    /// It was called, and has said this, or nobody knows what.
    pub(super) fn answered(&mut self, said: Option<Attributes>) {
        *self = Self { is_under_way: false, answers: self.answers + 1, said, ..*self };
    }

    /// It is the file's time now.
    pub(super) fn note_modified(&mut self, modified: Option<FileTime>) {
        self.noted_modified = modified;
    }

    pub(super) fn noted_modified(&self) -> Option<FileTime> {
        self.noted_modified
    }

    /// What it has said to who has this ticket; none: nothing by now, or nothing that anybody knows, or it could not be asked.
    pub(super) fn said(&self, ticket: u64) -> Option<Attributes> {
        self.said.filter(|_| self.answers > ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_for_all_who_looked_before_it() {
        let (mut look, said) = (Look::default(), Attributes { change: 1, size: 2, accessed: None, modified: None });
        let (first, is_to_call) = look.begin();
        assert!(is_to_call);
        let (second, is_to_call) = look.begin();
        assert!(!is_to_call && look.said(first).is_none());
        look.answered(Some(said));
        assert_eq!((look.said(first), look.said(second)), (Some(said), Some(said)));
        let (third, is_to_call) = look.begin();
        assert!(is_to_call && look.said(third).is_none());
        look.answered(None);
        assert!(look.said(third).is_none());
        let (fourth, _) = look.begin();
        look.not_begun();
        assert!(look.said(fourth).is_none());
    }
}
