//! A connection of the gateway: performs the effects of the machine, and runs its jobs as tasks.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt as _;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::gateway::Gateway;
use super::machine::{Effect, Machine};
use super::progress::{JobProgress, ProgressSender};
use super::requests;
use super::wire::Call;
use crate::binding::Principal;
use crate::peering::{Conversation, Endpoint, IncomingConnection, Outbox, commands, pump};
use crate::transport::close_code;

/// Longest message that is read, as much as the server itself reads by default. A long document
/// fits.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

pub(super) struct GatewayEndpoint(pub(super) Arc<Gateway>);

impl Endpoint for GatewayEndpoint {
    fn subprotocol(&self) -> Option<&'static str> {
        None
    }

    fn message_bytes_max(&self) -> usize {
        MESSAGE_BYTES_MAX
    }

    fn serve(&self, mut incoming: IncomingConnection) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let gateway = Arc::clone(&self.0);
        Box::pin(async move {
            let (progress_tx, mut progress_rx) = commands();
            let mut connection = Connection {
                machine: Machine::new(gateway.token.clone(), gateway.methods),
                principal: gateway.token_principal.clone().unwrap_or(incoming.principal),
                gateway,
                progress_tx,
                job: None,
            };
            let disconnect =
                pump(&mut incoming.transport, &mut connection, &mut progress_rx, &incoming.stop).await;
            tracing::debug!(?disconnect, "exoclaw client disconnected");
        })
    }
}

struct Connection {
    machine: Machine,
    gateway: Arc<Gateway>,
    principal: Arc<Principal>,
    progress_tx: mpsc::Sender<JobProgress>,
    /// The running job. It is aborted with the connection, so that a provider is not used for a
    /// client that left.
    job: Option<AbortOnDropHandle<()>>,
}

impl Connection {
    fn perform(&mut self, effects: Vec<Effect>, out: &mut Outbox) {
        for effect in effects {
            match effect {
                Effect::Send(frame) => out.send(frame),
                Effect::Close => out.close(close_code::NORMAL, "auth_failed"),
                Effect::StartJob { job, call } => self.spawn_job(job, call),
            }
        }
    }

    fn spawn_job(&mut self, job: u64, call: Call) {
        let (gateway, principal) = (Arc::clone(&self.gateway), Arc::clone(&self.principal));
        let progress = ProgressSender { job, progress_tx: self.progress_tx.clone() };
        let runtime = self.gateway.runtime.clone();
        self.job = Some(AbortOnDropHandle::new(runtime.spawn(run_job(gateway, principal, call, progress))));
    }
}

/// Reports the end of the job even if it panics: otherwise the requests queued behind it would wait
/// forever.
async fn run_job(gateway: Arc<Gateway>, principal: Arc<Principal>, call: Call, progress: ProgressSender) {
    let result = AssertUnwindSafe(requests::serve(&gateway, principal, call, &progress)).catch_unwind().await;
    let client_left = match result {
        Ok(sent) => sent.is_err(),
        Err(_) => progress.send_response(Err("internal error".to_owned())).await.is_err(),
    };
    if client_left {
        tracing::debug!(job = progress.job, "exoclaw client disconnected before the end of its request");
    }
}

impl Conversation for Connection {
    type Command = JobProgress;

    fn on_open(&mut self, now: Instant, out: &mut Outbox) {
        let effects = self.machine.on_open(now);
        self.perform(effects, out);
    }

    fn on_text(&mut self, text: &str, _now: Instant, out: &mut Outbox) {
        let effects = self.machine.on_text(text);
        self.perform(effects, out);
    }

    fn on_command(&mut self, command: JobProgress, _now: Instant, out: &mut Outbox) {
        let effects = self.machine.on_progress(command.job, &command.progress);
        self.perform(effects, out);
    }

    fn wake_at(&self) -> Option<Instant> {
        self.machine.wake_at()
    }

    fn on_wake(&mut self, now: Instant, out: &mut Outbox) {
        let effects = self.machine.on_wake(now);
        self.perform(effects, out);
    }

    fn on_binary(&mut self, _: &[u8], _: Instant, out: &mut Outbox) {
        let effects = self.machine.on_binary();
        self.perform(effects, out);
    }

    fn on_end(&mut self, _now: Instant) {
        self.job = None;
    }
}
