use std::fs;
use std::path::Path;

use clap::{Arg, Command};

use super::{ManArgs, all_commands, shown_below};

/// Pages for people: README, docs/ but for the designs, which tell what was so once, and those of the manual that are written by hand.
fn pages() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let files = |folder: &str| fs::read_dir(root.join(folder)).expect("the folder is there").flatten();
    let docs = files("docs").map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|of| of == "md"));
    let paths = docs.chain(files("packaging/man").map(|entry| entry.path())).chain([root.join("README.md")]);
    paths.map(|path| (path.display().to_string(), fs::read_to_string(&path).expect("a page"))).collect()
}

/// What a page tells somebody to type: lines of its examples, and what stands between backticks.
fn commands(page: &str) -> Vec<&str> {
    let typed = |line: &'_ str| -> Option<usize> {
        let rest = line.strip_prefix("    ")?;
        let rest = rest.strip_prefix("$ ").unwrap_or(rest);
        Some(line.len() - rest.strip_prefix("sudo ").unwrap_or(rest).len())
    };
    let lines = page.lines().filter_map(|line| Some(&line[typed(line)?..]));
    // Two spaces stand before what it does.
    let lines = lines.map(|line| line.split("  ").next().unwrap_or(line));
    let of_manual = page.lines().filter_map(|line| {
        ["Dl", "Ic", "Ql", "Dl sudo"].iter().find_map(|word| line.strip_prefix(&format!(".{word} ")))
    });
    let between = page.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    lines.chain(of_manual).chain(between).filter(|text| text.starts_with("tally ")).collect()
}

fn said(command: &Command) -> &str {
    command.get_bin_name().unwrap_or_else(|| command.get_name())
}

/// Why there is no such command, if there is none.
fn unknown(root: &Command, line: &str) -> Option<String> {
    let mut command = root;
    for word in line.split_whitespace().skip(1) {
        if ["|", "&&", "||", ">", "#", "&"].contains(&word) || word.ends_with(';') {
            break;
        }
        let word = word.trim_matches(['[', ']', ',', '.', ')']);
        if let Some(name) = word.strip_prefix("--") {
            let name = name.split('=').next().unwrap_or(name);
            let is_so = |arg: &&Arg| arg.get_long_and_visible_aliases().is_some_and(|names| names.contains(&name));
            if !name.is_empty() && name != "help" && !command.get_arguments().any(|arg| is_so(&arg)) {
                return Some(format!("--{name} is no flag of `{}`", said(command)));
            }
        } else if let Some(letters) = word.strip_prefix('-').filter(|word| !word.is_empty()) {
            for letter in letters.chars() {
                let is_so = |arg: &&Arg| arg.get_short_and_visible_aliases().is_some_and(|all| all.contains(&letter));
                match command.get_arguments().find(is_so) {
                    Some(arg) if arg.get_action().takes_values() => break,
                    Some(_) => {}
                    None => return Some(format!("-{letter} is no flag of `{}`", said(command))),
                }
            }
        } else if let Some(below) = command.find_subcommand(word) {
            command = below;
        } else if command.get_subcommands().next().is_some() && command.get_positionals().next().is_none() {
            let is_placeholder = !word.starts_with(|letter: char| letter.is_ascii_lowercase()) || word.contains('|');
            return (!is_placeholder).then(|| format!("`{}` has no {word}", said(command)));
        }
    }
    None
}

#[test]
fn what_pages_tell_people_to_type_there_is() {
    let root = all_commands();
    let (mut count, mut wrong) = (0, Vec::new());
    for (path, page) in pages() {
        for line in commands(&page) {
            count += 1;
            wrong.extend(unknown(&root, line).map(|why| format!("{path}: {line}: {why}")));
        }
    }
    assert!(count > 150, "{count} commands");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let told = |line: &str| unknown(&root, line).unwrap_or_default();
    assert_eq!(told("tally pool create --file-size 1G -f tank x"), "");
    assert_eq!(told("tally pool make tank"), "`tally pool` has no make");
    assert_eq!(told("tally pool list --wide"), "--wide is no flag of `tally pool list`");
}

/// As `man` would look for them.
#[test]
fn each_command_has_its_page_and_no_page_leads_to_none() {
    let dir = tempfile::tempdir().expect("a folder");
    ManArgs { dir: dir.path().into() }.write().expect("pages");
    let by_hand = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/man");
    let is_there = |page: &str| dir.path().join(page).exists() || by_hand.join(page).exists();
    let (mut commands, mut count) = (vec![all_commands()], 0);
    while let Some(command) = commands.pop() {
        count += 1;
        let name = command.get_display_name().unwrap_or_else(|| command.get_name());
        let page =
            fs::read_to_string(dir.path().join(format!("{name}.8"))).unwrap_or_else(|error| panic!("{name}: {error}"));
        let page = page.replace("\\fB", "").replace("\\fR", "").replace('\\', "");
        for (at, _) in page.match_indices("tally") {
            let word =
                page[at..].split(|letter: char| !letter.is_ascii_alphanumeric() && !"-()".contains(letter)).next();
            let Some((other, section)) = word.and_then(|word| word.split_once('(')) else { continue };
            let other = format!("{other}.{}", section.trim_end_matches(')'));
            assert!(is_there(&other), "{name}(8) leads to {other}");
        }
        commands.extend(shown_below(&command).cloned());
    }
    assert_eq!(fs::read_dir(dir.path()).expect("pages").count(), count + 1, "and that of metrics");
}
