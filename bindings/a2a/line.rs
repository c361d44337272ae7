//! A script's connection to a gateway, ours or one elsewhere: frames out, frames in.
//!
//! To our own gateway each line is a connection. To one elsewhere all lines share a link (`liaison.rs`), which sorts
//! what comes in. Dropping a line hangs up.

use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::ConnectionId;
use super::correspondence::ping;
use super::driver::{GatewayHandle, Input, Stopped};
use super::liaison::{LineNumber, Order};
use super::machine::Arrival;
use super::outlet::{Delivery, outlet};
use super::owner::Owner;
use crate::peering::{Link, LinkDown};

/// Why a line cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LineError {
    #[error(transparent)]
    Stopped(#[from] Stopped),
    #[error("the gateway is not connected: {0}")]
    Down(#[from] LinkDown),
}

/// A connection to a gateway.
#[derive(Debug)]
pub(crate) struct Line {
    far_end: FarEnd,
    deliveries_rx: mpsc::Receiver<Delivery>,
}

#[derive(Debug)]
enum FarEnd {
    Here { gateway: GatewayHandle, id: ConnectionId },
    Elsewhere { link: Link<Order>, number: LineNumber },
}

impl Line {
    /// A line to the gateway of this server, for a principal's script.
    pub(crate) async fn here(gateway: &GatewayHandle, principal: &str) -> Result<Self, LineError> {
        // Nobody looks at the token: an outlet that is overrun is dropped, and the line ends after what it holds.
        let (outlet, deliveries_rx) = outlet(CancellationToken::new());
        let arrival =
            Arrival { is_local: true, owner: Owner::Principal(principal.to_owned()), ..Arrival::default() };
        let id = gateway.open(arrival, outlet).await?;
        let far_end = FarEnd::Here { gateway: gateway.clone(), id };
        Ok(Self { far_end, deliveries_rx })
    }

    /// A line to a gateway elsewhere.
    pub(crate) async fn elsewhere(link: &Link<Order>, number: LineNumber) -> Result<Self, LineError> {
        let (outlet, deliveries_rx) = outlet(CancellationToken::new());
        link.send(Order::Open { number, outlet }).await?;
        let far_end = FarEnd::Elsewhere { link: link.clone(), number };
        Ok(Self { far_end, deliveries_rx })
    }

    /// Sends a frame; `fenced` with a ping behind it, whose echo tells that the gateway has dealt with it.
    pub(crate) async fn send(&self, fields: Map<String, Value>, fenced: bool) -> Result<(), LineError> {
        match &self.far_end {
            FarEnd::Here { gateway, id } => {
                gateway.send(Input::Frame { id: *id, fields }).await?;
                if fenced {
                    gateway.send(Input::Frame { id: *id, fields: ping() }).await?;
                }
                Ok(())
            }
            FarEnd::Elsewhere { link, number } => {
                Ok(link.send(Order::Send { number: *number, fields, fenced }).await?)
            }
        }
    }

    /// The next frame; none when the gateway hung up.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        match self.deliveries_rx.recv().await? {
            Delivery::Frame(frame, _) => Some(frame),
            Delivery::Close { .. } => None,
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        match &self.far_end {
            FarEnd::Here { gateway, id } => gateway.end(*id),
            FarEnd::Elsewhere { link, number } => {
                let (link, number) = (link.clone(), *number);
                if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                    // A link that is down has nobody to tell, and notices by itself that nobody listens.
                    runtime.spawn(async move { link.send(Order::HangUp { number }).await });
                }
            }
        }
    }
}
