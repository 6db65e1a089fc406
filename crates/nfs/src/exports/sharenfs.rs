//! The grammar of the `sharenfs` property: `off`, `on`, or a list of networks with options as in exports(5).
//!
//! ```text
//! off                                  nobody
//! on                                   everybody, rw and root_squash
//! rw,no_root_squash                    everybody, with these options
//! 10.0.0.0/8(rw) 10.1.2.3(ro) *(ro)    by network; the longest prefix wins, whatever the order
//! ```
//!
//! The options in one line as ZFS has them, `rw=@10.0.0.0/8:10.1.2.3,root=@10.0.0.1` ([`super::zfs_form`]), and words of exports(5) for
//! what is so anyway ([`super::options`]), are taken, and kept in the words above.
//!
//! Each rule says `ro` or `rw`. exports(5) takes `ro` where it says neither; servers that share by a property take `rw`. Whoever
//! wrote the line may have either in mind, and would learn of the other one by lost secrets or by lost work.
//!
//! An IPv4 network may be written as one of IPv6, `::ffff:192.0.2.0/120`. It is the same one then: clients that come by such
//! an address count as what they are.
//!
//! Two networks of equal length cannot overlap without being equal, and an equal one given twice is refused,
//! so the longest prefix is always one rule.

use std::net::{IpAddr, Ipv4Addr};

use super::options::{self, Said};
use super::seam::Rule;
use super::zfs_form;

/// Most networks in one property: a list longer than this is a mistake, and each request walks it.
const RULES_MAX: usize = 256;

/// Why a `sharenfs` value was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShareError {
    /// A host by its name, some by a pattern, or by a group.
    #[error("sharenfs: `{0}` {1}")]
    Named(String, &'static str),
    /// An option that others have.
    #[error("sharenfs: `{0}` cannot be had: {1}")]
    NotBuilt(String, &'static str),
    /// A host that is to be root there, and to which nothing is given.
    #[error("sharenfs: `{0}` stands behind root= and is in no network behind rw= or ro=; give it one of these, too")]
    OnlyRoot(String),
    /// Neither an address nor a network.
    #[error("sharenfs: `{0}` is not an address or network; write 192.0.2.0/24, 2001:db8::/32, a single address or `*`")]
    Network(String),
    /// Not an option we know.
    #[error(
        "sharenfs: unknown option `{0}`; known are ro, rw, root_squash, no_root_squash, all_squash, \
         no_all_squash, anonuid=N, anongid=N, secure, insecure, and what is so anyway: sync, subtree_check, crossmnt, nohide, \
         fsid=N, sec=sys and others"
    )]
    Option(String),
    /// `async` would make the server promise what it does not do.
    #[error(
        "sharenfs: `async` is refused: a server that replies before data is stable loses files in a power cut. \
         If that is wanted, set sync=disabled on the dataset; its exposure is then shown by `tally pool status`"
    )]
    Async,
    /// `anonuid=` or `anongid=` without a number.
    #[error("sharenfs: `{0}` needs a number between 0 and 4294967295")]
    Id(String),
    /// It does not say what it gives.
    #[error(
        "sharenfs: `{0}` says neither ro nor rw; write NETWORK(ro) to let its hosts read, or NETWORK(rw) to let them write \
         too, beside what else stands there"
    )]
    Access(String),
    /// An IPv4 network as one of IPv6, wider than all of IPv4.
    #[error("sharenfs: `{0}` is an IPv4 address with a prefix length of IPv6; write it as {1}")]
    Mapped(String, String),
    /// A bracket is missing.
    #[error("sharenfs: `{0}` has no closing bracket; write NETWORK(option,option)")]
    Bracket(String),
    /// The same network twice.
    #[error("sharenfs: `{0}` stands twice; keep one of them")]
    Twice(String),
    /// More networks than one property may list.
    #[error("sharenfs: more than 256 networks; use fewer and wider ones")]
    TooMany,
    /// Nothing there.
    #[error("sharenfs is empty; write `off` or `on`")]
    Empty,
}

/// A parsed `sharenfs` property.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShareRules {
    /// Longest prefix first.
    rules: Vec<(Network, Rule)>,
}

impl ShareRules {
    /// The rule for `client`; `None` where it has no access.
    #[must_use]
    pub fn rule(&self, client: IpAddr) -> Option<Rule> {
        let client = client.to_canonical();
        self.rules.iter().find(|(network, _)| network.contains(client)).map(|(_, rule)| rule.clone())
    }

    /// Whether nobody has access.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.rules.is_empty()
    }

    /// The networks in words, for MOUNT's EXPORT.
    #[must_use]
    pub fn networks(&self) -> Vec<String> {
        self.rules.iter().map(|(network, _)| network.to_string()).collect()
    }

    /// Each rule as hosts and all their options, the one first that counts where several name a host.
    #[must_use]
    pub fn in_full(&self) -> Vec<(String, String)> {
        self.rules.iter().map(|(network, rule)| (network.bare(), options::spell_in_full(rule))).collect()
    }

    /// Whether a host other than this one has access.
    #[must_use]
    pub fn reaches_other_hosts(&self) -> bool {
        self.rules.iter().any(|(network, _)| !network.is_loopback())
    }
}

/// Parses a `sharenfs` value.
pub fn parse_sharenfs(value: &str) -> Result<ShareRules, ShareError> {
    let Written { mut rules, .. } = written(value)?;
    rules.sort_by_key(|(network, _)| std::cmp::Reverse(network.prefix()));
    Ok(ShareRules { rules })
}

/// The value in the words above, where it has others that mean the same: so it can be kept, and read by a program that does not know those. `None` for
/// one that has no others.
pub fn plain_sharenfs(value: &str) -> Result<Option<String>, ShareError> {
    let Written { rules, in_other_words } = written(value)?;
    Ok(in_other_words.then(|| spell(&rules)))
}

/// Rules, in the words above.
pub(super) fn spell(rules: &[(Network, Rule)]) -> String {
    let part = |(network, rule): &(Network, Rule)| format!("{}({})", network.bare(), options::spell(rule));
    rules.iter().map(part).collect::<Vec<_>>().join(" ")
}

/// A value as it stands there.
pub(super) struct Written {
    /// In its order.
    pub(super) rules: Vec<(Network, Rule)>,
    /// It has words of others for the same: those of ZFS, or of exports(5) for what is so anyway.
    pub(super) in_other_words: bool,
}

impl Written {
    fn nothing() -> Self {
        Self { rules: Vec::new(), in_other_words: false }
    }

    /// One rule more.
    pub(super) fn add(&mut self, network: Network, rule: Rule) -> Result<(), ShareError> {
        if self.rules.iter().any(|(known, _)| *known == network) {
            return Err(ShareError::Twice(network.to_string()));
        }
        if self.rules.len() == RULES_MAX {
            return Err(ShareError::TooMany);
        }
        self.rules.push((network, rule));
        Ok(())
    }
}

fn written(value: &str) -> Result<Written, ShareError> {
    let mut parts = value.split_whitespace().peekable();
    let mut written = Written::nothing();
    match (parts.peek().copied(), value.split_whitespace().count()) {
        (None, _) => return Err(ShareError::Empty),
        (Some("off"), 1) => return Ok(written),
        (Some("on"), 1) => {
            written.add(Network::All, options::default_rule())?;
            return Ok(written);
        }
        (Some(options), 1) if !options.contains('(') && is_options(options) => return zfs_form::read(options),
        _ => {}
    }
    for part in parts {
        let (network, said) = parse_part(part)?;
        written.in_other_words |= said.in_other_words;
        written.add(network, said.rule(None, part)?)?;
    }
    Ok(written)
}

/// Whether a lone word is a list of options rather than a network.
fn is_options(word: &str) -> bool {
    parse_network(word).is_err()
}

fn parse_part(part: &str) -> Result<(Network, Said), ShareError> {
    match part.split_once('(') {
        None => parse_network(part).and_then(|_| Err(ShareError::Access(part.into()))),
        Some((network, rest)) => {
            let options = rest.strip_suffix(')').ok_or_else(|| ShareError::Bracket(part.into()))?;
            Ok((parse_network(network)?, Said::in_list(options)?))
        }
    }
}

/// A set of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Network {
    All,
    V4 { bits: u32, prefix: u8 },
    V6 { bits: u128, prefix: u8 },
}

/// Length of the prefix below which IPv6 has all of IPv4, `::ffff:0:0/96`.
const MAPPED_PREFIX: u8 = 96;

impl Network {
    fn v4(address: Ipv4Addr, prefix: u8) -> Self {
        Self::V4 { bits: address.to_bits() & mask_v4(prefix), prefix }
    }

    /// Without the length of a single address.
    fn bare(self) -> String {
        let text = self.to_string();
        match self {
            Self::V4 { prefix: 32, .. } | Self::V6 { prefix: 128, .. } => {
                text.split('/').next().map(str::to_owned).unwrap_or(text)
            }
            _ => text,
        }
    }

    /// Whether all of another one is in it. Two of them that overlap are one within the other.
    pub(super) fn holds(self, other: Self) -> bool {
        let bits = |network: Self| match network {
            Self::All => None,
            Self::V4 { bits, .. } => Some(IpAddr::V4(Ipv4Addr::from_bits(bits))),
            Self::V6 { bits, .. } => Some(IpAddr::V6(std::net::Ipv6Addr::from_bits(bits))),
        };
        self.prefix() <= other.prefix() && bits(other).map_or(self == Self::All, |address| self.contains(address))
    }

    /// Comparable lengths: an IPv4 network is one of the mapped IPv6 networks, 96 bits longer.
    pub(super) fn prefix(self) -> u8 {
        match self {
            Self::All => 0,
            Self::V4 { prefix, .. } => prefix.saturating_add(97),
            Self::V6 { prefix, .. } => prefix.saturating_add(1),
        }
    }

    fn contains(self, client: IpAddr) -> bool {
        match (self, client) {
            (Self::All, _) => true,
            (Self::V4 { bits, prefix }, IpAddr::V4(client)) => client.to_bits() & mask_v4(prefix) == bits,
            (Self::V6 { bits, prefix }, IpAddr::V6(client)) => client.to_bits() & mask_v6(prefix) == bits,
            _ => false,
        }
    }

    /// Whether it is a network, and neither one host nor everybody.
    pub(super) fn is_of_many(self) -> bool {
        match self {
            Self::All => false,
            Self::V4 { prefix, .. } => prefix < 32,
            Self::V6 { prefix, .. } => prefix < 128,
        }
    }

    fn is_loopback(self) -> bool {
        match self {
            Self::All => false,
            Self::V4 { bits, prefix } => prefix >= 8 && bits >> 24 == 127,
            Self::V6 { bits, prefix } => prefix == 128 && bits == 1,
        }
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::All => f.write_str("*"),
            // As exports(5) has single hosts, and people know them.
            Self::V4 { bits, prefix: 32 } => write!(f, "{}", Ipv4Addr::from_bits(*bits)),
            Self::V6 { bits, prefix: 128 } => write!(f, "{}", std::net::Ipv6Addr::from_bits(*bits)),
            Self::V4 { bits, prefix } => write!(f, "{}/{prefix}", Ipv4Addr::from_bits(*bits)),
            Self::V6 { bits, prefix } => write!(f, "{}/{prefix}", std::net::Ipv6Addr::from_bits(*bits)),
        }
    }
}

/// Reads an address or a network; of what names hosts in another way, says what to write.
pub(super) fn parse_network(text: &str) -> Result<Network, ShareError> {
    parse_addresses(text).map_err(|error| match (error, named(text)) {
        (ShareError::Network(text), Some(why)) => ShareError::Named(text, why),
        (error, _) => error,
    })
}

/// What is to be written instead of a name, if it is one.
fn named(text: &str) -> Option<&'static str> {
    let has_letter = text.contains(|letter: char| letter.is_ascii_alphabetic());
    let is_of = |more: &str| text.chars().all(|letter| letter.is_ascii_alphanumeric() || more.contains(letter));
    if text.starts_with("gss/") {
        return Some("asks for Kerberos, and there is none yet: name the hosts that may");
    }
    match text.strip_prefix('@') {
        Some(_) if has_letter => Some("is a netgroup, and those are not looked up: write the networks of its hosts"),
        Some(_) => None,
        None if has_letter && is_of("-_.*?[]") && text.contains(['*', '?', '[']) => {
            Some("is a pattern for names, and names are not looked up: write the network of those hosts")
        }
        None if has_letter && is_of("-_.") => {
            Some("is a host's name, and names are not looked up: write its address, or its network")
        }
        None => None,
    }
}

fn parse_addresses(text: &str) -> Result<Network, ShareError> {
    let bad = || ShareError::Network(text.into());
    if text == "*" {
        return Ok(Network::All);
    }
    let text = text.strip_prefix('@').unwrap_or(text);
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None if text == "localhost" => ("127.0.0.1", None),
        None => (text, None),
    };
    let length = |most| length.map_or(Ok(most), |length| parse_length(length, most)).map_err(|()| bad());
    match address.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().map_err(|_| bad())? {
        IpAddr::V4(address) => Ok(Network::v4(address, length(32)?)),
        IpAddr::V6(address) => match (address.to_ipv4_mapped(), length(128)?) {
            (Some(address), prefix @ MAPPED_PREFIX..) => Ok(Network::v4(address, prefix - MAPPED_PREFIX)),
            (Some(address), prefix) => Err(ShareError::Mapped(text.into(), format!("{address}/{}", prefix.min(32)))),
            (None, prefix) => Ok(Network::V6 { bits: address.to_bits() & mask_v6(prefix), prefix }),
        },
    }
}

/// A prefix length, or an IPv4 netmask that is one in disguise.
fn parse_length(text: &str, most: u8) -> Result<u8, ()> {
    if let Ok(length) = text.parse::<u8>() {
        return if length <= most { Ok(length) } else { Err(()) };
    }
    let mask = text.parse::<Ipv4Addr>().map_err(|_| ())?.to_bits();
    let length = mask.leading_ones();
    if most == 32 && mask.count_ones() == length { u8::try_from(length).map_err(|_| ()) } else { Err(()) }
}

fn mask_v4(prefix: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0)
}

fn mask_v6(prefix: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0)
}

#[cfg(test)]
mod tests;
