//! docs/rules.md and the tree hold each other: a rule that is cited stands there, a rule that stands there is cited by
//! the code that it names, and has a test that is there. A number without its scenario is a riddle, and a rule
//! that nobody cites is not kept for long.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What begins a rule's number.
const SERIES: [char; 5] = ['F', 'P', 'I', 'S', 'N'];

/// What begins one that is cited as `rules V1`: by itself it may be an address.
const SPELT_OUT: char = 'V';

/// What looks like a rule and is a percentile, as a column's head or in a sentence.
const PERCENTILES: [&str; 4] = ["P50", "P90", "P95", "P99"];

/// Folders in which rules are cited.
const CITING: [&str; 5] = ["crates", "docs", "xtask", "fuzz/targets", "packaging"];

struct Rule {
    code: Vec<String>,
    tests: Vec<(String, String)>,
}

#[test]
fn every_rule_that_is_cited_stands_in_the_book() {
    let rules = rules();
    for (file, text) in cited_from() {
        for number in citations(&text) {
            assert!(rules.contains_key(&number), "{file} cites {number}, which docs/rules.md does not have");
        }
    }
}

#[test]
fn every_rule_is_cited_by_the_code_that_keeps_it() {
    for (number, rule) in rules() {
        assert!(!rule.code.is_empty(), "docs/rules.md names no code for {number}");
        for file in &rule.code {
            let text = read(file).unwrap_or_else(|| panic!("{number}: there is no {file}"));
            assert!(citations(&text).contains(&number), "{file} should keep {number} and does not cite it");
        }
    }
}

#[test]
fn every_rule_has_a_test_that_is_there() {
    for (number, rule) in rules() {
        assert!(!rule.tests.is_empty(), "docs/rules.md names no test for {number}");
        for (file, test) in &rule.tests {
            let text = read(file).unwrap_or_else(|| panic!("{number}: there is no {file}"));
            // A planted bug is a test by itself: the simulator has to catch it.
            let is_there = file.ends_with(".patch") || text.contains(&format!("fn {test}("));
            assert!(is_there, "{number}: {file} has no {test}");
        }
    }
}

/// The book: a rule is a heading `### F1. …`, and has a line `Code:` and a line `Tests:`, each a list that may go on
/// over several lines up to an empty one. Tests stand behind their file: `` `file`: `test`, `test`; `file`: … ``.
fn rules() -> BTreeMap<String, Rule> {
    let book = read("docs/rules.md").expect("the book of rules");
    let mut rules = BTreeMap::new();
    for section in book.split("\n### ").skip(1) {
        let number = section.split('.').next().expect("a heading").to_owned();
        assert_eq!(
            citations(&number).into_iter().collect::<Vec<_>>(),
            std::slice::from_ref(&number),
            "a heading that is no rule"
        );
        let list = |name: &str| {
            let from = section.find(&format!("\n{name}:")).map(|at| &section[at + name.len() + 2..]);
            from.map_or(String::new(), |text| text.split("\n\n").next().unwrap_or_default().to_owned())
        };
        let code = quoted(&list("Code"));
        let tests = list("Tests").split(';').flat_map(tests_of_one_file).collect();
        assert!(rules.insert(number.clone(), Rule { code, tests }).is_none(), "{number} stands there twice");
    }
    rules
}

fn tests_of_one_file(text: &str) -> Vec<(String, String)> {
    let mut words = quoted(text).into_iter();
    let Some(file) = words.next() else { return Vec::new() };
    words.map(|test| (file.clone(), test)).collect()
}

fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Words of a series' letter and a number, with nothing but a border on either side.
fn citations(text: &str) -> BTreeSet<String> {
    let is_word = |byte: &char| byte.is_ascii_alphanumeric() || *byte == '_';
    let words = text.split(|letter| !is_word(&letter)).filter(|word| (2..=3).contains(&word.len()));
    let numbered = words.filter(|word| word.starts_with(SERIES) && word[1..].bytes().all(|byte| byte.is_ascii_digit()));
    let cited = numbered.filter(|word| !PERCENTILES.contains(word)).map(str::to_owned);
    cited.chain(spelt_out(text)).collect()
}

/// Those behind "rules", up to the first word that is none and joins none; and a number alone.
fn spelt_out(text: &str) -> Vec<String> {
    let is_rule = |word: &str| {
        word.strip_prefix(SPELT_OUT).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    };
    if is_rule(text) {
        return vec![text.to_owned()];
    }
    let behind = text.split("ules ").skip(1);
    let cited = behind.flat_map(|rest| {
        let words = rest.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        words.take_while(|word| is_rule(word) || ["and", "to"].contains(word))
    });
    cited.filter(|word| is_rule(word)).map(str::to_owned).collect()
}

fn cited_from() -> Vec<(String, String)> {
    let mut files = Vec::new();
    for folder in CITING {
        collect(&root().join(folder), &mut files);
    }
    files.extend(["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "CHANGELOG.md"].map(|name| root().join(name)));
    let name = |path: &Path| path.strip_prefix(root()).expect("below the root").display().to_string();
    files.iter().map(|path| (name(path), std::fs::read_to_string(path).expect("text"))).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of the tree") {
        let path = entry.expect("an entry").path();
        let kind = path.extension().and_then(|extension| extension.to_str());
        if path.is_dir() {
            collect(&path, files);
        } else if matches!(kind, Some("rs" | "md" | "patch" | "sh")) {
            files.push(path);
        }
    }
}

fn read(file: &str) -> Option<String> {
    std::fs::read_to_string(root().join(file)).ok()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").to_owned()
}
