//! What clients of version 4 were told, and may name again: ids and stateids are drawn by the server, so no input has them in it.
//!
//! In an input stands a word instead, as long as what it is for, at a multiple of four bytes: `#client0`, `#verify0`, `#stateid___0` (what stands
//! behind its sequence number) and `#session_______0`. Its last byte tells which one, from the newest back.

use tally_wire::decode;
use tally_wire::nfs4::{
    Close4Res, Compound4Res, CreateSession4Res, ExchangeId4Res, Lock4Res, Locku4Res, NfsResop4, Open4Res,
    OpenConfirm4Res, OpenDelegation4, OpenDowngrade4Res, Setclientid4Res, Stateid4,
};

/// The newest of each, last.
#[derive(Default)]
pub(crate) struct Told {
    clients: Vec<[u8; 8]>,
    verifiers: Vec<[u8; 8]>,
    sessions: Vec<[u8; 16]>,
    stateids: Vec<[u8; 12]>,
}

impl Told {
    /// Notes what was told, which has to be as the RFCs have it.
    pub(crate) fn learn(&mut self, results: &[u8]) -> Compound4Res {
        let reply: Compound4Res = decode(results).unwrap_or_else(|error| panic!("{error:?} in {results:x?}"));
        for result in reply.resarray.iter() {
            self.note(result);
        }
        reply
    }

    fn note(&mut self, result: &NfsResop4) {
        match result {
            NfsResop4::OpSetclientid(Setclientid4Res::Nfs4Ok(ok)) => {
                self.clients.push(ok.clientid.to_be_bytes());
                self.verifiers.push(ok.setclientid_confirm);
            }
            NfsResop4::OpExchangeId(ExchangeId4Res::Nfs4Ok(ok)) => self.clients.push(ok.eir_clientid.to_be_bytes()),
            NfsResop4::OpCreateSession(CreateSession4Res::Nfs4Ok(ok)) => self.sessions.push(ok.csr_sessionid),
            result => self.stateids.extend(stateids(result).into_iter().map(|stateid| stateid.other)),
        }
    }

    /// Puts into an input what stands for words of it.
    pub(crate) fn fill_in(&self, input: &mut [u8]) {
        for at in (0..input.len()).step_by(4) {
            let here = &mut input[at..];
            fill(here, b"#client", &self.clients);
            fill(here, b"#verify", &self.verifiers);
            fill(here, b"#session_______", &self.sessions);
            fill(here, b"#stateid___", &self.stateids);
        }
    }
}

fn fill<const N: usize>(here: &mut [u8], word: &[u8], told: &[[u8; N]]) {
    if let Some(place) = here.get_mut(..N).filter(|place| place.starts_with(word)) {
        let back = usize::from(place[N - 1].wrapping_sub(b'0'));
        if let Some(known) = told.iter().rev().nth(back) {
            place.copy_from_slice(known);
        }
    }
}

/// The stateids that a result tells.
pub(crate) fn stateids(result: &NfsResop4) -> Vec<&Stateid4> {
    match result {
        NfsResop4::OpOpen(Open4Res::Nfs4Ok(ok)) => {
            let kept = match &ok.delegation {
                OpenDelegation4::OpenDelegateRead(read) => Some(&read.stateid),
                OpenDelegation4::OpenDelegateWrite(write) => Some(&write.stateid),
                _ => None,
            };
            [Some(&ok.stateid), kept].into_iter().flatten().collect()
        }
        NfsResop4::OpOpenConfirm(OpenConfirm4Res::Nfs4Ok(ok)) => vec![&ok.open_stateid],
        NfsResop4::OpOpenDowngrade(OpenDowngrade4Res::Nfs4Ok(ok)) => vec![&ok.open_stateid],
        NfsResop4::OpClose(Close4Res::Nfs4Ok(stateid)) => vec![stateid],
        NfsResop4::OpLock(Lock4Res::Nfs4Ok(ok)) => vec![&ok.lock_stateid],
        NfsResop4::OpLocku(Locku4Res::Nfs4Ok(stateid)) => vec![stateid],
        _ => Vec::new(),
    }
}
