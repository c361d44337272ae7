//! Where the bindings find a party to speak through: the agent that a session is, or somebody without a name.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::codes::ErrorCode;
use super::driver::GatewayHandle;
use super::liaison::{LineNumber, Order};
use super::line::Line;
use super::party::{self, Errand, Script};
use super::remote_names::RemoteNames;
use crate::binding::{BindingError, Call};
use crate::peering::Link;
use crate::rpc::Kind;

/// Agents and subscriptions of scripts, over all gateways. Each holds a function of a session; a server with more has
/// scripts that register by mistake.
const PARTIES_MAX: usize = 1000;

/// How long an answer is waited for unless the call says otherwise.
const ANSWER_DEFAULT: Duration = Duration::from_secs(30);

/// A gateway elsewhere.
#[derive(Debug)]
pub(crate) struct Remote {
    pub(crate) link: Link<Order>,
    pub(crate) url: String,
}

/// An agent or a subscription of a script.
#[derive(Debug)]
struct Kept {
    errands_tx: mpsc::Sender<Errand>,
    session: String,
    stop: CancellationToken,
}

/// What a script keeps alive at a gateway.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) gateway: Option<String>,
    pub(crate) what: What,
}

/// An agent by its name, or a subscription by its number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum What {
    Agent(String),
    Subscription(u64),
}

/// What the handlers share.
#[derive(Debug)]
pub(crate) struct Desk {
    gateway: GatewayHandle,
    remotes: BTreeMap<String, Remote>,
    kept: Mutex<HashMap<Place, Kept>>,
    /// Whose the agents at gateways elsewhere are; the gateway here tells its own apart.
    pub(crate) remote_names: RemoteNames,
    numbers: AtomicU64,
}

impl Desk {
    /// `is_shared`: agents and their sessions belong to all principals together.
    pub(crate) fn new(
        gateway: GatewayHandle,
        remotes: BTreeMap<String, Remote>,
        is_shared: bool,
    ) -> Arc<Self> {
        let remote_names = RemoteNames::new(is_shared);
        Arc::new(Self { gateway, remotes, kept: Mutex::default(), remote_names, numbers: AtomicU64::new(0) })
    }

    /// The gateways elsewhere, and whether they are there.
    pub(crate) fn gateways(&self) -> Value {
        let listed = self.remotes.iter().map(|(name, remote)| {
            let mut told = json!({"name": name, "url": remote.url});
            if let (Value::Object(told), Value::Object(state)) = (&mut told, remote.link.state().to_json()) {
                told.extend(state);
            }
            told
        });
        listed.collect()
    }

    /// A number that is not used again.
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    async fn line(&self, gateway: Option<&str>, call: &Call) -> Result<Line, BindingError> {
        let opened = match gateway {
            None => Line::here(&self.gateway, &call.session.principal.name).await,
            Some(name) => {
                let remote = self.remotes.get(name).ok_or_else(|| self.unknown(name))?;
                Line::elsewhere(&remote.link, LineNumber(self.next_number())).await
            }
        };
        opened.map_err(|error| unavailable(error.to_string()))
    }

    fn unknown(&self, name: &str) -> BindingError {
        let known: Vec<&str> = self.remotes.keys().map(String::as_str).collect();
        let message = format!("no gateway {name:?}; there are {}", known.join(", "));
        BindingError::of_kind(Kind::InvalidInput, message)
    }

    /// Makes a script's function an agent or a listener. `hello` is what makes the gateway know of it.
    pub(crate) async fn keep(
        &self,
        place: Place,
        script: Script,
        hello: Map<String, Value>,
        call: &Call,
    ) -> Result<(), BindingError> {
        if let (Some(gateway), What::Agent(name)) = (&place.gateway, &place.what) {
            self.remote_names.claim(gateway, name, &call.session.principal.name)?;
        }
        let line = self.line(place.gateway.as_deref(), call).await?;
        let stop = CancellationToken::new();
        let errands_tx = party::start(line, Some(script), stop.clone());
        let told = tell(&errands_tx, hello, call).await;
        if let Err(error) = told {
            stop.cancel();
            return Err(error);
        }
        let kept = Kept { errands_tx, session: call.session.id.clone(), stop };
        let mut table = self.kept.lock();
        table.retain(|_, kept| !kept.errands_tx.is_closed());
        if table.len() >= PARTIES_MAX && !table.contains_key(&place) {
            kept.stop.cancel();
            let message = format!("more than {PARTIES_MAX} agents and subscriptions");
            return Err(BindingError::of_kind(Kind::Busy, message));
        }
        // The last one to register a name has it, here as at the gateway.
        if let Some(former) = table.insert(place, kept) {
            former.stop.cancel();
        }
        Ok(())
    }

    /// Ends an agent or a subscription, if it is the session's own.
    pub(crate) fn give_up(&self, place: &Place, session: &str) -> bool {
        let mut kept = self.kept.lock();
        let is_own =
            kept.get(place).is_some_and(|kept| kept.session == session && !kept.errands_tx.is_closed());
        if is_own && let Some(kept) = kept.remove(place) {
            kept.stop.cancel();
        }
        is_own
    }

    /// Somebody to speak through: the session's agent of that name, or one without a name that lives for this call.
    async fn party(
        &self,
        gateway: Option<&str>,
        from: Option<&str>,
        call: &Call,
    ) -> Result<mpsc::Sender<Errand>, BindingError> {
        if let Some(name) = from {
            let place = Place { gateway: gateway.map(str::to_owned), what: What::Agent(name.to_owned()) };
            let kept = self.kept.lock();
            if let Some(agent) = kept.get(&place).filter(|kept| !kept.errands_tx.is_closed()) {
                if agent.session == call.session.id {
                    return Ok(agent.errands_tx.clone());
                }
                let message = format!("{name} is an agent of another session");
                return Err(BindingError::of_kind(Kind::PermissionDenied, message));
            }
        }
        if let (Some(gateway), Some(name)) = (gateway, from) {
            self.remote_names.check(gateway, name, &call.session.principal.name)?;
        }
        let line = self.line(gateway, call).await?;
        Ok(party::start(line, None, CancellationToken::new()))
    }

    /// Sends a frame that asks for nothing, and waits until the gateway has dealt with it.
    pub(crate) async fn tell(
        &self,
        gateway: Option<&str>,
        fields: Map<String, Value>,
        call: &Call,
    ) -> Result<(), BindingError> {
        let from = fields.get("from").and_then(Value::as_str).map(str::to_owned);
        let party = self.party(gateway, from.as_deref(), call).await?;
        tell(&party, fields, call).await
    }

    /// Sends a frame that is answered, and waits for the answer.
    pub(crate) async fn ask(
        &self,
        gateway: Option<&str>,
        mut fields: Map<String, Value>,
        timeout: Option<Duration>,
        call: &Call,
    ) -> Result<Value, BindingError> {
        let from = fields.get("from").and_then(Value::as_str).map(str::to_owned);
        let party = self.party(gateway, from.as_deref(), call).await?;
        let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
        metadata["correlationId"] = json!(format!("corr-{}", uuid::Uuid::new_v4()));
        fields.entry("id").or_insert_with(|| json!(format!("msg-{}", uuid::Uuid::new_v4())));
        let wait = timeout.unwrap_or(ANSWER_DEFAULT);
        match run(&party, fields, true, wait, call).await? {
            Some(frame) if frame["type"] == "error" => Err(refused(&frame)),
            Some(frame) => Ok(frame),
            None => Err(unavailable("no answer".to_owned())),
        }
    }
}

async fn tell(
    party: &mpsc::Sender<Errand>,
    fields: Map<String, Value>,
    call: &Call,
) -> Result<(), BindingError> {
    match run(party, fields, false, ANSWER_DEFAULT, call).await? {
        Some(error) => Err(refused(&error)),
        None => Ok(()),
    }
}

async fn run(
    party: &mpsc::Sender<Errand>,
    fields: Map<String, Value>,
    wants_answer: bool,
    wait: Duration,
    call: &Call,
) -> Result<Option<Value>, BindingError> {
    let lost = || unavailable("the gateway hung up".to_owned());
    let (upshot_tx, upshot_rx) = oneshot::channel();
    party.send(Errand { fields, wants_answer, upshot_tx }).await.map_err(|_| lost())?;
    let wait = wait.min(call.deadline.saturating_duration_since(Instant::now()));
    match tokio::time::timeout(wait, upshot_rx).await {
        Ok(Ok(Ok(upshot))) => Ok(upshot),
        Ok(Ok(Err(message))) => Err(unavailable(message)),
        Ok(Err(_)) => Err(lost()),
        Err(_) => {
            Err(BindingError::of_kind(Kind::Timeout, format!("no answer within {} ms", wait.as_millis())))
        }
    }
}

fn unavailable(message: String) -> BindingError {
    BindingError::of_kind(Kind::PeerGone, message)
}

/// An error frame as a script sees it: the code of the protocol, and its name as the kind.
fn refused(frame: &Value) -> BindingError {
    let content = &frame["content"];
    let name = content["error"].as_str().or_else(|| frame["error"].as_str()).unwrap_or("AGENT_ERROR");
    let message = content["message"].as_str().unwrap_or(name);
    // The reference gateway of the specification gives the name alone.
    let of_name = || ErrorCode::number_of(name).unwrap_or(ErrorCode::AgentError.parts().0);
    let code = content["code"].as_i64().unwrap_or_else(|| i64::from(of_name()));
    BindingError::with_code(code, message).data(json!({"kind": name}))
}
