//! The results as a document: the goals, all contenders side by side, and where a peer is faster.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::contender::Part;
use crate::plot;
use crate::table::{Row, aligned, render};
use crate::versus::{Case, Group};

/// A difference below this says nothing on a shared machine.
const NOTICEABLE: f64 = 1.15;

const HEAD: [&str; 7] = ["group", "case", "who", "median", "best round", "middle half", "ours is better by"];

/// Everything that was measured, as text.
pub(crate) fn text(environment: &str, goals: &[Row], cases: &[Case]) -> String {
    let mut parts = vec![
        "# Results".to_owned(),
        "One run of `benches/run`. [README.md](README.md) says how to read it, and what is measured.".to_owned(),
        environment.trim().to_owned(),
        "## Goals".to_owned(),
        render(goals),
        "## Side by side".to_owned(),
        "The same scripts, the same client, in turns. Below 1x the other is better than ours; floors do no or less work."
            .to_owned(),
        side_by_side(cases),
        "## Where a peer is faster".to_owned(),
        faster_peers(cases),
        "## Plots".to_owned(),
    ];
    let drawn = Group::ALL.into_iter().filter(|group| cases.iter().any(|case| case.group == *group));
    parts.extend(drawn.map(|group| format!("![{}](plots/{}.svg)", group.title(), group.name())));
    parts.join("\n\n") + "\n"
}

/// One table of all contenders, also for the terminal.
pub(crate) fn side_by_side(cases: &[Case]) -> String {
    let mut rows = Vec::new();
    for group in Group::ALL {
        for case in cases.iter().filter(|case| case.group == group) {
            rows.extend(case.entries.iter().map(|entry| {
                let advantage = match entry.part {
                    Part::Ours => None,
                    Part::Floor | Part::Peer => case.advantage(entry),
                };
                [
                    group.name().to_owned(),
                    case.what.clone(),
                    entry.who.to_owned(),
                    case.unit.show(entry.median.value),
                    case.unit.show(entry.best),
                    case.unit.show_spread(entry.median),
                    advantage.map_or(String::new(), |factor| format!("{factor:.2}x")),
                ]
            }));
        }
    }
    aligned(HEAD, rows)
}

/// The cases in which a peer that does the same work is noticeably better.
pub(crate) fn faster_peers(cases: &[Case]) -> String {
    let mut lines = Vec::new();
    for case in cases {
        for entry in case.entries.iter().filter(|entry| entry.part == Part::Peer) {
            if let Some(factor) = case.advantage(entry).map(|factor| 1.0 / factor).filter(|f| *f > NOTICEABLE)
            {
                lines.push(format!("- {}, {}: {}, {factor:.1}x", case.group.name(), case.what, entry.who));
            }
        }
    }
    if lines.is_empty() { "Nowhere, by more than 15 %.".to_owned() } else { lines.join("\n") }
}

/// Writes the document and a plot for each group.
pub(crate) fn write(environment: &str, goals: &[Row], cases: &[Case]) -> Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches");
    fs::create_dir_all(folder.join("plots"))?;
    for group in Group::ALL {
        if let Some(svg) = plot::of_group(group, cases) {
            fs::write(folder.join(format!("plots/{}.svg", group.name())), svg)?;
        }
    }
    let path = folder.join("RESULTS.md");
    fs::write(&path, text(environment, goals, cases))?;
    Ok(path)
}
