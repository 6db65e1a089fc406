//! A table of exports as exports(5) describes it, /etc/exports: which `sharenfs` says the same of each path, what has none, and what its writer may not have meant.
//!
//! ```text
//! file     = { line }
//! line     = path [ "-" options ] { client } [ "#" comment ] newline
//! client   = hosts [ "(" options ")" ] | "(" options ")"
//! ```
//!
//! A backslash before the end of a line goes on with it. Within double quotes blanks are part of a word, and `\040` is the byte of that number in octal
//! digits, within quotes too. What begins a word with `#` is a comment up to the end of its line.
//!
//! It is read as the kernel's tools read it, with two exceptions. What they drop with a warning is refused here, as whoever typed it wanted something by it.
//! And of a path of which a client is not understood nothing is taken: what is left would give somebody more than was said, as a network that has that client in it
//! may do what the client may not.

use std::collections::{BTreeMap, BTreeSet};

use super::options::Said;
use super::sharenfs::{Network, ShareError, Written, parse_network, spell};

/// Longest path, bytes: what clients may send of one.
const PATH_BYTES_MAX: usize = 1024;

/// What such a file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportsTable {
    /// Its paths, as they come, each once.
    pub exports: Vec<TableExport>,
    /// What is not taken, and what is allowed.
    pub refused: Vec<Remark>,
    /// What is taken, and may not be what was meant.
    pub notes: Vec<Remark>,
}

/// A path, and who may mount it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableExport {
    /// It begins with a slash, and does not end with one unless it is nothing else.
    pub path: String,
    /// The line on which it stands first.
    pub line: usize,
    /// The same as a value of `sharenfs`; nobody, where some of it was refused.
    pub sharenfs: Option<String>,
}

/// Something about a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// Its number, from 1.
    pub line: usize,
    /// What there is to say.
    pub text: String,
}

/// Reads a file.
#[must_use]
pub fn read_exports(file: &[u8]) -> ExportsTable {
    let mut table = Table {
        read: ExportsTable::default(),
        rules: Vec::new(),
        places: BTreeMap::new(),
        refused: BTreeSet::new(),
        is_unread: false,
    };
    let mut letters = Letters { rest: file, line: 1 };
    while let Some(line) = letters.line() {
        if let Err(text) = line.words.and_then(|words| table.take(line.number, &words)) {
            table.is_unread = true;
            let text = format!("{text}. It may be about any path: until it is mended no path is taken");
            table.read.refused.push(Remark { line: line.number, text });
        }
    }
    let Table { mut read, rules, refused, is_unread, .. } = table;
    for (export, written) in read.exports.iter_mut().zip(&rules) {
        let is_whole = !is_unread && !written.rules.is_empty() && !refused.contains(&export.path);
        export.sharenfs = is_whole.then(|| spell(&written.rules));
    }
    read
}

/// What is read so far.
struct Table {
    read: ExportsTable,
    /// Of each path.
    rules: Vec<Written>,
    places: BTreeMap<String, usize>,
    /// Paths of which a client was refused.
    refused: BTreeSet<String>,
    /// A line has no path that could be read.
    is_unread: bool,
}

impl Table {
    /// Takes a line; of what is wrong with all of it the reason.
    fn take(&mut self, line: usize, words: &[Word]) -> Result<(), String> {
        let [path, clients @ ..] = words else { return Ok(()) };
        let path = clean(path)?;
        let text = |word: &Word| {
            String::from_utf8(word.clone())
                .map_err(|_| "a word behind the path is not text; write it in ASCII".to_owned())
        };
        let clients = clients.iter().map(text).collect::<Result<Vec<_>, _>>()?;
        let (unsaid, clients) = match clients.split_first() {
            Some((first, rest)) if first.starts_with('-') => (&first[1..], rest),
            _ => ("", &clients[..]),
        };
        let place = *self.places.entry(path.clone()).or_insert_with(|| {
            self.read.exports.push(TableExport { path: path.clone(), line, sharenfs: None });
            self.rules.push(Written { rules: Vec::new(), in_other_words: false });
            self.rules.len() - 1
        });
        if clients.is_empty() {
            self.note(line, format!("{path} names no client: that is everybody"));
            self.client(line, place, "", unsaid, "");
        }
        for client in clients {
            match split(client) {
                Ok((hosts, options)) => {
                    if hosts.is_empty() {
                        self.note(
                            line,
                            format!(
                                "`{client}` has no client before it, perhaps as a blank stands there: that is everybody"
                            ),
                        );
                    }
                    self.client(line, place, hosts, unsaid, options);
                }
                Err(text) => {
                    self.refused.insert(path.clone());
                    self.read.refused.push(Remark { line, text });
                }
            }
        }
        Ok(())
    }

    /// Takes a client, or says why not.
    fn client(&mut self, line: usize, place: usize, hosts: &str, unsaid: &str, options: &str) {
        let mut refused: Vec<ShareError> = Vec::new();
        let network = match hosts {
            "" => Ok(Network::All),
            // What is a network behind it in `sharenfs` is a netgroup here.
            group if group.starts_with('@') => Err(ShareError::Named(group.into(), NETGROUP)),
            hosts => parse_network(hosts),
        };
        let mut said = Said::nothing();
        for option in unsaid.split(',').chain(options.split(',')).map(str::trim).filter(|option| !option.is_empty()) {
            if let Err(error) = said.take(option) {
                refused.push(error);
            }
            if ["fsid=0", "fsid=root"].contains(&option) {
                self.note(line, format!("{option} makes no root of it: clients of version 4 see all datasets below /, by their pools' names"));
            }
        }
        // Without either word the kernel's tools take `ro`.
        let taken = network.and_then(|network| Ok((network, said.rule(Some(true), hosts)?)));
        match (taken, self.rules.get_mut(place)) {
            (Ok((network, rule)), Some(written)) if refused.is_empty() => {
                let above = written.rules.iter().find(|(known, other)| {
                    known.is_of_many() && network.is_of_many() && known.holds(network) && *other != rule
                });
                if let Some((above, _)) = above {
                    let text = format!(
                        "{hosts} lies in {above}, which stands before it and counts for both where the kernel serves: here the smaller network counts for who is in it"
                    );
                    self.read.notes.push(Remark { line, text });
                }
                refused.extend(written.add(network, rule).err())
            }
            (taken, _) => refused.extend(taken.err()),
        }
        let remark = |error: &ShareError| {
            let text = error.to_string();
            let whose = if hosts.is_empty() { String::new() } else { format!("{hosts}: ") };
            Remark { line, text: whose + text.strip_prefix("sharenfs: ").unwrap_or(&text) }
        };
        let remarks: Vec<Remark> = refused.iter().map(remark).collect();
        if let (false, Some(export)) = (remarks.is_empty(), self.read.exports.get(place)) {
            self.refused.insert(export.path.clone());
        }
        self.read.refused.extend(remarks);
    }

    fn note(&mut self, line: usize, text: String) {
        self.read.notes.push(Remark { line, text });
    }
}

const NETGROUP: &str = "is a netgroup, and those are not looked up: write the networks of its hosts";

/// `hosts(options)`.
fn split(client: &str) -> Result<(&str, &str), String> {
    let Some((hosts, rest)) = client.split_once('(') else { return Ok((client, "")) };
    match rest.strip_suffix(')').filter(|options| !options.contains(['(', ')'])) {
        Some(options) => Ok((hosts, options)),
        None => Err(format!("`{client}` is no client: write HOSTS(OPTION,OPTION), without blanks in between")),
    }
}

/// A path, without what means nothing in it.
fn clean(word: &[u8]) -> Result<String, String> {
    let shown = || String::from_utf8_lossy(word).escape_default().to_string();
    let path =
        std::str::from_utf8(word).map_err(|_| format!("the path `{}` is not text; a dataset's name is", shown()))?;
    if !path.starts_with('/') {
        return Err(format!("`{}` is no path: a line begins with one, from the root on", shown()));
    }
    if path.len() > PATH_BYTES_MAX {
        return Err(format!("the path is longer than {PATH_BYTES_MAX} bytes"));
    }
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
    if names.contains(&"..") {
        return Err(format!("`{}` leads up; write the path without `..`", shown()));
    }
    Ok(format!("/{}", names.join("/")))
}

/// Bytes of a word, without its quotes.
type Word = Vec<u8>;

/// What stands between two ends of lines, or what is wrong with it.
struct Line {
    number: usize,
    words: Result<Vec<Word>, String>,
}

/// What is not read yet.
struct Letters<'a> {
    rest: &'a [u8],
    line: usize,
}

impl Letters<'_> {
    /// The next one; a line that goes on is a blank.
    fn next(&mut self) -> Option<u8> {
        match self.rest {
            [b'\\', b'\n', rest @ ..] => {
                let blanks = rest.iter().take_while(|letter| matches!(letter, b' ' | b'\t')).count();
                self.rest = rest.get(blanks..).unwrap_or_default();
                self.line += 1;
                Some(b' ')
            }
            [letter, rest @ ..] => {
                self.rest = rest;
                self.line += usize::from(*letter == b'\n');
                Some(*letter)
            }
            [] => None,
        }
    }

    /// The words up to the end of the line; nothing at the end of the file.
    fn line(&mut self) -> Option<Line> {
        if self.rest.is_empty() {
            return None;
        }
        let (number, mut words) = (self.line, Vec::new());
        let (mut word, mut is_quoted): (Option<Word>, bool) = (None, false);
        loop {
            match self.next() {
                None | Some(b'\n') if is_quoted => {
                    return Some(Line { number, words: Err("a quote is not closed; close it on its line".into()) });
                }
                None | Some(b'\n') => break,
                Some(b'#') if word.is_none() => {
                    while self.next().is_some_and(|letter| letter != b'\n') {}
                    break;
                }
                Some(b'"') => {
                    is_quoted = !is_quoted;
                    word.get_or_insert_default();
                }
                Some(letter) if letter.is_ascii_whitespace() && !is_quoted => words.extend(word.take()),
                Some(letter) => {
                    let word = word.get_or_insert_default();
                    word.push(letter);
                    unescape(word);
                }
            }
        }
        words.extend(word);
        Some(Line { number, words: Ok(words) })
    }
}

/// Makes the byte of an octal number that has just ended.
fn unescape(word: &mut Word) {
    if let Some([b'\\', digits @ ..]) = word.last_chunk::<4>()
        && matches!(digits, [b'0'..=b'3', b'0'..=b'7', b'0'..=b'7'])
    {
        let byte = digits.iter().fold(0, |byte: u8, digit| byte.wrapping_mul(8).wrapping_add(digit - b'0'));
        word.truncate(word.len() - 4);
        word.push(byte);
    }
}

#[cfg(test)]
mod tests;
