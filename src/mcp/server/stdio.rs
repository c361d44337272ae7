//! The MCP server over stdin and stdout, for one client that started this program.

use std::io;
use std::sync::Arc;

use rmcp::service::{RoleServer, serve_server_with_ct};
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio_util::sync::CancellationToken;

use super::gateway::Gateway;
use super::handler::Handler;
use crate::binding::Principal;

/// Serves until the input ends or `stop` is cancelled.
pub(crate) async fn serve_stdio(
    gateway: Arc<Gateway>,
    principal: Arc<Principal>,
    message_bytes_max: usize,
    stop: CancellationToken,
) -> io::Result<()> {
    let transport = AsyncRwTransport::<RoleServer, _, _>::new(tokio::io::stdin(), tokio::io::stdout())
        .with_max_line_length(message_bytes_max);
    let handler = Handler::for_principal(gateway, principal);
    let running = match serve_server_with_ct(handler, transport, stop).await {
        Ok(running) => running,
        // The input ended before the client said anything.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(io::Error::other(error.to_string())),
    };
    running.waiting().await.map(drop).map_err(io::Error::other)
}
