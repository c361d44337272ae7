//! How a handler learns that its answer is not awaited any more.
//!
//! Most calls are over before anything listens, so what listeners wait on is made when the first one comes.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

/// Fires once, when the answer to a call is not awaited any more.
#[derive(Debug, Clone, Default)]
pub struct CancelSignal(Arc<State>);

#[derive(Debug, Default)]
struct State {
    is_cancelled: AtomicBool,
    listeners: OnceLock<CancellationToken>,
}

impl CancelSignal {
    /// Whether it has fired.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(SeqCst)
    }

    /// Waits until it fires.
    pub async fn cancelled(&self) {
        let listeners = self.0.listeners.get_or_init(CancellationToken::new);
        // It may have fired before there was anything to wait on.
        if !self.is_cancelled() {
            listeners.cancelled().await;
        }
    }

    /// Fires.
    pub(crate) fn cancel(&self) {
        self.0.is_cancelled.store(true, SeqCst);
        if let Some(listeners) = self.0.listeners.get() {
            listeners.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[tokio::test]
    async fn cancel_signal_wakes_those_that_wait_and_those_that_come_later() {
        let signal = CancelSignal::default();
        let waiting = tokio::spawn({
            let signal = signal.clone();
            async move { signal.cancelled().await }
        });
        tokio::task::yield_now().await;
        assert!(!signal.is_cancelled() && signal.cancelled().now_or_never().is_none());
        signal.cancel();
        waiting.await.unwrap();
        signal.cancelled().await;
        let fired_before = CancelSignal::default();
        fired_before.cancel();
        assert!(fired_before.is_cancelled() && fired_before.cancelled().now_or_never().is_some());
    }
}
