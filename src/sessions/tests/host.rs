//! A second [`SessionHost`]: its sessions run no JavaScript, and answer an eval with its code.

use std::future::ready;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::value::to_raw_value;
use tokio::sync::mpsc;

use super::*;
use crate::binding::Handlers;
use crate::session::boundary::{FromSession, SessionInfo};
use crate::sessions::host::{HostedSession, NewSession, SessionHost};
use crate::sessions::link::SessionLink;
use crate::sessions::port::SessionPort;

/// Code at which the session is lost, as if its process had crashed.
pub(super) const CRASH: &str = "crash";

/// Code at which the session ends by itself.
pub(super) const CLOSE: &str = "close";

pub(super) struct TestHost {
    pub(super) handlers: Arc<Handlers>,
    pub(super) limits: Arc<Limits>,
    pub(super) shard: usize,
}

impl SessionHost for TestHost {
    fn start(&self, session: NewSession) -> BoxFuture<'_, Result<HostedSession, ErrorObject>> {
        let (link, inbox_rx) = SessionLink::new();
        let (handlers, limits) = (Arc::clone(&self.handlers), Arc::clone(&self.limits));
        let port = SessionPort::new(Arc::clone(&link), session.scope, handlers, limits, &Arc::default());
        tokio::task::spawn_local(serve(port, inbox_rx));
        Box::pin(ready(Ok(HostedSession { link, shard: self.shard })))
    }
}

async fn serve(port: SessionPort, mut inbox_rx: mpsc::Receiver<ToSession>) {
    let mut holder = None;
    while let Some(message) = inbox_rx.recv().await {
        match message {
            ToSession::Attach { connection, .. } => {
                if let Some(connection) = holder.replace(connection) {
                    let event = ToClient::Close(Closing::TakenOver);
                    port.receive(FromSession::Client { connection, event });
                }
                port.receive(FromSession::Attached { connection, evals_queued: 0 });
            }
            ToSession::Detach { connection } => {
                holder.take_if(|holder| *holder == connection);
            }
            ToSession::Client { connection, command: FromClient::Eval { request, params }, .. } => {
                match params.code.as_str() {
                    CRASH => return,
                    CLOSE => return end(&port, inbox_rx, holder, Closing::ByClient),
                    code => {
                        let outcome = Ok(to_raw_value(code).unwrap());
                        let event = ToClient::Answered { request, outcome };
                        port.receive(FromSession::Client { connection, event });
                    }
                }
            }
            ToSession::Inspect { request } => {
                port.receive(FromSession::Info { request, info: SessionInfo::default() });
            }
            ToSession::End(closing) => return end(&port, inbox_rx, holder, closing),
            other => panic!("{other:?}"),
        }
    }
}

fn end(
    port: &SessionPort,
    mut inbox_rx: mpsc::Receiver<ToSession>,
    connection: Option<u64>,
    closing: Closing,
) {
    inbox_rx.close();
    port.receive(FromSession::Ended { connection, closing });
}
