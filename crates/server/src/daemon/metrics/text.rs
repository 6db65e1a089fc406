//! Prometheus' text format, version 0.0.4: families of samples, each family with its help and type before it.
//!
//! Written here and not with a client library: those keep registries of live counters, and ours are kept already; what
//! is left to do is to print them.

use std::fmt::{Display, Write as _};

use crate::control::spread::{Spread, doubling_bounds};

/// The content type that goes with it.
pub(in crate::daemon) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Names and values of labels.
pub(super) type Labels<'a> = &'a [(&'a str, &'a str)];

/// A text that grows by families.
#[derive(Default)]
pub(super) struct Exposition(String);

/// One metric with all its samples.
pub(super) struct Family<'a> {
    text: &'a mut String,
    name: &'static str,
}

impl Exposition {
    /// Begins a family of values that only rise.
    pub(super) fn counter(&mut self, name: &'static str, help: &str) -> Family<'_> {
        debug_assert!(name.ends_with("_total"), "{name}");
        self.family(name, "counter", help)
    }

    /// Begins a family of values that rise and fall.
    pub(super) fn gauge(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, "gauge", help)
    }

    /// Begins a family of distributions.
    pub(super) fn histogram(&mut self, name: &'static str, help: &str) -> Family<'_> {
        debug_assert!(name.ends_with("_seconds"), "{name}");
        self.family(name, "histogram", help)
    }

    fn family(&mut self, name: &'static str, kind: &str, help: &str) -> Family<'_> {
        // Writing to a string cannot fail, here and below.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        Family { text: &mut self.0, name }
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }
}

impl Family<'_> {
    /// One value.
    pub(super) fn sample(&mut self, labels: Labels<'_>, value: impl Display) {
        self.line("", labels, None, value);
    }

    /// A time of so many nanoseconds.
    pub(super) fn seconds(&mut self, labels: Labels<'_>, ns: u64) {
        self.sample(labels, seconds(ns));
    }

    /// 1 for the one that it is, and 0 for each of the others that it could be.
    pub(super) fn one_of(&mut self, labels: Labels<'_>, label: &str, known: &[&str], is: &str) {
        let unknown = (!known.contains(&is)).then_some(is);
        for value in known.iter().copied().chain(unknown) {
            let labels: Vec<_> = labels.iter().copied().chain([(label, value)]).collect();
            self.sample(&labels, u8::from(value == is));
        }
    }

    /// One distribution.
    pub(super) fn spread(&mut self, labels: Labels<'_>, spread: &Spread) {
        let mut sum = 0;
        let bounds = doubling_bounds().map(|ns| seconds(ns).to_string()).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(spread.doublings()) {
            sum += count;
            self.line("_bucket", labels, Some(&bound), sum);
        }
        #[allow(clippy::cast_precision_loss)]
        self.line("_sum", labels, None, spread.sum() as f64 / 1e9);
        self.line("_count", labels, None, sum);
    }

    fn line(&mut self, suffix: &str, labels: Labels<'_>, bound: Option<&str>, value: impl Display) {
        let _ = write!(self.text, "{}{suffix}", self.name);
        let mut before = '{';
        for (name, value) in labels.iter().copied().chain(bound.map(|bound| ("le", bound))) {
            let _ = write!(self.text, "{before}{name}=\"{}\"", escaped(value));
            before = ',';
        }
        self.text.push_str(if before == ',' { "} " } else { " " });
        let _ = writeln!(self.text, "{value}");
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn seconds(ns: u64) -> f64 {
    #[allow(clippy::cast_precision_loss)]
    let ns = ns as f64;
    ns / 1e9
}
