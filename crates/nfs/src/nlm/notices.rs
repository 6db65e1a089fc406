//! Hosts that are to be told that we have started anew (SM_NOTIFY): they claim again what they had, while others wait for them.
//!
//! A notice goes by UDP, as every host has it, and may be lost: it is sent again, each time twice as long behind, until the host's status monitor has answered or has had its time.
//!
//! Each names a number, and a host does nothing on one that it knows. So where something is to be claimed that was not when it was told, it is told another one ([`Notices::add`]). And each says who we are: a host knows us by the name
//! that it has mounted, be it the long one or the short one, and is told one behind the other.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// From the first notice to the second; from each to the next it is twice as long.
const FIRST: Duration = Duration::from_secs(1);
/// Behind so many nobody is told any more: some two minutes.
const NOTICES: u32 = 7;
/// Most hosts that are told.
pub const NOTICES_MAX: usize = super::hosts::HOSTS_MAX;
/// Most that are told at once: those that do not answer leave threads to those that wait for a lock.
pub const NOTICES_AT_ONCE: usize = 12;

/// What a host is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Notice {
    pub to: IpAddr,
    /// Our number.
    pub state: u32,
    /// Which of our names.
    pub name: usize,
}

#[derive(Debug)]
struct ToTell {
    due: Duration,
    state: u32,
    name: usize,
    sent: u32,
    is_under_way: bool,
}

/// Who is still to be told.
#[derive(Debug, Default)]
pub struct Notices {
    hosts: BTreeMap<IpAddr, ToTell>,
    under_way: usize,
}

impl Notices {
    /// A host may claim something again, and is told this number, which is higher than all before.
    pub fn add(&mut self, address: IpAddr, state: u32, now: Duration) {
        if self.hosts.len() < NOTICES_MAX || self.hosts.contains_key(&address) {
            self.hosts.insert(address, ToTell { due: now, state, name: 0, sent: 0, is_under_way: false });
        }
    }

    /// The next who is to be told: of those that were told less often the one that waits longest, so that hosts that do not answer come behind all that may.
    pub fn next(&mut self, now: Duration) -> Option<Notice> {
        if self.under_way >= NOTICES_AT_ONCE {
            return None;
        }
        let is_due = |host: &ToTell| !host.is_under_way && host.due <= now;
        let due = self.hosts.iter_mut().filter(|(_, host)| is_due(host));
        let (to, host) = due.min_by_key(|(_, host)| (host.sent, host.due))?;
        host.is_under_way = true;
        self.under_way += 1;
        Some(Notice { to: *to, state: host.state, name: host.name })
    }

    /// One was, who knows us by one of so many names, and has said so or nothing. Whether he is told no more, and has not heard it.
    pub fn said(&mut self, notice: &Notice, names: usize, is_heard: bool, now: Duration) -> bool {
        self.under_way = self.under_way.saturating_sub(1);
        // Of one that is to be told something newer by now that is still to come.
        let Some(host) = self.hosts.get_mut(&notice.to).filter(|host| host.state == notice.state) else { return false };
        host.is_under_way = false;
        host.sent += 1;
        if is_heard {
            (host.name, host.sent, host.due) = (host.name + 1, 0, now);
        } else {
            host.due = now + FIRST * 2_u32.pow(host.sent - 1);
        }
        let is_given_up = host.sent >= NOTICES;
        if host.name >= names || is_given_up {
            self.hosts.remove(&notice.to);
        }
        is_given_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: fn(u64) -> Duration = Duration::from_secs;

    fn host(number: u8) -> IpAddr {
        [10, 0, 0, number].into()
    }

    #[test]
    fn a_notice_is_sent_until_it_is_heard_or_its_time_is_over() {
        let (mut notices, to) = (Notices::default(), host(7));
        notices.add(to, 3, AT(5));
        let mut sent = Vec::new();
        for second in 5..1000 {
            if let Some(told) = notices.next(AT(second)) {
                assert_eq!((told, notices.next(AT(second))), (Notice { to, state: 3, name: 0 }, None));
                sent.push(second);
                assert_eq!(notices.said(&told, 1, false, AT(second)), second == 68, "of the last one somebody is told");
            }
        }
        assert_eq!(sent, [5, 6, 8, 12, 20, 36, 68]);
    }

    #[test]
    fn a_host_is_told_each_name() {
        let (mut notices, to) = (Notices::default(), host(7));
        notices.add(to, 3, AT(0));
        for name in [0, 1] {
            let told = notices.next(AT(0)).expect("the next name");
            assert_eq!(told, Notice { to, state: 3, name });
            assert!(!notices.said(&told, 2, true, AT(0)));
        }
        assert_eq!((notices.next(AT(600)), notices.under_way), (None, 0));
    }

    /// It does nothing on a number that it knows, and what it has heard of that says nothing of the next.
    #[test]
    fn a_number_is_told_once_and_a_new_one_whatever_was_heard_of_the_old() {
        let (mut notices, to) = (Notices::default(), host(7));
        notices.add(to, 3, AT(0));
        let old = notices.next(AT(0)).unwrap();
        notices.add(to, 5, AT(1));
        let new = notices.next(AT(1)).expect("it is told beside the old one");
        assert_eq!(new.state, 5);
        notices.said(&old, 1, true, AT(2));
        notices.said(&new, 1, false, AT(2));
        assert_eq!(notices.next(AT(3)), Some(new), "that was not heard");
        notices.said(&new, 1, true, AT(3));
        assert_eq!((notices.next(AT(600)), notices.under_way), (None, 0));
    }

    /// Hosts that are gone have low addresses, and are told again and again before the others were told once.
    #[test]
    fn who_does_not_answer_comes_behind_who_was_not_told() {
        let mut notices = Notices::default();
        (1..=4).for_each(|number| notices.add(host(number), 3, AT(0)));
        let next = |notices: &mut Notices, is_heard| {
            let told = notices.next(AT(9)).expect("somebody is to be told");
            notices.said(&told, 1, is_heard, AT(0));
            told.to
        };
        assert_eq!([false, false, true, true].map(|it| next(&mut notices, it)), [1, 2, 3, 4].map(host));
        assert_eq!([false, false].map(|it| next(&mut notices, it)), [1, 2].map(host), "all are due again");
        notices.add(host(9), 3, AT(8));
        assert_eq!([true, true].map(|it| next(&mut notices, it)), [9, 1].map(host));
    }

    #[test]
    fn no_more_are_told_at_once_than_may_be() {
        let mut notices = Notices::default();
        (0..20).for_each(|number| notices.add(host(number), 3, AT(0)));
        let told: Vec<_> = std::iter::from_fn(|| notices.next(AT(0))).collect();
        assert_eq!(told.len(), NOTICES_AT_ONCE);
        notices.said(&told[0], 1, true, AT(0));
        assert!(notices.next(AT(0)).is_some() && notices.next(AT(0)).is_none());
    }
}
