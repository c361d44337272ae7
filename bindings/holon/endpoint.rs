//! Serves the connections that arrive at `/holon`.

use std::pin::Pin;
use std::sync::Arc;

use super::connection::HolonConnection;
use super::machine::ConnectionConfig;
use super::methods::MethodRegistry;
use super::router::RequestRouter;
use crate::peering::{Endpoint, IncomingConnection, commands, pump};

/// The WebSocket subprotocol.
pub(super) const SUBPROTOCOL: &str = "holon-web";

pub(super) struct HolonEndpoint {
    pub(super) methods: Arc<MethodRegistry>,
    pub(super) config: ConnectionConfig,
    pub(super) message_bytes_max: usize,
}

impl Endpoint for HolonEndpoint {
    fn subprotocol(&self) -> Option<&'static str> {
        Some(SUBPROTOCOL)
    }

    fn message_bytes_max(&self) -> usize {
        self.message_bytes_max
    }

    fn serve(&self, incoming: IncomingConnection) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let router = RequestRouter::new(Arc::clone(&self.methods), None, Some(incoming.principal));
        let (commands_tx, mut commands_rx) = commands();
        let mut connection = HolonConnection::new(self.config.clone(), commands_tx, router);
        let (mut transport, stop) = (incoming.transport, incoming.stop);
        Box::pin(async move {
            pump(&mut transport, &mut connection, &mut commands_rx, &stop).await;
        })
    }
}
