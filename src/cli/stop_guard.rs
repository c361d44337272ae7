//! The bound on a stop: the program ends within `drain_ms` and a grace after the first signal, whatever its threads do.
//!
//! A thread of its own watches for the signals too, with its own event loop: a handler that blocks the main thread would
//! keep it from seeing a signal at all.
//!
//! One of the modules with `unsafe`: the exit that waits for nothing.
#![cfg_attr(unix, allow(unsafe_code))]

use std::io;
use std::time::Duration;

use super::signals::Signals;

/// What a stop may take beyond `drain_ms` before it is forced.
/// The server takes at most eleven seconds after the drain; the rest is for a machine that is busy.
const STOP_GRACE: Duration = Duration::from_secs(15);

/// What remains after a second signal, which ends the main thread's wait.
const SECOND_SIGNAL_GRACE: Duration = Duration::from_secs(1);

/// Exit code of a stop that was forced.
const FORCED_EXIT_CODE: i32 = 1;

/// Starts the guard. It acts only if the program still runs when the time is over.
pub(super) fn start(drain_max: Duration) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = {
        let _entered = runtime.enter();
        Signals::to_stop()?
    };
    let guard = move || {
        runtime.block_on(async {
            signals.next().await;
            tokio::select! {
                () = tokio::time::sleep(drain_max.saturating_add(STOP_GRACE)) => {}
                _again = signals.next() => tokio::time::sleep(SECOND_SIGNAL_GRACE).await,
            }
        });
        // From another thread: a stalled reader of stderr must not hold up the exit.
        let _ = std::thread::Builder::new().spawn(|| {
            tracing::error!("the stop took too long and was forced");
        });
        std::thread::sleep(Duration::from_millis(100));
        exit_now();
    };
    std::thread::Builder::new().name("stop-guard".to_owned()).spawn(guard).map(drop)
}

/// Ends the process without exit handlers: a thread that is stuck may hold what they wait for.
#[cfg(unix)]
fn exit_now() -> ! {
    // SAFETY: `_exit` ends the process and touches nothing of it.
    unsafe { libc::_exit(FORCED_EXIT_CODE) }
}

#[cfg(not(unix))]
fn exit_now() -> ! {
    std::process::exit(FORCED_EXIT_CODE)
}
