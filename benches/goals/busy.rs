//! The floor beside endless loops: threads that never rest, and nothing but the scheduler between them and an echo.

use std::hint::spin_loop;

use anyhow::Result;

use crate::server::greet;

/// As many as there are endless loops.
const THREADS: usize = 8;

/// Keeps every core busy until killed.
pub(crate) fn keep() -> Result<()> {
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            std::thread::spawn(|| {
                loop {
                    spin_loop()
                }
            })
        })
        .collect();
    // No client connects, but the parent process waits for the greeting.
    greet(([127, 0, 0, 1], 0).into());
    threads.into_iter().for_each(|thread| drop(thread.join()));
    Ok(())
}
