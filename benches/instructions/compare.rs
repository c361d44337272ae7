//! The stored counts, and the verdict on new ones.
//!
//! They belong to a build profile and to the versions that the lock file and the toolchain name; another compiler may
//! count otherwise, and then they are stored anew in the change that brings it.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};

use crate::callgrind::Count;

/// By how much an operation may take more than stored: far above what two runs differ by.
const GROWTH_MAX: f64 = 0.10;

/// By how much it may take less before the stored count is stale and would let later growth pass.
const SHRINKAGE_SHOWN: f64 = 0.10;

/// Counts by operation, by profile.
type Stored = BTreeMap<String, BTreeMap<String, u64>>;

const PROFILE: &str = if cfg!(debug_assertions) { "dev" } else { "release" };

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("benches/instructions/counts.json")
}

fn stored() -> Result<Stored> {
    let text = fs::read_to_string(path()).context("no stored counts; `-- --store` makes them")?;
    Ok(serde_json::from_str(&text)?)
}

/// Puts the counts down as the ones to compare with.
pub(crate) fn store(counts: &[Count]) -> Result<()> {
    let mut all = stored().unwrap_or_default();
    let ours = counts.iter().map(|count| (count.name.to_owned(), count.instructions)).collect();
    all.insert(PROFILE.to_owned(), ours);
    fs::write(path(), format!("{}\n", serde_json::to_string_pretty(&all)?))?;
    println!("stored {} counts of the {PROFILE} profile", counts.len());
    Ok(())
}

/// Prints a line for each operation; an error when one takes too many instructions.
pub(crate) fn with_stored(counts: &[Count]) -> Result<()> {
    let mut all = stored()?;
    let stored = all.remove(PROFILE).with_context(|| format!("no counts of the {PROFILE} profile"))?;
    println!("{:<44} {:>12} {:>12} {:>8}", format!("instructions ({PROFILE} profile)"), "stored", "now", "");
    let mut grown = Vec::new();
    for Count { name, instructions } in counts {
        let before = *stored.get(*name).with_context(|| format!("no stored count of `{name}`"))?;
        let growth = *instructions as f64 / before as f64 - 1.0;
        let verdict = if growth > GROWTH_MAX {
            grown.push(*name);
            "  too many"
        } else if growth < -SHRINKAGE_SHOWN {
            "  store the new count"
        } else {
            ""
        };
        println!("{name:<44} {before:>12} {instructions:>12} {:>+7.1}%{verdict}", growth * 100.0);
    }
    ensure!(grown.is_empty(), "more than 10 % more instructions than stored: {}", grown.join(", "));
    Ok(())
}
