//! Signals, watched from the moment of registration, so that none is lost between two waits.

use std::io;

/// Signals that are waited for instead of ending the program.
pub(super) struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    /// Only where the program has something to finish; elsewhere this signal ends it.
    #[cfg(unix)]
    terminate: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl Signals {
    /// The signals that stop a server.
    pub(super) fn to_stop() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: Some(signal(SignalKind::terminate())?), ..Self::to_interrupt()? })
    }

    /// Ctrl-C alone.
    pub(super) fn to_interrupt() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: None })
    }

    /// Waits for a signal and returns its name.
    pub(super) async fn next(&mut self) -> &'static str {
        let terminated = async {
            match &mut self.terminate {
                Some(terminate) => terminate.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = terminated => "SIGTERM",
        }
    }
}

/// The signals that ask for a reload.
pub(super) struct Reloads {
    #[cfg(unix)]
    hangup: tokio::signal::unix::Signal,
}

impl Reloads {
    /// From now on; without it such a signal ends the program.
    pub(super) fn new() -> io::Result<Self> {
        #[cfg(unix)]
        let reloads =
            Self { hangup: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())? };
        #[cfg(not(unix))]
        let reloads = Self {};
        Ok(reloads)
    }

    /// Waits for the next one. Several that come together are one.
    pub(super) async fn next(&mut self) {
        #[cfg(unix)]
        self.hangup.recv().await;
        #[cfg(not(unix))]
        std::future::pending::<()>().await;
    }
}

#[cfg(not(unix))]
impl Signals {
    /// The signals that stop a server.
    pub(super) fn to_stop() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Ctrl-C alone.
    pub(super) fn to_interrupt() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Waits for a signal and returns its name.
    pub(super) async fn next(&mut self) -> &'static str {
        match tokio::signal::ctrl_c().await {
            Ok(()) => "Ctrl-C",
            Err(_) => std::future::pending().await,
        }
    }
}
