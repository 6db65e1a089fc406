//! What `tally top` shows, on 80×24 and more. Colours are the sixteen of every terminal, and never say alone what no
//! word says.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row as TableRow, Sparkline, Table};
use tally_base::Size;

use super::watch::{LaneRow, Point, Row, Watch};
use crate::cli::words::duration;
use crate::control::observation::Observation;
use crate::control::report::{PoolReport, TxgReport};

/// Lines for pools and for warnings; more would push the clients out.
const POOLS_MAX: usize = 3;
const NOTICES_MAX: usize = 3;
/// Lines of the groups and lanes, and of the sparklines, with their titles.
const MIDDLE: u16 = 5;
const SPARKS: u16 = 4;
/// Columns of a bar, and of one in a table.
const BAR: usize = 10;
const BAR_SMALL: usize = 6;

/// Draws everything.
pub(super) fn draw(watch: &Watch, frame: &mut Frame<'_>) {
    let notices = notices(watch);
    let pools: Vec<Line<'_>> = watch.now().map_or(&[][..], |now| &now.pools).iter().take(POOLS_MAX).map(pool).collect();
    let lines = |count: usize| Constraint::Length(u16::try_from(count).unwrap_or(u16::MAX));
    let areas: [Rect; 7] = Layout::vertical([
        lines(1),
        lines(notices.len()),
        lines(pools.len()),
        Constraint::Length(MIDDLE),
        Constraint::Length(SPARKS),
        Constraint::Min(2),
        lines(1),
    ])
    .areas(frame.area());
    let [title, warnings, capacity, middle, sparks, clients, keys] = areas;
    frame.render_widget(Paragraph::new(head(watch, title.width)), title);
    frame.render_widget(Paragraph::new(notices), warnings);
    frame.render_widget(Paragraph::new(pools), capacity);
    let [left, right] = halves(middle);
    groups(watch, frame, left);
    lanes(&watch.lanes(), frame, right);
    let [left, right] = halves(sparks);
    let newest = watch.points.back().copied().unwrap_or_default();
    let rate = format!("durable requests/s  {}", rate(newest.commits_per_s));
    spark(watch, frame, left, rate, Color::Cyan, |point| point.commits_per_s);
    let p99 = format!("log device p99  {}", time(newest.device.p99_ns));
    #[allow(clippy::cast_precision_loss)]
    spark(watch, frame, right, p99, Color::Yellow, |point| point.device.p99_ns as f64);
    rows(watch, frame, clients);
    let words = " q quit   p pause   s sort   Tab next pool";
    frame.render_widget(Paragraph::new(words).style(Style::new().add_modifier(Modifier::DIM)), keys);
}

fn halves(area: Rect) -> [Rect; 2] {
    Layout::horizontal([Constraint::Percentage(47), Constraint::Percentage(53)]).spacing(1).areas(area)
}

fn titled<'a>(title: impl Into<Line<'a>>) -> Block<'a> {
    Block::new().borders(Borders::TOP).border_style(Style::new().fg(Color::DarkGray)).title(title.into().bold())
}

fn head(watch: &Watch, width: u16) -> Line<'_> {
    let mut spans = vec![" tallystick ".bold().reversed(), format!(" {} ", watch.host).into()];
    let Some(now) = watch.now() else {
        spans.push("waiting for the first look".into());
        return Line::from(spans);
    };
    spans.push(format!(" up {} ", up(now.uptime_seconds)).into());
    if let Some(point) = watch.points.back() {
        spans.push(format!(" {} calls/s ", rate(point.calls_per_s)).bold());
        spans.push(format!(" requests {}/{} ", time(point.request.p50_ns), time(point.request.p99_ns)).into());
    }
    if width >= 100 {
        spans.push(format!(" connections {} ", now.ops.connections).into());
    }
    if watch.paused {
        spans.push(" PAUSED ".reversed());
    }
    Line::from(spans)
}

/// What must not be overlooked, worst first.
fn notices(watch: &Watch) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    if let Some((since, why)) = &watch.lost {
        let why = why.lines().next().unwrap_or_default();
        let seconds = since.elapsed().as_secs();
        lines.push(Line::from(format!(" NOT CONNECTED for {seconds} s, trying again: {why}")).style(alarm(Color::Red)));
    }
    for pool in watch.now().map_or(&[][..], |now| &now.pools) {
        let (name, exposure) = (&pool.name, pool.exposure);
        if exposure.bytes > 0 {
            let text = format!(
                " {name}: a power cut would take {} acknowledged up to {:.1} s ago (sync=disabled)",
                Size(exposure.bytes),
                exposure.seconds
            );
            // Older than a group should ever get, it is no longer the ordinary price of sync=disabled.
            let colour = if exposure.seconds > EXPOSED_LONG { Color::Red } else { Color::Yellow };
            lines.push(Line::from(text).style(alarm(colour)));
        }
        let colour = if pool.state == "DEGRADED" { Color::Yellow } else { Color::Red };
        if pool.state != "ONLINE" {
            let message = pool.messages.first().and_then(|text| text.lines().next()).unwrap_or(&pool.state);
            lines.push(Line::from(format!(" {name}: {message}")).style(alarm(colour)));
        }
    }
    lines.truncate(NOTICES_MAX);
    lines
}

/// Seconds of exposure that are too many.
const EXPOSED_LONG: f64 = 30.0;

fn alarm(colour: Color) -> Style {
    Style::new().fg(colour).add_modifier(Modifier::BOLD)
}

fn pool(pool: &PoolReport) -> Line<'_> {
    let colour = match pool.state.as_str() {
        "ONLINE" => Color::Green,
        "DEGRADED" => Color::Yellow,
        _ => Color::Red,
    };
    let mut spans = vec![
        format!(" {:<10} ", shortened(&pool.name, 10)).bold(),
        Span::styled(format!("{:<9} ", pool.state), alarm(colour)),
    ];
    if pool.is_imported() {
        spans.extend(bar(BAR, pool.allocated, pool.size));
        spans.push(format!(" {} of {}  dirty ", Size(pool.allocated), Size(pool.size)).into());
        spans.extend(bar(BAR, pool.dirty_bytes, pool.dirty_bytes_max));
        spans.push(format!(" {}", Size(pool.dirty_bytes)).into());
    }
    Line::from(spans)
}

/// A bar of so many columns that is filled to a part of it.
fn bar(columns: usize, part: u64, whole: u64) -> [Span<'static>; 2] {
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let full = (part as f64 / whole.max(1) as f64 * columns as f64).ceil() as usize;
    let full = full.min(columns);
    let colour = if full * 10 > columns * 8 { Color::Yellow } else { Color::Cyan };
    let empty = Span::styled("░".repeat(columns - full), Style::new().fg(Color::DarkGray));
    [Span::styled("█".repeat(full), Style::new().fg(colour)), empty]
}

/// The newest groups, each a column of three lines: for how long it was open, quiescing and syncing.
fn groups(watch: &Watch, frame: &mut Frame<'_>, area: Rect) {
    let txgs = watch.pool().map_or(&[][..], |pool| pool.txgs.as_slice());
    let open = watch.pool().map_or(0, |pool| pool.txg_open);
    let block = titled(format!("transaction groups  {open} is open"));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    type Phase = (&'static str, fn(&TxgReport) -> f64, Color);
    let phases: [Phase; 3] = [
        ("open", |group| group.open_seconds, Color::Blue),
        ("quiesce", |group| group.quiescing_seconds, Color::Magenta),
        ("sync", |group| group.syncing_seconds, Color::Cyan),
    ];
    let columns = usize::from(inner.width.saturating_sub(18));
    let shown = txgs.get(txgs.len().saturating_sub(columns)..).unwrap_or_default();
    let line = |(name, of, colour): Phase| {
        let values: Vec<f64> = shown.iter().map(of).collect();
        let newest = values.last().copied().map_or_else(|| "-".to_owned(), |seconds| time(nanoseconds(seconds)));
        Line::from(vec![
            format!(" {name:<8}").into(),
            Span::styled(steps(&values), Style::new().fg(colour)),
            format!(" {newest}").into(),
        ])
    };
    let mut lines: Vec<Line<'_>> = phases.map(line).into();
    if let Some(newest) = txgs.last() {
        // For the disks: there is no room to say so.
        let waiting = watch.pool().map_or(0, |pool| pool.ahead_waiting);
        let waiting = if waiting > 0 { format!("; {waiting} wait") } else { String::new() };
        let text = format!(" newest  {}, {} dirty{waiting}", newest.txg, Size(newest.dirty_bytes));
        lines.push(Line::from(text).style(Style::new().add_modifier(Modifier::DIM)));
    }
    frame.render_widget(Paragraph::new(lines), inner);
}

/// Values as a line of eighths, the highest of them full.
fn steps(values: &[f64]) -> String {
    const EIGHTHS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let step = |value: &f64| EIGHTHS[((value / most * 7.0).round() as usize).min(7)];
    values.iter().map(step).collect()
}

fn lanes(lanes: &[LaneRow<'_>], frame: &mut Frame<'_>, area: Rect) {
    let row = |row: &LaneRow<'_>| {
        let [full, empty] = bar(BAR_SMALL, row.lane.used, row.lane.size);
        let share = u128::from(row.lane.used) * 100 / u128::from(row.lane.size.max(1));
        let device = if row.device.count == 0 {
            "-".to_owned()
        } else {
            format!("{}/{}", time(row.device.p50_ns), time(row.device.p99_ns))
        };
        TableRow::new([
            Cell::new(Line::from(format!(" {}", row.lane.lane))),
            Cell::new(Line::from(vec![full, empty, format!(" {share}%").into()])),
            right(rate(row.frames_per_s)),
            right(row.records_per_frame.map_or_else(|| "-".to_owned(), |records| format!("{records:.1}"))),
            right(device),
        ])
    };
    let widths = [3, 10, 6, 5, 13].map(Constraint::Length);
    let head = TableRow::new([Cell::new(" #"), Cell::new("fill"), right("frm/s"), right("rec/f"), right("p50/p99")]);
    let table = Table::new(lanes.iter().map(row), widths)
        .header(head.style(Style::new().add_modifier(Modifier::DIM)))
        .block(titled("log lanes"))
        .column_spacing(1);
    frame.render_widget(table, area);
}

fn spark(watch: &Watch, frame: &mut Frame<'_>, area: Rect, title: String, colour: Color, of: fn(&Point) -> f64) {
    let width = usize::from(area.width);
    let values = watch.points.iter().skip(watch.points.len().saturating_sub(width)).map(of);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let values: Vec<u64> = values.map(|value| value as u64).collect();
    // The newest is always at the right.
    let padded: Vec<u64> = std::iter::repeat_n(0, width.saturating_sub(values.len())).chain(values).collect();
    frame.render_widget(Sparkline::default().data(padded).style(Style::new().fg(colour)).block(titled(title)), area);
}

fn rows(watch: &Watch, frame: &mut Frame<'_>, area: Rect) {
    let all = watch.rows();
    let title = format!("clients, by {}  ({} active)", watch.sort.word(), all.len());
    let head = [" client", "dataset"].map(Cell::new).into_iter();
    let head = head.chain(["wait share", "calls/s", "durable/s", "data/s", "mean"].map(right));
    let row = |row: &Row| {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let (parts, data) = ((row.wait_share * 1000.0) as u64, row.data_per_s as u64);
        let [full, empty] = bar(BAR_SMALL, parts, 1000);
        TableRow::new([
            Cell::new(format!(" {}", row.client)),
            Cell::new(row.dataset.clone()),
            Cell::new(Line::from(vec![
                full.fg(Color::Cyan),
                empty,
                format!("{:>5}", format!("{}%", parts / 10)).into(),
            ])),
            right(rate(row.calls_per_s)),
            right(rate(row.commits_per_s)),
            right(Size(data).to_string()),
            right(time(row.mean_ns)),
        ])
    };
    let widths = [
        Constraint::Fill(3),
        Constraint::Fill(2),
        Constraint::Length(11),
        Constraint::Length(8),
        Constraint::Length(9),
        Constraint::Length(7),
        Constraint::Length(7),
    ];
    let table = Table::new(all.iter().map(row), widths)
        .header(TableRow::new(head).style(Style::new().add_modifier(Modifier::DIM)))
        .block(titled(title))
        .column_spacing(1);
    frame.render_widget(table, area);
    if all.is_empty() && area.height > 2 {
        let below = Rect { y: area.y + 2, height: 1, ..area };
        frame.render_widget(Paragraph::new(nobody(watch.now())), below);
    }
}

fn nobody(now: Option<&Observation>) -> &'static str {
    if now.is_some() { " nobody has called since the last look" } else { "" }
}

fn right(text: impl Into<String>) -> Cell<'static> {
    Cell::new(Line::from(text.into()).alignment(Alignment::Right))
}

fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most { text.to_owned() } else { text.chars().take(most - 1).chain(['…']).collect() }
}

fn rate(per_second: f64) -> String {
    match per_second {
        low if low < 10.0 => format!("{low:.1}"),
        middle if middle < 100_000.0 => format!("{middle:.0}"),
        high => format!("{:.0}k", high / 1e3),
    }
}

fn time(ns: u64) -> String {
    if ns == 0 { "-".into() } else { duration(ns) }
}

fn nanoseconds(seconds: f64) -> u64 {
    u64::try_from(std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

fn up(seconds: f64) -> String {
    match seconds {
        short if short < 120.0 => format!("{short:.0} s"),
        middle if middle < 7200.0 => format!("{:.0} min", middle / 60.0),
        long if long < 172_800.0 => format!("{:.0} h", long / 3600.0),
        days => format!("{:.0} days", days / 86400.0),
    }
}
