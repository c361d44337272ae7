//! Writing to a peer with patience that ends, and saying goodbye: the same for every driver.

use std::pin::pin;
use std::time::Duration;

use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use tokio::time::timeout;

use super::{Frame, Outgoing, Transport};

/// How long a peer may leave its socket full before it counts as gone.
/// A healthy peer reads at once; a minute of patience would be a minute of memory.
const WRITE_STALL_MAX: Duration = Duration::from_secs(15);

/// How long we wait for the other side of a close.
const CLOSE_WAIT_MAX: Duration = Duration::from_secs(2);

/// Why nothing more can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteError {
    /// The peer is gone.
    Gone,
    /// It reads too slowly.
    TooSlow,
}

/// Puts a frame on its way; it goes with the next flush.
pub async fn feed<T: Transport>(transport: &mut T, out: Outgoing) -> Result<(), WriteError> {
    within_patience(transport.feed(out)).await
}

/// Sends what was put on its way.
pub async fn flush<T: Transport>(transport: &mut T) -> Result<(), WriteError> {
    within_patience(transport.flush()).await
}

async fn within_patience<E>(written: impl Future<Output = Result<(), E>>) -> Result<(), WriteError> {
    let mut written = pin!(written);
    // What the socket takes at once, which is nearly everything, needs no timer.
    let written = match written.as_mut().now_or_never() {
        Some(written) => Ok(written),
        None => timeout(WRITE_STALL_MAX, written).await,
    };
    match written {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(WriteError::Gone),
        Err(_) => Err(WriteError::TooSlow),
    }
}

/// Delivers what was fed before the end, within a moment.
pub async fn flush_last<T: Transport>(transport: &mut T) {
    // Whoever does not take it is gone all the same.
    let _ = timeout(CLOSE_WAIT_MAX, transport.flush()).await;
}

/// Says goodbye and waits a moment for the other side to do so too.
pub async fn close<T: Transport>(transport: &mut T, code: u16, reason: String) {
    let goodbye = async {
        transport.send(Outgoing::Close { code, reason }).await?;
        while let Some(frame) = transport.next().await {
            if matches!(frame?, Frame::Closed { .. }) {
                break;
            }
        }
        transport.close().await
    };
    // Whoever does not answer the goodbye is gone all the same.
    let _ = timeout(CLOSE_WAIT_MAX, goodbye).await;
}
