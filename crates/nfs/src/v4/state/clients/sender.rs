//! Whose word on clients counts: who a connection shows that he is (rules V43).
//!
//! AUTH_SYS says what its sender likes, and what a client is called is no secret: it is the name of its machine. So with what is said goes what is shown of it, as `secure`
//! asks for ([`crate::local`]), and who shows less than another one ends nothing of his, and says nothing for him.
//!
//! ```text
//!  what a connection shows      │ of whom its word is taken
//!  ─────────────────────────────┼────────────────────────────────────────────────────────────────────────────────────────────
//!  the superuser of a host that │ what such a one has introduced on any host, as a host's address changes and it may have several;
//!  a rule names                 │ and he comes in the place of whoever shows less and has his client's name
//!  of one that none names (now) │ what a superuser has introduced at this address: rules come and go with their pools
//!  a user of this machine       │ what he has introduced
//!  nothing (a port that anybody │ what somebody with no more to show has introduced at this address
//!  may have)                    │
//! ```
//!
//! That a connection is named by a session's id proves more than all of this: half of that is a draw. So SEQUENCE, BIND_CONN_TO_SESSION and DESTROY_SESSION ask for nothing else.

use std::net::IpAddr;

use super::Principal;

/// What a connection shows of who sends over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// By its port, or by the kernel of this machine: its host's superuser.
    Superuser,
    /// By the kernel of this machine: this user of it.
    User(u32),
    /// Nothing.
    Nothing,
}

/// Who speaks of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// Whom his credential names.
    pub principal: Principal,
    /// From where he comes.
    pub address: IpAddr,
    /// What his connection shows.
    pub proof: Proof,
    /// Whether a rule of any dataset names his host.
    pub is_named: bool,
}

impl Sender {
    /// Whether his word is that of the one who introduced a client.
    pub fn speaks_for(&self, known: &Self) -> bool {
        match (self.proof, known.proof) {
            (Proof::User(user), Proof::User(known)) => user == known,
            (Proof::Superuser, Proof::Superuser) if self.is_named && known.is_named => true,
            (Proof::Superuser, Proof::Superuser) | (Proof::Nothing, Proof::Nothing) => self.address == known.address,
            _ => false,
        }
    }

    /// The same in minor version 0, where a client is named by its id alone in all that it asks for, and goes on from another address.
    pub fn goes_on_for(&self, known: &Self) -> bool {
        self.speaks_for(known) || (self.proof, known.proof) == (Proof::Nothing, Proof::Nothing)
    }

    /// Whether it is that one, by name as well.
    pub fn is(&self, known: &Self) -> bool {
        self.principal == known.principal && self.speaks_for(known)
    }

    /// Whether he is believed what the other one is not.
    pub fn outranks(&self, other: &Self) -> bool {
        self.is_believed() && !other.is_believed()
    }

    /// Whether he is the superuser of a host that may have something here.
    fn is_believed(&self) -> bool {
        self.proof == Proof::Superuser && self.is_named
    }

    /// Whether nobody else comes by his [`ClientKey`](super::ClientKey). Superusers of all hosts may have one, as an address may change and a rule be unknown for a while.
    pub fn has_own_key(&self) -> bool {
        self.proof != Proof::Superuser || self.is_named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINCIPAL: Principal = Principal::User(0);

    fn sender(address: u8, proof: Proof, is_named: bool) -> Sender {
        Sender { principal: PRINCIPAL, address: [10, 0, 0, address].into(), proof, is_named }
    }

    /// The table: of each of them, for whom he speaks and whom he outranks.
    #[test]
    fn whose_word_counts() {
        use Proof::{Nothing, Superuser, User};
        let all = [
            sender(1, Superuser, true),
            sender(2, Superuser, true),
            sender(1, Superuser, false),
            sender(2, Superuser, false),
            sender(1, User(5), false),
            sender(1, User(6), true),
            sender(2, User(5), true),
            sender(1, Nothing, true),
            sender(2, Nothing, false),
        ];
        let speaks: [&[usize]; 9] = [&[0, 1, 2], &[0, 1, 3], &[0, 2], &[1, 3], &[4, 6], &[5], &[4, 6], &[7], &[8]];
        for (at, sender) in all.iter().enumerate() {
            let found: Vec<_> = (0..all.len()).filter(|of| sender.speaks_for(&all[*of])).collect();
            assert_eq!(found, speaks[at], "{sender:?}");
            let below: Vec<_> = (0..all.len()).filter(|of| sender.outranks(&all[*of])).collect();
            assert_eq!(below, if at < 2 { (2..9).collect() } else { Vec::new() }, "{sender:?}");
            let other = Sender { principal: Principal::Nobody, ..*sender };
            assert!(sender.is(sender) && !other.is(sender) && other.speaks_for(sender), "{sender:?}");
            let goes_on = |known: &&Sender| sender.goes_on_for(known) && !sender.speaks_for(known);
            let elsewhere = all.iter().filter(goes_on).count();
            assert_eq!(elsewhere, usize::from(sender.proof == Nothing), "{sender:?}");
        }
    }
}
