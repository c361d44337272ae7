//! The table of goals, in Markdown and aligned, so that it reads the same in a terminal and in a document.

use crate::stats::Figure;

/// One goal and how near we are.
#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) unit: Unit,
    pub(crate) ours: Figure,
    pub(crate) floor: Option<Figure>,
    pub(crate) goal: Goal,
}

/// What figures are counted in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Nanoseconds.
    Time,
    /// Bytes.
    Memory,
    /// So many a second: more is better.
    Rate,
}

/// What is asked of a row.
#[derive(Clone, Copy)]
pub(crate) enum Goal {
    /// Ours is at most so many times the floor.
    RatioMax(f64),
    /// Ours is at most this.
    ValueMax(f64),
    /// Nothing: the row explains others.
    Shown,
}

const HEAD: [&str; 8] = ["what", "ours", "middle half", "floor", "middle half", "ratio", "goal", "met"];

/// The rows as a table.
pub(crate) fn render(rows: &[Row]) -> String {
    aligned(HEAD, rows.iter().map(Row::cells).collect())
}

/// A table with columns as wide as what is in them.
pub(crate) fn aligned<const N: usize>(head: [&str; N], rows: Vec<[String; N]>) -> String {
    let mut cells = rows;
    cells.insert(0, head.map(str::to_owned));
    let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut lines: Vec<String> = cells.iter().map(|row| line(row, &widths)).collect();
    let rule = std::array::from_fn(|column| "-".repeat(widths[column]));
    lines.insert(1, line(&rule, &widths));
    lines.join("\n")
}

fn line<const N: usize>(cells: &[String; N], widths: &[usize; N]) -> String {
    let padded: Vec<String> =
        cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
    format!("| {} |", padded.join(" | "))
}

impl Row {
    fn ratio(&self) -> Option<f64> {
        self.floor.map(|floor| self.ours.value / floor.value)
    }

    fn is_met(&self) -> Option<bool> {
        match self.goal {
            Goal::RatioMax(max) => self.ratio().map(|ratio| ratio <= max),
            Goal::ValueMax(max) => Some(self.ours.value <= max),
            Goal::Shown => None,
        }
    }

    fn cells(&self) -> [String; 8] {
        let goal = match self.goal {
            Goal::RatioMax(max) => format!("<= {max}x"),
            Goal::ValueMax(max) => format!("<= {}", self.unit.show(max)),
            Goal::Shown => String::new(),
        };
        let met = match self.is_met() {
            Some(true) => "yes",
            Some(false) => "no",
            None => "",
        };
        let shown = |figure: Option<Figure>| figure.map_or(String::new(), |f| self.unit.show(f.value));
        [
            self.what.clone(),
            shown(Some(self.ours)),
            self.spread(Some(self.ours)),
            shown(self.floor),
            self.spread(self.floor),
            self.ratio().map_or(String::new(), |ratio| format!("{ratio:.2}x")),
            goal,
            met.to_owned(),
        ]
    }

    fn spread(&self, figure: Option<Figure>) -> String {
        figure.map_or(String::new(), |figure| self.unit.show_spread(figure))
    }
}

impl Unit {
    /// The middle half of what a figure was taken from.
    pub(crate) fn show_spread(self, figure: Figure) -> String {
        match figure.quartiles {
            Some((low, high)) => format!("{} - {}", self.show(low), self.show(high)),
            None => String::new(),
        }
    }

    /// A value with its unit, short.
    pub(crate) fn show(self, value: f64) -> String {
        let (value, unit) = match self {
            Self::Time if value >= 1e6 => (value / 1e6, "ms"),
            Self::Time if value >= 1e3 => (value / 1e3, "us"),
            Self::Time => (value, "ns"),
            Self::Rate => return format!("{value:.0} /s"),
            Self::Memory if value >= 1e6 => (value / 1e6, "MB"),
            Self::Memory => (value / 1e3, "KB"),
        };
        let decimals = if value >= 100.0 { 0 } else { 1 };
        format!("{value:.decimals$} {unit}")
    }
}
