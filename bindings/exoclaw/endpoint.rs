//! The gateway's side of a connection, between the drivers and the machine.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt as _;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::gateway::Gateway;
use super::machine::{Effect, Machine};
use super::report::{Report, Reported};
use super::requests;
use super::wire::Call;
use crate::binding::Principal;
use crate::peering::{Conversation, Endpoint, IncomingConnection, Outbox, commands, pump};
use crate::transport::close_code;

/// Longest message that is read: a long document as content, and no more than the server itself reads by default.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Where clients of the gateway arrive.
pub(super) struct GatewayEndpoint(pub(super) Arc<Gateway>);

impl Endpoint for GatewayEndpoint {
    fn subprotocol(&self) -> Option<&'static str> {
        None
    }

    fn message_bytes_max(&self) -> usize {
        MESSAGE_BYTES_MAX
    }

    fn serve(&self, mut visit: IncomingConnection) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let gateway = Arc::clone(&self.0);
        Box::pin(async move {
            let (progress_tx, mut progress_rx) = commands();
            let mut connection = Connection {
                machine: Machine::new(gateway.token.clone(), gateway.methods),
                principal: gateway.guest.clone().unwrap_or(visit.principal),
                gateway,
                progress_tx,
                job: None,
            };
            let parting = pump(&mut visit.transport, &mut connection, &mut progress_rx, &visit.stop).await;
            tracing::debug!(?parting, "a client of the gateway has left");
        })
    }
}

struct Connection {
    machine: Machine,
    gateway: Arc<Gateway>,
    principal: Arc<Principal>,
    progress_tx: mpsc::Sender<Reported>,
    /// What is being served. It ends with the connection: the provider is not asked on for nobody.
    job: Option<AbortOnDropHandle<()>>,
}

impl Connection {
    fn apply(&mut self, effects: Vec<Effect>, out: &mut Outbox) {
        for effect in effects {
            match effect {
                Effect::Send(frame) => out.send(frame),
                Effect::Close => out.close(close_code::NORMAL, "auth_failed"),
                Effect::Begin { job, call } => self.begin(job, call),
            }
        }
    }

    fn begin(&mut self, job: u64, call: Call) {
        let (gateway, principal) = (Arc::clone(&self.gateway), Arc::clone(&self.principal));
        let report = Report { job, progress_tx: self.progress_tx.clone() };
        let runtime = self.gateway.runtime.clone();
        self.job = Some(AbortOnDropHandle::new(runtime.spawn(run(gateway, principal, call, report))));
    }
}

/// Whatever happens, a job comes to an end that its connection hears of, or the requests behind it wait for ever.
async fn run(gateway: Arc<Gateway>, principal: Arc<Principal>, call: Call, report: Report) {
    let served = AssertUnwindSafe(requests::serve(&gateway, principal, call, &report)).catch_unwind().await;
    let left = match served {
        Ok(served) => served.is_err(),
        Err(_) => report.answer(Err("internal error".to_owned())).await.is_err(),
    };
    if left {
        tracing::debug!(job = report.job, "the client left before the end of its answer");
    }
}

impl Conversation for Connection {
    type Command = Reported;

    fn on_open(&mut self, now: Instant, out: &mut Outbox) {
        let effects = self.machine.on_open(now);
        self.apply(effects, out);
    }

    fn on_text(&mut self, text: &str, _now: Instant, out: &mut Outbox) {
        let effects = self.machine.on_text(text);
        self.apply(effects, out);
    }

    fn on_command(&mut self, reported: Reported, _now: Instant, out: &mut Outbox) {
        let effects = self.machine.on_progress(reported.job, &reported.progress);
        self.apply(effects, out);
    }

    fn wake_at(&self) -> Option<Instant> {
        self.machine.wake_at()
    }

    fn on_wake(&mut self, now: Instant, out: &mut Outbox) {
        let effects = self.machine.on_wake(now);
        self.apply(effects, out);
    }

    fn on_binary(&mut self, _: &[u8], _: Instant, out: &mut Outbox) {
        let effects = self.machine.on_binary();
        self.apply(effects, out);
    }

    fn on_end(&mut self, _now: Instant) {
        self.job = None;
    }
}
