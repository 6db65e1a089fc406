//! What lies in packaging/ and the rest of the tree agree: versions, and the metrics of which the alerts and the dashboard ask.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

/// What Prometheus and its client libraries add to the labels of a metric.
const EVERYWHERE: [&str; 3] = ["instance", "job", "le"];
/// What a histogram's series are called behind its name.
const OF_HISTOGRAM: [&str; 3] = ["_bucket", "_sum", "_count"];
/// What begins a metric of ours.
const OURS: [&str; 2] = ["tally_", "process_"];

#[test]
fn one_version_everywhere() {
    let version = env!("CARGO_PKG_VERSION");
    let has = |file: &str, line: &str| {
        let is_there = read(file).lines().any(|is| is == line || is.starts_with(&format!("{line} ")));
        assert!(is_there, "{file} has no line {line:?}: its version is another one than Cargo.toml's");
    };
    assert!(read("packaging/debian/changelog").starts_with(&format!("tallystick ({version}) ")), "debian/changelog");
    has("CHANGELOG.md", &format!("## {version}"));
    let pages = std::fs::read_dir(root().join("packaging/man")).expect("pages of the manual");
    for page in pages {
        let name = page.expect("a page").file_name().into_string().expect("a page's name");
        has(&format!("packaging/man/{name}"), &format!(".Os Tallystick {version}"));
    }
}

/// A service that is over when its program is has no limit by itself: those that begin behind it wait, for ever if need be.
#[test]
fn what_others_wait_for_has_an_end() {
    let units =
        std::fs::read_dir(root().join("packaging")).expect("packaging").map(|file| file.expect("a file").file_name());
    let units: Vec<_> =
        units.map(|name| format!("packaging/{}", name.display())).filter(|file| file.ends_with(".service")).collect();
    let has = |unit: &str, word: &str| read(unit).lines().any(|line| line.starts_with(word));
    let waited_for = |unit: &&String| has(unit, "Type=oneshot") && has(unit, "Before=");
    let waited_for: Vec<_> = units.iter().filter(waited_for).collect();
    assert_eq!(waited_for.len(), 2, "{waited_for:?}");
    assert!(waited_for.iter().all(|unit| has(unit, "TimeoutStartSec=")), "{waited_for:?}");
}

/// A question about what there is not is answered by an empty panel, and an alert about it never comes.
#[test]
fn what_is_asked_of_prometheus_is_there() {
    let metrics = metrics();
    let questions = questions();
    assert!(questions.len() > 30, "{} questions", questions.len());
    for question in questions {
        let names: Vec<_> = words(&question).filter(|word| OURS.iter().any(|ours| word.starts_with(ours))).collect();
        assert!(!names.is_empty() || question.starts_with("up{"), "{question} asks of nothing of ours");
        let known: Vec<_> = names.iter().map(|name| labels(&metrics, name, &question)).collect();
        let asked = matched(&question).chain(grouped(&question)).filter(|label| !EVERYWHERE.contains(label));
        for label in asked {
            assert!(known.iter().any(|labels| labels.contains(label)), "{question}: there is no label {label}");
        }
    }
}

/// Those of docs/monitoring.md, which a test of the server compares with what it prints: name, kind, labels.
fn metrics() -> BTreeMap<String, (String, BTreeSet<String>)> {
    let page = read("docs/monitoring.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let metrics = rows.filter(|(name, _)| OURS.iter().any(|ours| name.starts_with(ours))).map(|(metric, rest)| {
        let (name, labels) = metric.trim_end_matches('}').split_once('{').unwrap_or((metric, ""));
        let kind = rest.split(' ').next().unwrap_or_default();
        (name.to_owned(), (kind.to_owned(), labels.split(',').map(str::to_owned).collect()))
    });
    metrics.collect()
}

fn labels<'a>(
    metrics: &'a BTreeMap<String, (String, BTreeSet<String>)>,
    series: &str,
    question: &str,
) -> &'a BTreeSet<String> {
    let of_histogram = OF_HISTOGRAM.iter().find_map(|suffix| metrics.get(series.strip_suffix(suffix)?));
    let found = of_histogram.filter(|(kind, _)| kind == "histogram").or_else(|| metrics.get(series));
    &found.unwrap_or_else(|| panic!("{question}: docs/monitoring.md has no {series}")).1
}

/// All that the alerts and the dashboard ask.
fn questions() -> Vec<String> {
    let alerts = read("packaging/alerts.yml");
    let mut questions: Vec<_> =
        alerts.lines().filter_map(|line| Some(line.trim_start().strip_prefix("expr: ")?.to_owned())).collect();
    let dashboard = serde_json::from_str(&read("packaging/dashboard.json")).expect("the dashboard is JSON");
    collect(&dashboard, &mut questions);
    questions
}

fn collect(value: &Value, questions: &mut Vec<String>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| collect(value, questions)),
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if name == "expr" || text.starts_with("label_values(") => {
                        questions.push(text.clone());
                    }
                    _ => collect(value, questions),
                }
            }
        }
        _ => {}
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').filter(|word| !word.is_empty())
}

/// Labels that stand in braces, before what they are compared with.
fn matched(question: &str) -> impl Iterator<Item = &str> {
    let braces = question.split('{').skip(1).filter_map(|text| text.split('}').next());
    braces.flat_map(|text| text.split(", ").filter_map(|matcher| words(matcher).next()))
}

/// Those that it is summed, or joined, by.
fn grouped(question: &str) -> impl Iterator<Item = &str> {
    let lists = ["by (", "on ("].into_iter().flat_map(|before| question.split(before).skip(1));
    lists.filter_map(|text| text.split(')').next()).flat_map(words)
}

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}
