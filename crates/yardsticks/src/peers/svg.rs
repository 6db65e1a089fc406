//! A chart of horizontal bars as SVG: a median, its spread as a whisker, and the figure beside it.
//!
//! Written by hand, as it is one kind of chart and a plotting crate would bring fonts and back ends along. Colours are
//! style classes with a second set for dark pages; whoever shows the picture chooses. What is not to be ranked is
//! hatched as well, so that it is told apart without colours.

use std::fmt::Write;

use crate::figures::short;

/// How a bar is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    Ours,
    Peer,
    /// Neither ranked nor compared.
    Unranked,
}

pub(super) struct Bar {
    pub(super) label: String,
    pub(super) median: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) fill: Fill,
}

pub(super) struct Chart<'a> {
    pub(super) title: &'a str,
    /// What the scale counts, with its unit.
    pub(super) scale: &'a str,
    /// Bars that belong together; between groups is a gap.
    pub(super) groups: &'a [Vec<Bar>],
}

const WIDTH: f64 = 860.0;
/// Labels end here, and bars begin.
const LABELS: f64 = 300.0;
/// The scale ends here; figures need the rest.
const SCALE_END: f64 = 740.0;
const TOP: f64 = 66.0;
const ROW: f64 = 26.0;
const BAR: f64 = 15.0;
const GAP: f64 = 10.0;
/// Below the bars: the scale's numbers, its name, and what the fills mean.
const FOOT: f64 = 74.0;

const STYLE: &str = "\
    text { font: 13px system-ui, sans-serif; fill: #1f2328; }\n\
    .title { font-size: 16px; font-weight: 600; }\n\
    .faint { fill: #59636e; font-size: 12px; }\n\
    .page { fill: #ffffff; }\n\
    .grid { stroke: #d1d9e0; }\n\
    .whisker { stroke: #1f2328; stroke-width: 1.5; }\n\
    .ours { fill: #2f6fde; }\n\
    .peer { fill: #9aa4b0; }\n\
    .unranked { fill: url(#hatch); stroke: #b08800; }\n\
    .stripe { stroke: #b08800; stroke-width: 1.4; }\n\
    @media (prefers-color-scheme: dark) {\n\
    text { fill: #e6edf3; } .faint { fill: #9198a1; } .page { fill: #0d1117; } .grid { stroke: #2f3742; }\n\
    .whisker { stroke: #e6edf3; } .ours { fill: #4c8dff; } .peer { fill: #69737f; }\n\
    .unranked, .stripe { stroke: #d4a72c; }\n\
    }\n";

impl Chart<'_> {
    /// The picture, as a whole SVG document.
    pub(super) fn svg(&self) -> String {
        let (bottom, height) = (self.bottom(), self.bottom() + FOOT);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" role=\"img\" aria-label=\"{title}\">\n<style>\n{STYLE}</style>\n\
             <defs><pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
             patternTransform=\"rotate(45)\"><line class=\"stripe\" x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\"/></pattern>\
             </defs>\n<rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\" rx=\"6\"/>\n",
            title = escaped(self.title)
        );
        svg += &text(20.0, 32.0, "title", "start", self.title);
        let step = step(self.groups.iter().flatten().map(|bar| bar.high).fold(0.0, f64::max));
        self.draw_grid(&mut svg, step, bottom);
        let mut top = TOP;
        for group in self.groups {
            for bar in group {
                bar.draw(&mut svg, top + ROW / 2.0, step.end);
                top += ROW;
            }
            top += GAP;
        }
        self.draw_meaning(&mut svg, height - 16.0);
        svg + "</svg>\n"
    }

    /// Where the last bar's row ends.
    fn bottom(&self) -> f64 {
        let bars: usize = self.groups.iter().map(Vec::len).sum();
        TOP + bars as f64 * ROW + self.groups.len().saturating_sub(1) as f64 * GAP
    }

    fn draw_grid(&self, svg: &mut String, step: Step, bottom: f64) {
        for mark in 0..=step.count {
            let value = step.size * f64::from(mark);
            let x = at(value, step.end);
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\"/>",
                TOP - 4.0
            );
            *svg += &text(x, bottom + 16.0, "faint", "middle", &plain(value));
        }
        let scale = format!("{}: median, and from the lowest to the highest", self.scale);
        *svg += &text(f64::midpoint(LABELS, SCALE_END), bottom + 34.0, "faint", "middle", &scale);
    }

    fn draw_meaning(&self, svg: &mut String, y: f64) {
        let mut x = 20.0;
        for fill in [Fill::Ours, Fill::Peer, Fill::Unranked] {
            if self.groups.iter().flatten().any(|bar| bar.fill == fill) {
                let (class, top) = (fill.class(), y - 11.0);
                let _ = writeln!(svg, "<rect class=\"{class}\" x=\"{x}\" y=\"{top}\" width=\"22\" height=\"12\"/>");
                *svg += &text(x + 30.0, y, "faint", "start", fill.meaning());
                x += 200.0;
            }
        }
    }
}

impl Bar {
    fn draw(&self, svg: &mut String, middle: f64, end: f64) {
        let class = self.fill.class();
        let (x, low, high) = (at(self.median, end), at(self.low, end), at(self.high, end));
        // What rounds to nothing is still a bar.
        let width = (x - LABELS).max(1.0);
        *svg += &text(LABELS - 10.0, middle + 4.5, "label", "end", &self.label);
        let _ = writeln!(
            svg,
            "<rect class=\"{class}\" x=\"{LABELS}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{BAR}\"/>",
            middle - BAR / 2.0
        );
        if high - low >= 1.0 {
            let (top, bottom) = (middle - 4.0, middle + 4.0);
            let _ = writeln!(
                svg,
                "<path class=\"whisker\" fill=\"none\" d=\"M{low:.1} {top}V{bottom}M{high:.1} {top}V{bottom}\
                 M{low:.1} {middle}H{high:.1}\"/>"
            );
        }
        *svg += &text(x.max(high) + 8.0, middle + 4.5, "figure", "start", &short(self.median));
    }
}

impl Fill {
    fn class(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Peer => "peer",
            Self::Unranked => "unranked",
        }
    }

    fn meaning(self) -> &'static str {
        match self {
            Self::Ours => "Tallystick, word kept",
            Self::Peer => "peer, word kept",
            Self::Unranked => "word not kept, or lost with the power",
        }
    }
}

/// The scale's marks: 1, 2 or 5 times a power of ten apart, and at most eight.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    size: f64,
    count: u32,
    end: f64,
}

fn step(highest: f64) -> Step {
    let least = (highest / 8.0).max(f64::MIN_POSITIVE);
    let power = 10_f64.powf(least.log10().floor());
    let size = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|size| *size >= least);
    let size = size.unwrap_or(10.0 * power);
    let count = (highest / size).ceil().max(1.0);
    Step { size, count: count as u32, end: count * size }
}

fn at(value: f64, end: f64) -> f64 {
    LABELS + (SCALE_END - LABELS) * value / end
}

/// A mark's number, without digits that say nothing.
fn plain(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn text(x: f64, y: f64, class: &str, anchor: &str, words: &str) -> String {
    format!("<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>\n", escaped(words))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_has_round_marks_and_room_for_the_longest_bar() {
        for (highest, size, count) in [(58.1, 10.0, 6), (8.0, 1.0, 8), (0.9, 0.2, 5), (130.0, 20.0, 7), (0.0, 0.0, 1)] {
            let step = step(highest);
            assert!(step.end >= highest && step.count <= 8, "{highest}: {step:?}");
            assert!(size == 0.0 || ((step.size - size).abs() < 1e-9 && step.count == count), "{highest}: {step:?}");
        }
    }

    #[test]
    fn what_is_not_ranked_is_hatched_and_words_cannot_break_the_picture() {
        let bar = |fill| Bar { label: "a < b & \"c\"".into(), median: 2.0, low: 1.0, high: 3.0, fill };
        let groups = [vec![bar(Fill::Ours)], vec![bar(Fill::Unranked)]];
        let svg = Chart { title: "T", scale: "s", groups: &groups }.svg();
        assert!(svg.contains("a &lt; b &amp; &quot;c&quot;"));
        assert!(svg.contains("<rect class=\"unranked\"") && !svg.contains("<rect class=\"peer\""));
        assert_eq!(svg.matches("class=\"whisker\"").count(), 2);
    }
}
