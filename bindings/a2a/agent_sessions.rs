//! The agents and subscriptions that scripts have registered, and the tasks that send frames for
//! them.
//!
//! A call sends through the session's agent when it names one in `from`, else through an anonymous
//! task that lives for that call.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::agent_task::{self, OutgoingFrame, ScriptCallback};
use super::codes::ErrorCode;
use super::driver::GatewayHandle;
use super::gateway_connection::GatewayConnection;
use super::remote_gateway::{LinkClientId, LinkCommand};
use super::remote_names::RemoteNames;
use crate::binding::{BindingError, Call};
use crate::peering::Link;
use crate::rpc::Kind;

/// Agents and subscriptions of scripts, over all gateways. Each holds a function of a session; a
/// server with more has scripts that register by mistake.
const REGISTRATIONS_MAX: usize = 1000;

/// Time to wait for a reply unless the call sets another.
const REPLY_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// The link to a configured remote gateway.
#[derive(Debug)]
pub(crate) struct GatewayLink {
    pub(crate) link: Link<LinkCommand>,
    pub(crate) url: String,
}

/// A running agent or subscription of a script.
#[derive(Debug)]
struct Registration {
    frames_tx: mpsc::Sender<OutgoingFrame>,
    session: String,
    stop: CancellationToken,
}

/// Identifies a registration. `gateway` is a configured remote gateway, or `None` for the gateway
/// of this server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RegistrationKey {
    pub(crate) gateway: Option<String>,
    pub(crate) kind: RegistrationKind,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum RegistrationKind {
    Agent(String),
    Subscription(u64),
}

/// The state that all handlers share.
#[derive(Debug)]
pub(crate) struct AgentSessions {
    gateway: GatewayHandle,
    remotes: BTreeMap<String, GatewayLink>,
    registrations: Mutex<HashMap<RegistrationKey, Registration>>,
    /// Owners of the agents at remote gateways; the gateway of this server checks its own.
    pub(crate) remote_names: RemoteNames,
    ids: AtomicU64,
}

impl AgentSessions {
    /// With `is_shared`, all principals share agents and their sessions.
    pub(crate) fn new(
        gateway: GatewayHandle,
        remotes: BTreeMap<String, GatewayLink>,
        is_shared: bool,
    ) -> Arc<Self> {
        let remote_names = RemoteNames::new(is_shared);
        let (registrations, ids) = (Mutex::default(), AtomicU64::new(0));
        Arc::new(Self { gateway, remotes, registrations, remote_names, ids })
    }

    /// Lists the remote gateways with the states of their links.
    pub(crate) fn list_gateways(&self) -> Value {
        let listed = self.remotes.iter().map(|(name, remote)| {
            let mut entry = json!({"name": name, "url": remote.url});
            if let (Value::Object(entry), Value::Object(state)) = (&mut entry, remote.link.state().to_json())
            {
                entry.extend(state);
            }
            entry
        });
        listed.collect()
    }

    /// Returns an id that is never reused.
    pub(crate) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    async fn connect(&self, gateway: Option<&str>, call: &Call) -> Result<GatewayConnection, BindingError> {
        let connection = match gateway {
            None => GatewayConnection::open_local(&self.gateway, &call.session.principal.name).await,
            Some(name) => {
                let remote = self.remotes.get(name).ok_or_else(|| self.unknown_gateway(name))?;
                GatewayConnection::open_remote(&remote.link, LinkClientId(self.next_id())).await
            }
        };
        connection.map_err(|error| peer_gone(error.to_string()))
    }

    fn unknown_gateway(&self, name: &str) -> BindingError {
        let known: Vec<&str> = self.remotes.keys().map(String::as_str).collect();
        let message = format!("unknown gateway {name:?}, expected one of: {}", known.join(", "));
        BindingError::of_kind(Kind::InvalidInput, message)
    }

    /// Registers a script's function as an agent or a subscriber. `first_frame` is the handshake or
    /// subscription that the gateway must accept.
    pub(crate) async fn register(
        &self,
        key: RegistrationKey,
        callback: ScriptCallback,
        first_frame: Map<String, Value>,
        call: &Call,
    ) -> Result<(), BindingError> {
        if let (Some(gateway), RegistrationKind::Agent(name)) = (&key.gateway, &key.kind) {
            self.remote_names.claim(gateway, name, &call.session.principal.name)?;
        }
        let connection = self.connect(key.gateway.as_deref(), call).await?;
        let stop = CancellationToken::new();
        let frames_tx = agent_task::spawn(connection, Some(callback), stop.clone());
        if let Err(error) = send_frame(&frames_tx, first_frame, call).await {
            stop.cancel();
            return Err(error);
        }
        let registration = Registration { frames_tx, session: call.session.id.clone(), stop };
        let mut registrations = self.registrations.lock();
        registrations.retain(|_, registration| !registration.frames_tx.is_closed());
        if registrations.len() >= REGISTRATIONS_MAX && !registrations.contains_key(&key) {
            registration.stop.cancel();
            let message = format!("more than {REGISTRATIONS_MAX} agents and subscriptions");
            return Err(BindingError::of_kind(Kind::Busy, message));
        }
        // As at the gateway, the latest registration of a name replaces the former one.
        if let Some(former) = registrations.insert(key, registration) {
            former.stop.cancel();
        }
        Ok(())
    }

    /// Ends an agent or a subscription if it belongs to the session; returns whether it did.
    pub(crate) fn unregister(&self, key: &RegistrationKey, session: &str) -> bool {
        let mut registrations = self.registrations.lock();
        let is_own = registrations.get(key).is_some_and(|registration| {
            registration.session == session && !registration.frames_tx.is_closed()
        });
        if is_own && let Some(registration) = registrations.remove(key) {
            registration.stop.cancel();
        }
        is_own
    }

    /// Returns the task to send through: the session's agent `from`, or an anonymous one for this
    /// call.
    async fn find_or_spawn_task(
        &self,
        gateway: Option<&str>,
        from: Option<&str>,
        call: &Call,
    ) -> Result<mpsc::Sender<OutgoingFrame>, BindingError> {
        if let Some(name) = from {
            let kind = RegistrationKind::Agent(name.to_owned());
            let key = RegistrationKey { gateway: gateway.map(str::to_owned), kind };
            let registrations = self.registrations.lock();
            if let Some(agent) = registrations.get(&key).filter(|agent| !agent.frames_tx.is_closed()) {
                if agent.session == call.session.id {
                    return Ok(agent.frames_tx.clone());
                }
                let message = format!("{name} is an agent of another session");
                return Err(BindingError::of_kind(Kind::PermissionDenied, message));
            }
        }
        if let (Some(gateway), Some(name)) = (gateway, from) {
            self.remote_names.check_owner(gateway, name, &call.session.principal.name)?;
        }
        let connection = self.connect(gateway, call).await?;
        Ok(agent_task::spawn(connection, None, CancellationToken::new()))
    }

    /// Sends a frame that expects no reply, and waits until the gateway has handled it.
    pub(crate) async fn send(
        &self,
        gateway: Option<&str>,
        fields: Map<String, Value>,
        call: &Call,
    ) -> Result<(), BindingError> {
        let from = fields.get("from").and_then(Value::as_str).map(str::to_owned);
        let frames_tx = self.find_or_spawn_task(gateway, from.as_deref(), call).await?;
        send_frame(&frames_tx, fields, call).await
    }

    /// Sends a frame and waits for its reply.
    pub(crate) async fn request(
        &self,
        gateway: Option<&str>,
        mut fields: Map<String, Value>,
        timeout: Option<Duration>,
        call: &Call,
    ) -> Result<Value, BindingError> {
        let from = fields.get("from").and_then(Value::as_str).map(str::to_owned);
        let frames_tx = self.find_or_spawn_task(gateway, from.as_deref(), call).await?;
        let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
        metadata["correlationId"] = json!(format!("corr-{}", uuid::Uuid::new_v4()));
        fields.entry("id").or_insert_with(|| json!(format!("msg-{}", uuid::Uuid::new_v4())));
        let wait = timeout.unwrap_or(REPLY_TIMEOUT_DEFAULT);
        match exchange(&frames_tx, fields, true, wait, call).await? {
            Some(frame) if frame["type"] == "error" => Err(to_binding_error(&frame)),
            Some(frame) => Ok(frame),
            None => Err(peer_gone("the gateway sent no reply".to_owned())),
        }
    }
}

async fn send_frame(
    frames_tx: &mpsc::Sender<OutgoingFrame>,
    fields: Map<String, Value>,
    call: &Call,
) -> Result<(), BindingError> {
    match exchange(frames_tx, fields, false, REPLY_TIMEOUT_DEFAULT, call).await? {
        Some(error) => Err(to_binding_error(&error)),
        None => Ok(()),
    }
}

async fn exchange(
    frames_tx: &mpsc::Sender<OutgoingFrame>,
    fields: Map<String, Value>,
    expects_reply: bool,
    wait: Duration,
    call: &Call,
) -> Result<Option<Value>, BindingError> {
    let closed = || peer_gone("the connection to the gateway was closed".to_owned());
    let (reply_tx, reply_rx) = oneshot::channel();
    frames_tx.send(OutgoingFrame { fields, expects_reply, reply_tx }).await.map_err(|_| closed())?;
    let wait = wait.min(call.deadline.saturating_duration_since(Instant::now()));
    match tokio::time::timeout(wait, reply_rx).await {
        Ok(Ok(Ok(reply))) => Ok(reply),
        Ok(Ok(Err(message))) => Err(peer_gone(message)),
        Ok(Err(_)) => Err(closed()),
        Err(_) => {
            Err(BindingError::of_kind(Kind::Timeout, format!("no reply within {} ms", wait.as_millis())))
        }
    }
}

fn peer_gone(message: String) -> BindingError {
    BindingError::of_kind(Kind::PeerGone, message)
}

/// Converts an error frame: a script sees the code of the protocol, and its name as the kind.
fn to_binding_error(frame: &Value) -> BindingError {
    let content = &frame["content"];
    let name = content["error"].as_str().or_else(|| frame["error"].as_str()).unwrap_or("AGENT_ERROR");
    let message = content["message"].as_str().unwrap_or(name);
    // The reference gateway of the specification sends the name alone.
    let code_of_name = || ErrorCode::number_of(name).unwrap_or(ErrorCode::AgentError.parts().0);
    let code = content["code"].as_i64().unwrap_or_else(|| i64::from(code_of_name()));
    BindingError::with_code(code, message).data(json!({"kind": name}))
}
