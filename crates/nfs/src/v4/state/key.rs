//! Who a client is, behind its own restarts and those of the server.

use std::fmt;
use std::net::IpAddr;

use super::{Principal, Proof, Sender};

const HASH_BYTES: usize = 16;

/// A client by all that stays of it: its name for ever, whether that is of a client with sessions, and who stands for it. In short, so that it can be
/// the name of a file. Of a host's superuser the address does not count, as it may be another one; whoever shows less has keys of his own, so that by none he has anything to do
/// with what others had (rules V43).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientKey {
    is_of_sessions: bool,
    hash: [u8; HASH_BYTES],
}

impl ClientKey {
    /// Of a client that introduces itself so.
    #[must_use]
    pub fn new(is_of_sessions: bool, name: &[u8], sender: &Sender) -> Self {
        let mut hasher = blake3::Hasher::new();
        // Behind 0 and 1, with which principals begin.
        match sender.proof {
            Proof::Superuser => &mut hasher,
            Proof::User(user) => hasher.update(&[2]).update(&user.to_be_bytes()),
            Proof::Nothing => {
                let address = match sender.address {
                    IpAddr::V4(address) => address.to_ipv6_mapped(),
                    IpAddr::V6(address) => address,
                };
                hasher.update(&[3]).update(&address.octets())
            }
        };
        let of_user = match sender.principal {
            Principal::Nobody => [0; 5],
            Principal::User(uid) => {
                let [a, b, c, d] = uid.to_be_bytes();
                [1, a, b, c, d]
            }
        };
        hasher.update(&of_user).update(name);
        let hash = *hasher.finalize().as_bytes().first_chunk().expect("half of a hash");
        Self { is_of_sessions, hash }
    }

    /// Whether it has sessions: then it says when it has claimed all that it had.
    #[must_use]
    pub fn is_of_sessions(&self) -> bool {
        self.is_of_sessions
    }

    /// From what [`fmt::Display`] makes of one.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (minor, digits) = std::str::from_utf8(text).ok()?.split_once('-')?;
        let is_of_sessions = match minor {
            "0" => false,
            "1" => true,
            _ => return None,
        };
        let is_hex = digits.len() == 2 * HASH_BYTES && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let hash = u128::from_str_radix(digits, 16).ok().filter(|_| is_hex)?.to_be_bytes();
        Some(Self { is_of_sessions, hash })
    }

    #[cfg(test)]
    pub(in crate::v4) const fn of_sessions_for_tests(number: u8) -> Self {
        Self { is_of_sessions: true, hash: [number; HASH_BYTES] }
    }

    #[cfg(test)]
    pub(in crate::v4) const fn of_minor_0_for_tests(number: u8) -> Self {
        Self { is_of_sessions: false, hash: [number; HASH_BYTES] }
    }
}

impl fmt::Display for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:032x}", u8::from(self.is_of_sessions), u128::from_be_bytes(self.hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As it stands in pools.
    #[test]
    fn the_key_of_a_superuser_is_what_it_was() {
        let address = [10, 0, 0, 1].into();
        let root = Sender { principal: Principal::User(0), address, proof: Proof::Superuser, is_named: true };
        let hash = blake3::hash(b"\x01\0\0\0\0Linux NFSv4.1 a").to_hex();
        for (sender, of) in [(root, true), (Sender { address: [10, 0, 0, 2].into(), is_named: false, ..root }, false)] {
            let key = ClientKey::new(of, b"Linux NFSv4.1 a", &sender).to_string();
            assert_eq!(key, format!("{}-{}", u8::from(of), &hash[..32]));
        }
    }

    #[test]
    fn a_key_is_its_name_and_nothing_else_is() {
        let sender =
            |principal, proof, address: [u8; 4]| Sender { principal, proof, address: address.into(), is_named: true };
        let [nobody, root] =
            [Principal::Nobody, Principal::User(0)].map(|principal| sender(principal, Proof::Superuser, [10, 0, 0, 1]));
        let keys = [
            ClientKey::new(true, b"a", &nobody),
            ClientKey::new(false, b"a", &nobody),
            ClientKey::new(true, b"a", &root),
            ClientKey::new(true, b"b", &root),
            ClientKey::new(true, b"a", &sender(Principal::User(0), Proof::Nothing, [10, 0, 0, 1])),
            ClientKey::new(true, b"a", &sender(Principal::User(0), Proof::Nothing, [10, 0, 0, 2])),
            ClientKey::new(true, b"a", &sender(Principal::User(0), Proof::User(5), [10, 0, 0, 1])),
            ClientKey::new(true, b"a", &sender(Principal::User(0), Proof::User(6), [10, 0, 0, 1])),
            ClientKey::of_sessions_for_tests(0),
        ];
        for (at, key) in keys.iter().enumerate() {
            assert_eq!(ClientKey::parse(key.to_string().as_bytes()), Some(*key));
            assert!(keys[..at].iter().all(|other| other != key), "{key}");
        }
        for other in
            ["", ".", "..", "1-", "2-00000000000000000000000000000000", "1-+0000000000000000000000000000000", "1-00"]
        {
            assert_eq!(ClientKey::parse(other.as_bytes()), None, "{other}");
        }
    }
}
