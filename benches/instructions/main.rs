//! A guard against slower hot paths: how many instructions each of ten operations takes, against stored counts.
//!
//! `cargo test --bench instructions` measures the development build, as CI does; `cargo bench --bench instructions` the
//! optimised one. `-- --store` puts the counts down as the new ones. Instructions are counted by callgrind, which needs no
//! quiet machine: two runs differ by a few in a thousand, where times differ by half. The program starts itself again
//! under callgrind and does each operation between two marks. Needs `valgrind`.

mod callgrind;
mod compare;
mod operations;
mod session;

use anyhow::Result;

/// How often an operation is counted that seems to take more; the least of all counts.
/// Sessions have threads, and a busy machine makes them wake each other more often: that only ever adds instructions.
const ROUNDS_MAX: usize = 3;

/// How this program is told that it runs under callgrind.
const WORK_FLAG: &str = "--work";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_told = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if is_told(WORK_FLAG) {
        return operations::run_all();
    }
    if !callgrind::is_there() {
        println!("skipped: instructions are counted by valgrind, and it is not installed");
        return Ok(());
    }
    let mut counts = callgrind::count(WORK_FLAG, &operations::NAMES)?;
    if is_told("--store") {
        return compare::store(&counts);
    }
    for _ in 1..ROUNDS_MAX {
        if !compare::has_grown(&counts)? {
            break;
        }
        let again = callgrind::count(WORK_FLAG, &operations::NAMES)?;
        for (count, other) in counts.iter_mut().zip(again) {
            count.instructions = count.instructions.min(other.instructions);
        }
    }
    compare::with_stored(&counts)
}
