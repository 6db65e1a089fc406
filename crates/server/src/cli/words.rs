//! Words of the command line that mean the same in several commands.

use std::path::{Path, PathBuf};

use tally_members::grammar::is_word;

use crate::control::message::Assignment;

/// Reads `property=value`; for clap.
pub(super) fn assignment(text: &str) -> Result<Assignment, String> {
    let (property, value) = text.split_once('=').ok_or("write property=value")?;
    if property.is_empty() {
        return Err("write property=value".into());
    }
    Ok(Assignment { property: property.into(), value: value.into() })
}

/// What is said to whoever wants a volume.
pub(super) const NO_VOLUMES: &str =
    "there are no volumes, only file systems; make one without -V, -s and -b, and in it a file of that size";

/// Reads what `zpool import -o` says; for clap.
pub(super) fn import_option(text: &str) -> Result<bool, String> {
    match text {
        "readonly=on" => Ok(true),
        "readonly=off" => Ok(false),
        _ => Err("a pool is imported with readonly=on or readonly=off; set what else it is to have behind that, with `tally pool set`".into()),
    }
}

/// Splits a list of properties, whose names may be short ones; `all` asks for every one, which is the empty list.
pub(super) fn property_list(text: &str, whole: fn(&str) -> &str) -> Vec<String> {
    let names: Vec<String> = text.split(',').filter(|name| !name.is_empty()).map(|name| whole(name).into()).collect();
    if names.iter().any(|name| name == "all") { Vec::new() } else { names }
}

/// Makes paths of a vdev list absolute, and leaves its grammar to the daemon.
pub(super) fn vdev_words(words: &[String], here: &Path) -> Vec<String> {
    let word = |word: &String| {
        if is_word(word) { word.clone() } else { device(word, here).to_string_lossy().into_owned() }
    };
    words.iter().map(word).collect()
}

/// The absolute path of a device or file. A bare name that is nothing here is looked for in /dev, as `zpool` does.
pub(super) fn device(word: &str, here: &Path) -> PathBuf {
    let path = here.join(word);
    let in_dev = Path::new("/dev").join(word);
    if !word.contains('/') && !path.exists() && in_dev.exists() { in_dev } else { path }
}

/// How a command names a disk that a pool has: by path, or by the name that `status` shows (`mirror-0`, a guid).
pub(super) fn existing_device(word: &str, here: &Path) -> String {
    let path = device(word, here);
    if word.contains('/') || path.exists() { path.to_string_lossy().into_owned() } else { word.to_owned() }
}

/// Reads `property=value... NAME`, the word order of `zfs set`.
pub(super) fn assignments_then_name(words: &[String]) -> Result<(String, Vec<Assignment>), String> {
    let Some((name, assignments)) = words.split_last().filter(|(_, rest)| !rest.is_empty()) else {
        return Err("write property=value and then the name".into());
    };
    let read = |word: &String| assignment(word).map_err(|error| format!("'{word}': {error}"));
    Ok((name.clone(), assignments.iter().map(read).collect::<Result<_, _>>()?))
}

/// A time of so many nanoseconds, in three digits and a unit.
pub(super) fn duration(ns: u64) -> String {
    #[allow(clippy::cast_precision_loss)]
    let value = ns as f64;
    let (scaled, unit) = match ns {
        0..1_000 => return format!("{ns}ns"),
        1_000..1_000_000 => (value / 1e3, "us"),
        1_000_000..1_000_000_000 => (value / 1e6, "ms"),
        _ => (value / 1e9, "s"),
    };
    let decimals = if scaled < 10.0 { 2 } else { usize::from(scaled < 100.0) };
    format!("{scaled:.decimals$}{unit}")
}

/// What others chose, without what a terminal would obey.
pub(super) fn harmless(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::short_names;

    #[test]
    fn durations_have_three_digits() {
        let cases = [(999, "999ns"), (1_234, "1.23us"), (45_678, "45.7us"), (456_789, "457us"), (8_000_000, "8.00ms")];
        for (ns, text) in cases {
            assert_eq!(duration(ns), text);
        }
    }

    #[test]
    fn vdev_paths_become_absolute_and_its_words_stay() {
        let words = ["mirror", "a.img", "/x/b.img", "log", "null", "raidz2", "./raidz2"].map(str::to_owned);
        let here = Path::new("/somewhere");
        // `raidz2` was made a path, and the answer was that there is no such file.
        let expected = ["mirror", "/somewhere/a.img", "/x/b.img", "log", "/dev/null", "raidz2", "/somewhere/./raidz2"];
        assert_eq!(vdev_words(&words, here), expected);
    }

    #[test]
    fn lists_and_assignments() {
        assert_eq!(property_list("sync,refer", short_names::of_dataset), ["sync", "referenced"]);
        assert!(property_list("sync,all", short_names::of_dataset).is_empty());
        let sharenfs = assignment("sharenfs=10.0.0.0/8(rw,anonuid=7)").unwrap();
        assert_eq!((sharenfs.property.as_str(), sharenfs.value.as_str()), ("sharenfs", "10.0.0.0/8(rw,anonuid=7)"));
        assert!(assignment("sync").is_err() && assignment("=x").is_err());
    }
}
