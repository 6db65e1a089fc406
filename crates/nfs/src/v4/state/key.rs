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
    sort: Sort,
    hash: [u8; HASH_BYTES],
}

/// Whose it is, and how its text begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Sort {
    Minor0,
    Sessions,
    /// A host that locks by NLM: what stands for its hash is its address, to which it is told that we have started anew.
    Host,
}

const SORTS: [(&str, Sort); 3] = [("0", Sort::Minor0), ("1", Sort::Sessions), ("n", Sort::Host)];

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
        Self { sort: if is_of_sessions { Sort::Sessions } else { Sort::Minor0 }, hash }
    }

    /// Of a host that locks by NLM, from this address.
    #[must_use]
    pub fn of_host(address: IpAddr) -> Self {
        let address = match address {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        Self { sort: Sort::Host, hash: address.octets() }
    }

    /// The address of such a host.
    #[must_use]
    pub fn host(&self) -> Option<IpAddr> {
        (self.sort == Sort::Host).then(|| IpAddr::V6(self.hash.into()).to_canonical())
    }

    /// Whether it has sessions: then it says when it has claimed all that it had.
    #[must_use]
    pub fn is_of_sessions(&self) -> bool {
        self.sort == Sort::Sessions
    }

    /// From what [`fmt::Display`] makes of one.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (sort, digits) = std::str::from_utf8(text).ok()?.split_once('-')?;
        let sort = SORTS.iter().find(|(text, _)| *text == sort).map(|(_, sort)| *sort)?;
        let is_hex = digits.len() == 2 * HASH_BYTES && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let hash = u128::from_str_radix(digits, 16).ok().filter(|_| is_hex)?.to_be_bytes();
        let key = Self { sort, hash };
        // As it is written, so that a host has one.
        Some(key).filter(|key| key.host().is_none_or(|address| Self::of_host(address) == *key))
    }

    #[cfg(test)]
    pub(in crate::v4) const fn of_sessions_for_tests(number: u8) -> Self {
        Self { sort: Sort::Sessions, hash: [number; HASH_BYTES] }
    }

    #[cfg(test)]
    pub(in crate::v4) const fn of_minor_0_for_tests(number: u8) -> Self {
        Self { sort: Sort::Minor0, hash: [number; HASH_BYTES] }
    }
}

impl fmt::Display for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sort = SORTS.iter().find(|(_, sort)| *sort == self.sort).map_or("", |(text, _)| text);
        write!(f, "{sort}-{:032x}", u128::from_be_bytes(self.hash))
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
            ClientKey::of_host([10, 0, 0, 1].into()),
            ClientKey::of_host("fd00::7".parse().unwrap()),
        ];
        for (at, key) in keys.iter().enumerate() {
            assert_eq!(ClientKey::parse(key.to_string().as_bytes()), Some(*key));
            assert!(keys[..at].iter().all(|other| other != key), "{key}");
        }
        assert_eq!(keys[9].to_string(), "n-00000000000000000000ffff0a000001");
        assert_eq!(
            keys[9..].iter().map(|key| key.host()).collect::<Vec<_>>(),
            [Some([10, 0, 0, 1].into()), "fd00::7".parse().ok()]
        );
        for other in
            ["", ".", "..", "1-", "2-00000000000000000000000000000000", "1-+0000000000000000000000000000000", "1-00"]
        {
            assert_eq!(ClientKey::parse(other.as_bytes()), None, "{other}");
        }
    }
}
