//! Hosts that are to be told that we have started anew (SM_NOTIFY): they claim again what they had, while others wait for them.
//!
//! A notice goes by UDP, as every host has it, and may be lost: it is sent again, each time twice as long behind, until the host's status monitor has answered or has had its time.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// From the first notice to the second; from each to the next it is twice as long.
const FIRST: Duration = Duration::from_secs(1);
/// Behind so many nobody is told any more: some two minutes.
const NOTICES: u32 = 7;
/// Most hosts that are told.
pub const NOTICES_MAX: usize = super::hosts::HOSTS_MAX;

#[derive(Debug)]
struct Notice {
    due: Duration,
    sent: u32,
    is_under_way: bool,
}

/// Who is still to be told.
#[derive(Debug, Default)]
pub struct Notices {
    hosts: BTreeMap<IpAddr, Notice>,
}

impl Notices {
    /// A host may claim something again.
    pub fn add(&mut self, address: IpAddr, now: Duration) {
        if self.hosts.len() < NOTICES_MAX {
            self.hosts.entry(address).or_insert(Notice { due: now, sent: 0, is_under_way: false });
        }
    }

    /// The next who is to be told.
    pub fn next(&mut self, now: Duration) -> Option<IpAddr> {
        let (address, notice) = self.hosts.iter_mut().find(|(_, notice)| !notice.is_under_way && notice.due <= now)?;
        notice.is_under_way = true;
        Some(*address)
    }

    /// He was, and has said so or nothing.
    pub fn said(&mut self, address: IpAddr, is_heard: bool, now: Duration) {
        let Some(notice) = self.hosts.get_mut(&address) else { return };
        notice.sent += 1;
        if is_heard || notice.sent >= NOTICES {
            self.hosts.remove(&address);
        } else {
            (notice.due, notice.is_under_way) = (now + FIRST * 2_u32.pow(notice.sent - 1), false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_sent_until_it_is_heard_or_its_time_is_over() {
        let (mut notices, address) = (Notices::default(), IpAddr::from([10, 0, 0, 7]));
        let mut now = Duration::from_secs(5);
        notices.add(address, now);
        let mut sent = Vec::new();
        for _ in 0..1000 {
            if let Some(told) = notices.next(now) {
                assert_eq!((told, notices.next(now)), (address, None));
                sent.push(now.as_secs());
                notices.said(told, false, now);
            }
            now += Duration::from_secs(1);
        }
        assert_eq!(sent, [5, 6, 8, 12, 20, 36, 68]);
        notices.add(address, now);
        assert_eq!(notices.next(now), Some(address));
        notices.said(address, true, now);
        assert_eq!(notices.next(now + Duration::from_secs(600)), None);
    }
}
