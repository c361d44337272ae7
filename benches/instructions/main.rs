//! A guard against slower hot paths: how many instructions each of ten operations takes, against stored counts.
//!
//! `cargo test --bench instructions` measures the development build, as CI does; `cargo bench --bench instructions` the
//! optimised one. `-- --store` stores the counts as the new ones. Instructions are counted by callgrind, which needs no
//! quiet machine: eight runs of the development build, on a busy one, differed by less than 0.4 %. The program starts
//! itself again under callgrind and does each operation between two marks, all on one thread. Needs `valgrind`.

mod callgrind;
mod compare;
mod operations;
#[path = "../support/ready.rs"]
mod ready;
mod session;
mod shard;

use anyhow::Result;
use scomp::server::Server;

/// The flag with which this program starts itself under callgrind.
const WORK_FLAG: &str = "--work";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has_flag = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if has_flag(WORK_FLAG) {
        return work();
    }
    if !callgrind::is_there() {
        println!("skipped: instructions are counted by valgrind, and it is not installed");
        return Ok(());
    }
    let counts = callgrind::count(WORK_FLAG, &operations::NAMES)?;
    if has_flag("--store") { compare::store(&counts) } else { compare::with_stored(&counts) }
}

/// All operations, on a server's only shard.
fn work() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = Server::builder().shards(1).package(ready::package()).build()?;
        let client = server.clone();
        shard::run(&server, move || operations::run_all(client)).await
    })
}
