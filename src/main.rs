//! The program `scomp-serve`: a runtime, and the command line in it.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Before there is a runtime or a thread: a worker puts up walls that hold only for what comes after.
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    if scomp::worker::is_worker() {
        return scomp::worker::worker_main();
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("scomp-serve: cannot start: {error}");
            return ExitCode::from(1);
        }
    };
    let code = runtime.block_on(cli::run());
    // A read of stdin cannot be called off; waiting for it would keep a stopped program alive.
    runtime.shutdown_background();
    cli::log::finish();
    code
}
