//! Calls to hosts: GRANTED to who waits, and the notice of our start. They go over connections of ours; a thread with sockets runs them, and tells what was heard.
//!
//! *Whose turn it is.* Who waits for a lock is called first, as a program sleeps there; and each fourth time a notice comes first, as long as there is one: behind it somebody claims what he had, which he cannot behind the grace.
//!
//! *Numbers* (N2). A host claims all that it had of us when it is told a number that it does not know, and does nothing on one that it knows. So pools that come have a number of their own, higher than all before, which is drawn, durably, before any of
//! their hosts is told. Such a host claims as well what it has in pools that were never away: that is granted, as it has it.

use std::io;
use std::net::IpAddr;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use bytes::Bytes;

use super::House;
use crate::exports::Exports;
use crate::nlm::notices::Notice;
use crate::nlm::waiting::{Calling, HostWait, Said};
use crate::nlm::wire::{granted, is_taken, notice};
use crate::nlm::{self, nsm, procedure};
use crate::v4::below::{below, is_over};
use crate::v4::state::{ClientKey, FileId};

/// Between two looks for hosts that have nothing any more.
const SWEEP: Duration = Duration::from_secs(10);
/// So often a notice comes before who waits for a lock.
const NOTICE_FIRST: usize = 4;

/// A call to a host.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct HostCall {
    pub to: IpAddr,
    /// From which of our addresses, if that is known.
    pub by: Option<IpAddr>,
    pub program: u32,
    pub version: u32,
    pub procedure: u32,
    /// By a datagram; else over a connection.
    pub is_datagram: bool,
    pub arguments: Bytes,
    purpose: Purpose,
}

#[derive(Clone, Debug)]
enum Purpose {
    Waiter(Calling<FileId>),
    Notice(Notice),
}

#[cfg(test)]
impl HostCall {
    /// Over a connection, and about nobody.
    pub(crate) fn to_for_tests(to: IpAddr, by: Option<IpAddr>) -> Self {
        let (program, version, procedure) = (nlm::PROGRAM, nlm::VERSION, procedure::GRANTED);
        let purpose = Purpose::Notice(Notice { to, state: 1, name: 0 });
        Self {
            to,
            by,
            program,
            version,
            procedure,
            is_datagram: false,
            arguments: Bytes::from_static(b"ask "),
            purpose,
        }
    }
}

/// What was heard of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It was carried out, with these results.
    Results(Bytes),
    /// Nothing, and it may have been carried out.
    Nothing,
    /// It was not, and will not be: there was nobody whom it could reach, or who would have it.
    NotCalled,
}

impl House {
    /// Several times a second: who waits for what is free by now, who claims something again, and who is to be told of our start, by a number that is drawn for that; once in a while, who has nothing any more.
    /// Without that nobody is told for now.
    pub(crate) fn look_after_hosts(&self, exports: &dyn Exports, draw: Option<&dyn Fn() -> io::Result<u32>>) {
        if let Some(draw) = draw {
            self.tell_of_start(exports, draw);
        }
        self.parking.wake_held();
        let files = self.hosts.hosts.lock().waiting.files();
        files.iter().for_each(|file| self.lock_for_hosts(exports, file));
        let now = self.now();
        let mut swept = self.hosts.swept.lock();
        if *swept + SWEEP <= now {
            *swept = now;
            drop(swept);
            self.sweep(exports, now);
        }
    }

    /// Hosts that are in the list of a pool that has come are to be told a number that they do not know.
    fn tell_of_start(&self, exports: &dyn Exports, draw: &dyn Fn() -> io::Result<u32>) {
        let now = self.now();
        let mut came = exports.pools();
        came.retain(|pool| self.tracking.has_hosts_to_notify(&**pool, now));
        if came.is_empty() {
            return;
        }
        let state = match draw() {
            Ok(state) => state,
            Err(error) => {
                if self.hosts.is_to_complain(now) {
                    tracing::error!(%error, "hosts that had locked by NFSv3 cannot be told that the server has started anew, as the number of this start cannot be written down; it is tried again");
                }
                return;
            }
        };
        for pool in came {
            let hosts = self.tracking.take_hosts_to_notify(pool.guid());
            tracing::info!(
                pool = pool.pool_name(),
                hosts = hosts.len(),
                "hosts that had locked by NFSv3 are told that the server has started anew"
            );
            let mut notices = self.hosts.notices.lock();
            hosts.into_iter().for_each(|address| notices.add(address, state, now));
        }
    }

    /// Mounts may be over, and hosts have nothing any more.
    fn sweep(&self, exports: &dyn Exports, now: Duration) {
        let held = {
            let mut hosts = self.hosts.hosts.lock();
            hosts.waiting.forget_silent(now);
            hosts.forget_left(now);
            hosts.held()
        };
        for (holder, file, _) in held {
            let below = below(exports, &file);
            let is_over = below.is_none() && is_over(exports, &file.of);
            let mut hosts = self.hosts.hosts.lock();
            match below {
                Some(below) => hosts.note(holder, file, below.has_ranges(file.object, holder), now),
                None if is_over => hosts.note(holder, file, false, now),
                None => {}
            }
        }
        let mut hosts = self.hosts.hosts.lock();
        hosts.forget_left(now);
        let idle = hosts.end_idle(now);
        // Whoever begins to lock behind this is written down anew.
        idle.iter().for_each(|address| self.tracking.doom(ClientKey::of_host(*address)));
        drop(hosts);
        if !idle.is_empty() {
            self.tracking.let_go_of_doomed();
        }
    }

    /// The next call to a host that is to be made, to whom we have these names.
    pub(crate) fn next_host_call(&self, names: &[Vec<u8>]) -> Option<HostCall> {
        let is_turn_of_notices = self.hosts.calls.fetch_add(1, SeqCst) % NOTICE_FIRST == NOTICE_FIRST - 1;
        if is_turn_of_notices {
            self.next_notice(names).or_else(|| self.next_granted())
        } else {
            self.next_granted().or_else(|| self.next_notice(names))
        }
    }

    fn next_notice(&self, names: &[Vec<u8>]) -> Option<HostCall> {
        let told = self.hosts.notices.lock().next(self.now())?;
        let name = names.get(told.name).map_or(&b""[..], Vec::as_slice);
        Some(HostCall {
            to: told.to,
            by: None,
            program: nsm::PROGRAM,
            version: nsm::VERSION,
            procedure: nsm::NOTIFY,
            is_datagram: true,
            arguments: notice(name, told.state),
            purpose: Purpose::Notice(told),
        })
    }

    fn next_granted(&self) -> Option<HostCall> {
        let mut hosts = self.hosts.hosts.lock();
        let calling = hosts.waiting.next_call(self.now())?;
        // Who has a place has a name.
        let named = hosts.named(calling.wait.holder)?;
        drop(hosts);
        let (wait, cookie) = (&calling.wait, calling.number.to_be_bytes());
        let arguments = granted(&cookie, &named.host, &wait.handle, named.process(), (wait.range, wait.kind));
        Some(HostCall {
            to: named.address,
            by: wait.by,
            program: nlm::PROGRAM,
            version: nlm::VERSION,
            procedure: procedure::GRANTED,
            is_datagram: false,
            arguments,
            purpose: Purpose::Waiter(calling),
        })
    }

    /// What was heard of it, where hosts know us by so many names.
    pub(crate) fn host_call_done(&self, exports: &dyn Exports, call: &HostCall, heard: &Heard, names: usize) {
        match &call.purpose {
            Purpose::Notice(notice) => {
                let is_heard = matches!(heard, Heard::Results(_));
                if self.hosts.notices.lock().said(notice, names, is_heard, self.now()) {
                    tracing::warn!(
                        host = %notice.to,
                        "this host of NFSv3 could not be told that the server has started anew, and is told no more: what it had locked may be others'. \
                         Its port 111 and its status monitor (rpc.statd) are to be open to the server, by UDP"
                    );
                }
            }
            Purpose::Waiter(calling) => {
                let said = match heard {
                    Heard::Results(results) => match is_taken(results) {
                        Some(true) => Said::Takes,
                        Some(false) => Said::Refuses,
                        None => Said::Nothing,
                    },
                    Heard::Nothing => Said::Nothing,
                    Heard::NotCalled => Said::NotCalled,
                };
                self.waiter_said(exports, calling.number, &calling.wait, said);
            }
        }
    }

    fn waiter_said(&self, exports: &dyn Exports, number: u64, wait: &HostWait<FileId>, said: Said) {
        let file = &wait.file;
        let below = below(exports, file);
        if below.is_none() && matches!(said, Said::Refuses | Said::NotCalled) && !is_over(exports, &file.of) {
            // What is to be given up can be only when its dataset is there again, or is known to be gone.
            return self.hosts.hosts.lock().waiting.said_too_early(number, wait, self.now());
        }
        let called = {
            let _alone = self.hosts.singly.begin(*file);
            let called = {
                let mut hosts = self.hosts.hosts.lock();
                let called = hosts.waiting.said(number, wait, said, self.now());
                hosts.forget_left(self.now());
                called
            };
            if let (Some(called), Some(below)) = (&called, &below) {
                self.take_back(below, file, called.wait.lock(), &called.had);
            }
            called
        };
        if called.is_some() {
            self.freed(exports, file, Some(wait.range));
        }
    }

    /// Waits until there is a call to be made, for so long at most.
    pub(crate) fn wait_for_host_call(&self, most: Duration) {
        let mut rung = self.hosts.bell.0.lock();
        if !*rung {
            self.hosts.bell.1.wait_for(&mut rung, most);
        }
        *rung = false;
    }
}
