//! Runs this program under callgrind and reads how many instructions lie between its marks.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

/// What one operation took.
pub(crate) struct Count {
    pub(crate) name: &'static str,
    pub(crate) instructions: u64,
}

/// The function whose name callgrind looks for: it ends one part of the profile and begins the next.
///
/// A part is written at each call, with what all threads did since the one before.
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
    // A folder that stays is in nobody's way.
    let _ = fs::remove_dir_all(&folder);
    counted
}

fn run(flag: &str, folder: &Path) -> Result<()> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet", "--dump-before=*mark_part*", "--compress-pos=no"])
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
    let part = |number: usize| -> Result<u64> {
        let path = folder.join(format!("part.{number}"));
        let text = fs::read_to_string(&path).with_context(|| format!("no {}", path.display()))?;
        let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
        let total = total.with_context(|| format!("no totals in {}", path.display()))?;
        Ok(total.trim().parse()?)
    };
    let counted = names
        .iter()
        .enumerate()
        .map(|(at, (name, times))| Ok(Count { name, instructions: part(2 * at + 2)? / times }));
    counted.collect()
}
