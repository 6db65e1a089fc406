//! What the log says of clients that come from a port which speaks for nobody: a line, and a minute's silence, however
//! many there are.

use std::time::Duration;

use parking_lot::Mutex;

use crate::link::Link;

/// At most one line in so long, whoever knocks: the log is not theirs to fill.
const SILENCE: Duration = Duration::from_secs(60);

/// When it was said, and how often it would have been since.
#[derive(Default)]
pub(super) struct Strangers(Mutex<(Option<Duration>, u64)>);

impl Strangers {
    /// A request was refused at `now`, under the rule of the dataset with this name.
    pub(super) fn refused(&self, link: &Link, now: Duration, dataset: impl FnOnce() -> Option<String>) {
        let Some(unsaid) = self.speak(now) else { return };
        let peer = link.peer();
        let dataset = dataset().unwrap_or_else(|| "DATASET".into());
        if peer.ip().is_loopback() {
            tracing::warn!(
                %peer, unsaid,
                "refused (AUTH_TOOWEAK): the kernel does not tell which user of this machine has this connection. He may \
                 have closed it; or this process may not ask (AF_NETLINK). A rule with `insecure` believes whatever he says"
            );
            return;
        }
        tracing::warn!(
            %peer, unsaid,
            "refused (AUTH_TOOWEAK): this port is not below 1024, and on other machines every user can have such a one. \
             Mount from a lower one, as root does without noresvport; or, if each user of {ip} may say that he is \
             another, add `insecure` to the options for {ip}: `tally dataset get sharenfs {dataset}` shows the rule, \
             `tally dataset set` changes it",
            ip = peer.ip(),
        );
    }

    /// How many were not told of, if it is time to speak.
    fn speak(&self, now: Duration) -> Option<u64> {
        let mut state = self.0.lock();
        let (last, unsaid) = &mut *state;
        if last.is_some_and(|last| now.saturating_sub(last) < SILENCE) {
            *unsaid += 1;
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_strangers_is_a_line_a_minute() {
        let (strangers, at) = (Strangers::default(), Duration::from_secs);
        assert_eq!(strangers.speak(at(7)), Some(0));
        assert!((8..67).all(|second| strangers.speak(at(second)).is_none()));
        assert_eq!(strangers.speak(at(67)), Some(59));
        assert_eq!(strangers.speak(at(68)), None);
    }
}
