//! `sharenfs` in one line of options, as ZFS has it: hosts stand behind `rw=`, `ro=` and `root=`, with colons between them, and what else is said is said of
//! all of them.
//!
//! ```text
//! rw,no_root_squash                        everybody
//! rw=@10.0.0.0/8:192.0.2.7,ro=@10.9.0.0/16  those of the first two write, and of 10.9.0.0/16 only read
//! ro,rw=@10.0.0.0/8                        everybody reads
//! rw=@10.0.0.0/8,root=@10.0.0.1            of these, one is root
//! rw=[2001:db8::]/32                       an address with colons stands in brackets
//! ```
//!
//! The longest prefix counts, as everywhere here, in whatever order they stand.

use super::options::Said;
use super::seam::Rule;
use super::sharenfs::{Network, ShareError, Written, parse_network};

/// Most hosts in one value, before anything is compared.
const HOSTS_MAX: usize = 256;

/// Reads such a line.
pub(super) fn read(line: &str) -> Result<Written, ShareError> {
    let (mut said, mut given, mut roots) = (Said::nothing(), Vec::new(), Vec::new());
    for option in line.split(',').map(str::trim).filter(|option| !option.is_empty()) {
        match option.split_once('=') {
            Some(("rw", hosts)) => given.extend(networks(hosts)?.into_iter().map(|network| (network, false))),
            Some(("ro", hosts)) => given.extend(networks(hosts)?.into_iter().map(|network| (network, true))),
            Some(("root", hosts)) => roots.extend(networks(hosts)?),
            _ => said.take(option)?,
        }
        if given.len() + roots.len() > HOSTS_MAX {
            return Err(ShareError::TooMany);
        }
    }
    let in_other_words = said.in_other_words || !given.is_empty() || !roots.is_empty();
    let mut written = Written { rules: Vec::new(), in_other_words };
    if given.is_empty() && (roots.is_empty() || said.read_only.is_some()) {
        given.push((Network::All, said.rule(None, line)?.read_only));
    } else if let Some(read_only) = said.read_only {
        given.push((Network::All, read_only));
    }
    let is_root = |network: Network| roots.iter().any(|root| root.holds(network));
    for (network, read_only) in &given {
        written.add(*network, rule(&said, *read_only, is_root(*network), line)?)?;
    }
    // A host of one of these networks has what that has, and is root.
    for root in &roots {
        let around =
            given.iter().filter(|(network, _)| network.holds(*root)).max_by_key(|(network, _)| network.prefix());
        match around {
            Some((network, _)) if network == root => {}
            Some((_, read_only)) => written.add(*root, rule(&said, *read_only, true, line)?)?,
            None if given.iter().any(|(network, _)| root.holds(*network)) => {}
            None => return Err(ShareError::OnlyRoot(root.to_string())),
        }
    }
    Ok(written)
}

fn rule(said: &Said, read_only: bool, is_root: bool, line: &str) -> Result<Rule, ShareError> {
    let mut said = said.clone();
    said.read_only = Some(read_only);
    said.root_squash &= !is_root;
    said.rule(None, line)
}

/// Hosts with colons between them; those within brackets are of an address.
fn networks(hosts: &str) -> Result<Vec<Network>, ShareError> {
    let (mut found, mut in_brackets, mut from) = (Vec::new(), false, 0);
    let mut take = |host: &str| match host.strip_prefix('-') {
        Some(_) => Err(ShareError::NotBuilt(
            host.into(),
            "a host is kept out by a rule of its own for less, or by no rule at all; leave it out",
        )),
        None => parse_network(host).map(|network| found.push(network)),
    };
    for (at, letter) in hosts.char_indices() {
        match letter {
            '[' => in_brackets = true,
            ']' => in_brackets = false,
            ':' if !in_brackets => {
                take(&hosts[from..at])?;
                from = at + 1;
            }
            _ => {}
        }
    }
    take(&hosts[from..])?;
    Ok(found)
}

#[cfg(test)]
mod tests;
