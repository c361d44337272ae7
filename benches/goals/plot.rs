//! Plots as SVG, written by hand: bars for contenders side by side, lines for what grows.
//!
//! Colours come from a style that follows the reader's light or dark theme. Every bar and every line has its name and
//! its figure beside it, so that no colours have to be distinguished.

use std::fmt::Write as _;

use crate::contender::Part;
use crate::table::Unit;
use crate::versus::{Case, Entry, Group};

const WIDTH: f64 = 760.0;
const NAME_WIDTH: f64 = 190.0;
const FIGURE_WIDTH: f64 = 110.0;
const BAR_HEIGHT: f64 = 16.0;
const BAR_STEP: f64 = 22.0;
const LINES_HEIGHT: f64 = 260.0;

const STYLE: &str = "<style>
  svg { background: #fff; --ink: #1f2328; --soft: #6e7781; --rule: #d8dee4; --ours: #1a7f37; --peer: #54aeff; --floor: #afb8c1 }
  @media (prefers-color-scheme: dark) {
    svg { background: #0d1117; --ink: #e6edf3; --soft: #8d96a0; --rule: #30363d; --ours: #3fb950; --peer: #1f6feb; --floor: #57606a }
  }
  text { font: 12px system-ui, sans-serif; fill: var(--ink) }
  .title { font-size: 15px; font-weight: 600 } .soft { fill: var(--soft) } .end { text-anchor: end } .middle { text-anchor: middle }
  .ours { fill: var(--ours) } .peer { fill: var(--peer) } .floor { fill: var(--floor) }
  .line-ours { stroke: var(--ours) } .line-peer { stroke: var(--peer) } .line-floor { stroke: var(--floor) }
  .spread { stroke: var(--ink); stroke-width: 1.5 } .rule { stroke: var(--rule) } polyline { fill: none; stroke-width: 2 }
</style>";

/// The plot of a group; nothing when nothing was measured of it.
pub(crate) fn of_group(group: Group, cases: &[Case]) -> Option<String> {
    let cases: Vec<&Case> = cases.iter().filter(|case| case.group == group).collect();
    let has_axis = cases.first()?.at.is_some();
    let (body, height) = if has_axis { lines(&cases) } else { bars(&cases) };
    Some(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n\
         <title>{title}</title>\n{STYLE}\n<text class=\"title\" x=\"10\" y=\"24\">{title}</text>\n{body}</svg>\n",
        title = escaped(group.title()),
    ))
}

fn class(part: Part) -> &'static str {
    match part {
        Part::Floor => "floor",
        Part::Ours => "ours",
        Part::Peer => "peer",
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// A panel for each case, each with a scale of its own from zero.
fn bars(cases: &[&Case]) -> (String, f64) {
    let (mut out, mut y) = (String::new(), 40.0);
    for case in cases {
        y += 16.0;
        let better = if matches!(case.unit, Unit::Rate) { "more is better" } else { "less is better" };
        put(&mut out, 10.0, y, "soft", &format!("{} ({better})", case.what));
        y += 8.0;
        let longest = case.entries.iter().map(|entry| entry.median.value).fold(f64::MIN_POSITIVE, f64::max);
        for entry in &case.entries {
            bar(&mut out, y, case.unit, entry, longest);
            y += BAR_STEP;
        }
    }
    (out, y + 10.0)
}

fn bar(out: &mut String, y: f64, unit: Unit, entry: &Entry, longest: f64) {
    let scale = |value: f64| value / longest * (WIDTH - NAME_WIDTH - FIGURE_WIDTH - 20.0);
    let (text_y, length) = (y + BAR_HEIGHT - 4.0, scale(entry.median.value).max(1.0));
    put(out, NAME_WIDTH - 8.0, text_y, "end", entry.who);
    let class = class(entry.part);
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "<rect class=\"{class}\" x=\"{NAME_WIDTH}\" y=\"{y:.1}\" width=\"{length:.1}\" height=\"{BAR_HEIGHT}\" rx=\"2\"/>"
    );
    let mut end = NAME_WIDTH + length;
    if let Some((low, high)) = entry.median.quartiles {
        let (from, to) = (NAME_WIDTH + scale(low), (NAME_WIDTH + scale(high)).min(WIDTH - FIGURE_WIDTH));
        stroke(out, "spread", (from, y + BAR_HEIGHT / 2.0), (to, y + BAR_HEIGHT / 2.0));
        end = end.max(to);
    }
    put(out, end + 6.0, text_y, "", &unit.show(entry.median.value));
}

/// One panel for each unit, both axes logarithmic.
fn lines(cases: &[&Case]) -> (String, f64) {
    let (mut out, mut top) = (String::new(), 40.0);
    for unit in [Unit::Time, Unit::Memory] {
        let of_unit: Vec<&&Case> = cases.iter().filter(|case| case.unit == unit).collect();
        if !of_unit.is_empty() {
            line_panel(&mut out, top, unit, &of_unit);
            top += LINES_HEIGHT + 50.0;
        }
    }
    (out, top)
}

/// Where values lie in a panel.
struct Axes {
    top: f64,
    across: (f64, f64),
    up: (f64, f64),
}

impl Axes {
    fn x(&self, value: f64) -> f64 {
        90.0 + share(value, self.across) * (WIDTH - 90.0 - NAME_WIDTH)
    }

    fn y(&self, value: f64) -> f64 {
        self.top + LINES_HEIGHT - share(value, self.up) * LINES_HEIGHT
    }
}

fn share(value: f64, (low, high): (f64, f64)) -> f64 {
    (value.log10() - low.log10()) / (high.log10() - low.log10())
}

fn line_panel(out: &mut String, top: f64, unit: Unit, cases: &[&&Case]) {
    let values = || cases.iter().flat_map(|case| &case.entries).map(|entry| entry.median.value);
    let ats = || cases.iter().filter_map(|case| case.at);
    let decade = |value: f64| 10f64.powf(value.log10().floor());
    let lowest = decade(values().fold(f64::INFINITY, f64::min));
    let highest = decade(values().fold(lowest, f64::max)) * 10.0;
    let across = (ats().fold(f64::INFINITY, f64::min), ats().fold(0.0, f64::max));
    let axes = Axes { top, across, up: (lowest, highest) };
    let mut mark = lowest;
    while mark <= highest * 1.01 {
        stroke(out, "rule", (axes.x(across.0), axes.y(mark)), (axes.x(across.1), axes.y(mark)));
        put(out, 82.0, axes.y(mark) + 4.0, "end soft", &unit.show(mark));
        mark *= 10.0;
    }
    for at in ats() {
        put(out, axes.x(at), top + LINES_HEIGHT + 18.0, "middle soft", &format!("{at}"));
    }
    for (who, part) in contenders(cases) {
        draw_line(out, &axes, cases, who, part);
    }
    name_lines(out, &axes, cases);
}

fn contenders(cases: &[&&Case]) -> Vec<(&'static str, Part)> {
    let entries = cases.first().map(|case| case.entries.iter().map(|entry| (entry.who, entry.part)));
    entries.into_iter().flatten().collect()
}

fn draw_line(out: &mut String, axes: &Axes, cases: &[&&Case], who: &str, part: Part) {
    let points = cases.iter().filter_map(|case| {
        let entry = case.entries.iter().find(|entry| entry.who == who)?;
        Some(format!("{:.1},{:.1}", axes.x(case.at?), axes.y(entry.median.value)))
    });
    let points: Vec<String> = points.collect();
    let _ = writeln!(out, "<polyline class=\"line-{}\" points=\"{}\"/>", class(part), points.join(" "));
}

/// Names stand at the right ends of their lines, pushed apart where the lines meet.
fn name_lines(out: &mut String, axes: &Axes, cases: &[&&Case]) {
    let Some(last) = cases.last() else { return };
    let mut names: Vec<(f64, &str)> =
        last.entries.iter().map(|entry| (axes.y(entry.median.value) + 4.0, entry.who)).collect();
    names.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut free_from = f64::MIN;
    for (y, name) in names {
        let y = y.max(free_from);
        put(out, axes.x(axes.across.1) + 8.0, y, "", name);
        free_from = y + 14.0;
    }
}

fn put(out: &mut String, x: f64, y: f64, class: &str, text: &str) {
    let text = escaped(text);
    let _ = writeln!(out, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>");
}

fn stroke(out: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let _ = writeln!(
        out,
        "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
        from.0, from.1, to.0, to.1
    );
}
