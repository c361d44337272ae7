//! A script's connection to a gateway, the one of this server or a remote one.
//!
//! At the gateway of this server each is a connection of its own. Those to a remote gateway share a
//! link (`remote_gateway.rs`), which routes what comes in. Dropping a connection closes it.

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::ConnectionId;
use super::delivery::{Delivery, delivery_channel};
use super::driver::{GatewayHandle, GatewayStopped, Input};
use super::machine::ClientInfo;
use super::owner::Owner;
use super::pending_replies::ping_frame;
use super::remote_gateway::{LinkClientId, LinkCommand};
use crate::concurrency::ByteReceiver;
use crate::peering::{Link, LinkDown};

#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    #[error(transparent)]
    Stopped(#[from] GatewayStopped),
    #[error("the gateway is not connected: {0}")]
    Down(#[from] LinkDown),
}

#[derive(Debug)]
pub(crate) struct GatewayConnection {
    peer: Peer,
    deliveries_rx: ByteReceiver<Delivery>,
}

#[derive(Debug)]
enum Peer {
    Local { gateway: GatewayHandle, id: ConnectionId },
    Remote { link: Link<LinkCommand>, id: LinkClientId },
}

impl GatewayConnection {
    /// Connects a principal's script to the gateway of this server.
    pub(crate) async fn open_local(
        gateway: &GatewayHandle,
        principal: &str,
    ) -> Result<Self, ConnectionError> {
        // The overflow token is not watched: a sender that overflows is dropped, and the connection
        // ends after the frames that are queued.
        let (deliveries, deliveries_rx) = delivery_channel(CancellationToken::new());
        let owner = Owner::Principal(principal.to_owned());
        let client = ClientInfo { is_local: true, owner, ..ClientInfo::default() };
        let id = gateway.open(client, deliveries).await?;
        Ok(Self { peer: Peer::Local { gateway: gateway.clone(), id }, deliveries_rx })
    }

    /// Connects a script to a remote gateway, over its link.
    pub(crate) async fn open_remote(
        link: &Link<LinkCommand>,
        id: LinkClientId,
    ) -> Result<Self, ConnectionError> {
        let (deliveries, deliveries_rx) = delivery_channel(CancellationToken::new());
        link.send(LinkCommand::Open { id, deliveries }).await?;
        Ok(Self { peer: Peer::Remote { link: link.clone(), id }, deliveries_rx })
    }

    /// Sends a frame. With `wants_pong`, a `pong` arrives once the gateway has handled it.
    pub(crate) async fn send(
        &self,
        fields: Map<String, Value>,
        wants_pong: bool,
    ) -> Result<(), ConnectionError> {
        match &self.peer {
            Peer::Local { gateway, id } => {
                gateway.send(Input::Frame { id: *id, fields }).await?;
                if wants_pong {
                    gateway.send(Input::Frame { id: *id, fields: ping_frame() }).await?;
                }
                Ok(())
            }
            Peer::Remote { link, id } => {
                Ok(link.send(LinkCommand::Send { id: *id, fields, wants_pong }).await?)
            }
        }
    }

    /// Returns the next frame, or `None` when the gateway has closed the connection.
    pub(crate) async fn receive(&mut self) -> Option<Value> {
        match self.deliveries_rx.recv().await? {
            Delivery::Frame(frame) => Some(frame),
            Delivery::Close { .. } => None,
        }
    }
}

impl Drop for GatewayConnection {
    fn drop(&mut self) {
        match &self.peer {
            Peer::Local { gateway, id } => gateway.close(*id),
            Peer::Remote { link, id } => {
                let (link, id) = (link.clone(), *id);
                if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                    // A link that is down drops its closed clients when it reconnects.
                    runtime.spawn(async move { link.send(LinkCommand::Close { id }).await });
                }
            }
        }
    }
}
