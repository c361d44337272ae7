//! Runs this program under callgrind and reads how many instructions lie between its marks.

use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

/// What one operation took.
pub(crate) struct Count {
    pub(crate) name: &'static str,
    pub(crate) instructions: u64,
}

/// The function whose name callgrind looks for: it ends one part of the profile and begins the next.
///
/// A part is written at each call, with what the calling thread did since the one before.
#[inline(never)]
pub(crate) fn mark_part() {
    black_box(());
}

/// Whether valgrind is installed.
pub(crate) fn is_there() -> bool {
    let asked =
        Command::new("valgrind").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

/// Instructions of each operation, in the order in which the program does them.
pub(crate) fn count(flag: &str, names: &[(&'static str, u64)]) -> Result<Vec<Count>> {
    let folder = std::env::temp_dir().join(format!("scomp-instructions-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let counted = run(flag, &folder).and_then(|()| read(&folder, names));
    // A folder that cannot be removed does no harm.
    let _ = fs::remove_dir_all(&folder);
    counted
}

fn run(flag: &str, folder: &Path) -> Result<()> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet", "--dump-before=*mark_part*", "--compress-pos=no"])
        // Otherwise a part has what the other threads did meanwhile, such as the watchdog's.
        .arg("--separate-threads=yes")
        // The stacks of the coroutines are as large as they are on purpose.
        .args(["--max-stackframe=16777216", "--read-inline-info=no"])
        .arg(format!("--callgrind-out-file={}", folder.join("part").display()))
        .arg(std::env::current_exe()?)
        .arg(flag)
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the program failed under callgrind: {said}");
    Ok(())
}

/// The part before the first mark of an operation is its preparation, the next is the operation itself.
fn read(folder: &Path, names: &[(&'static str, u64)]) -> Result<Vec<Count>> {
    let counted = names.iter().enumerate().map(|(at, (name, times))| {
        let total = total(folder, 2 * at + 2).with_context(|| format!("no count of `{name}`"))?;
        Ok(Count { name, instructions: total / times })
    });
    counted.collect()
}

/// The total of a part. Its file is called by the part's number and by that of the thread, which is the same for all.
fn total(folder: &Path, part: usize) -> Result<u64> {
    let prefix = format!("part.{part}-");
    let mut files = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let is_part =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix));
    let path = files.find(is_part).with_context(|| format!("no file {prefix}*"))?;
    let text = fs::read_to_string(path)?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals: ")).context("no totals")?;
    Ok(total.trim().parse()?)
}
