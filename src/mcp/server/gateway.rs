//! Code mode for MCP clients: sessions and executions behind handles, for each principal its own.
//!
//! The tables (`tables`) and the console (`console`) are pure; this opens sessions, sends code and waits. Everything runs
//! on the runtime that the gateway was made on, so that a stuck shard cannot take it along.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rmcp::model::{CallToolResponse, RequestStateCodec};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::approvals::Decision;
use super::arguments::{ExecuteInput, SessionInput, SessionOp, WaitInput};
use super::caller::Caller;
use super::error::ToolError;
use super::execution::Execution;
use super::extension::{McpExtension, NoExtension};
use super::session::Session;
use super::settings::McpSettings;
use super::tables::Tables;
use crate::binding::{Principal, Role};
use crate::catalog::Catalog;
use crate::client::EvalParams;
use crate::peering::Host;

/// How long a call waits without `waitMs`: below the minute that most clients wait for an answer.
const WAIT_DEFAULT: Duration = Duration::from_secs(50);

/// How often forgotten sessions and executions are looked for.
const EXPIRE_EVERY: Duration = Duration::from_secs(10);

/// Principals that are remembered. Each has a few tables while it has sessions, so this bounds their number only.
const PRINCIPALS_MAX: usize = 10_000;

/// Calls in the list of approvals: as many as a person reads.
const APPROVALS_LISTED_MAX: usize = 200;

/// When an execution becomes a task for a client that follows tasks and names no time: quick ones need none.
const TASK_AFTER: Duration = Duration::from_secs(2);

/// Length of the key that seals the state of requests.
const KEY_BYTES: usize = 32;

/// The name of the code in stack traces.
const SCRIPT_NAME: &str = "script";

/// What the gateway needs of its server.
pub(crate) struct GatewayConfig {
    pub(crate) host: Host,
    pub(crate) catalog: Box<dyn Fn() -> Option<Arc<Catalog>> + Send + Sync>,
    pub(crate) settings: McpSettings,
    pub(crate) message_bytes_max: usize,
    pub(crate) extension: Option<Arc<dyn McpExtension>>,
}

/// The MCP side of a server.
pub(crate) struct Gateway {
    pub(super) config: GatewayConfig,
    pub(super) extension: Arc<dyn McpExtension>,
    /// Seals the state of requests that require input, with a key of this process.
    pub(super) request_states: RequestStateCodec,
    accounts: Mutex<HashMap<String, Arc<Account>>>,
}

/// What is remembered of a principal.
pub(super) struct Account {
    tables: Mutex<Tables<Session, Execution>>,
    waits: Arc<Semaphore>,
}

impl Gateway {
    /// A gateway that forgets what is unused. Must be called within a Tokio runtime.
    pub(crate) fn start(config: GatewayConfig) -> io::Result<Arc<Self>> {
        let mut key = vec![0; KEY_BYTES];
        getrandom::fill(&mut key).map_err(io::Error::from)?;
        let request_states = RequestStateCodec::try_new(key).map_err(io::Error::other)?;
        let extension = config.extension.clone().unwrap_or_else(|| Arc::new(NoExtension));
        let gateway = Arc::new(Self { config, extension, request_states, accounts: Mutex::default() });
        tokio::spawn(expire(Arc::downgrade(&gateway)));
        Ok(gateway)
    }

    /// The account of a principal. Tokens of one name with different policies do not share sessions: a session may do
    /// what the policy allowed that it was opened with.
    pub(super) fn account(&self, principal: &Principal) -> Result<Arc<Account>, ToolError> {
        let policy = serde_json::to_string(&principal.policy).unwrap_or_default();
        let mut accounts = self.accounts.lock();
        let is_full = accounts.len() >= PRINCIPALS_MAX;
        match accounts.entry(format!("{}\n{policy}", principal.name)) {
            std::collections::hash_map::Entry::Occupied(known) => Ok(Arc::clone(known.get())),
            std::collections::hash_map::Entry::Vacant(_) if is_full => {
                let message = format!("more than {PRINCIPALS_MAX} principals have sessions");
                Err(ToolError::Refused { kind: "Busy".to_owned(), message })
            }
            std::collections::hash_map::Entry::Vacant(place) => {
                let waits = Arc::new(Semaphore::new(self.config.settings.waits_max));
                Ok(Arc::clone(place.insert(Arc::new(Account { tables: Mutex::default(), waits }))))
            }
        }
    }

    /// Runs code and waits for it.
    pub(super) async fn execute(
        &self,
        caller: &Caller,
        input: ExecuteInput,
    ) -> Result<CallToolResponse, ToolError> {
        let account = self.account(&caller.principal)?;
        let wait = match input.wait_ms {
            None if caller.follows_tasks() => TASK_AFTER,
            wait_ms => self.wait_time(wait_ms),
        };
        let known = match &input.key {
            Some(key) => account.keyed(key, request_hash(&input))?,
            None => None,
        };
        let is_new = known.is_none();
        let execution = match known {
            Some(execution) => execution,
            None => {
                let session = match &input.session {
                    Some(handle) => account.session(handle)?,
                    None => self.open_session(&account, &caller.principal).await?,
                };
                self.start_execution(&account, &session, input).await?
            }
        };
        let response = self.follow(&account, &execution, wait, caller).await?;
        if caller.is_cancelled() && is_new {
            execution.cancel().await;
        }
        let is_finished = execution.is_over() || !matches!(response, CallToolResponse::Complete(_));
        if caller.follows_tasks() && !is_finished {
            return Ok(self.create_task(&execution));
        }
        Ok(response)
    }

    async fn start_execution(
        &self,
        account: &Arc<Account>,
        session: &Arc<Session>,
        input: ExecuteInput,
    ) -> Result<Arc<Execution>, ToolError> {
        let execution = Arc::new(Execution::new(new_handle("e"), Arc::clone(session)));
        let key = input.key.clone().map(|key| (key, request_hash(&input)));
        let settings = &self.config.settings;
        // Before it is sent, so that a repetition of the call finds it.
        account.tables.lock().add_execution(
            settings,
            execution.handle.clone(),
            Arc::clone(&execution),
            key,
        )?;
        let params = EvalParams {
            code: input.code,
            timeout_ms: input.timeout_ms,
            name: Some(SCRIPT_NAME.to_owned()),
            ..EvalParams::default()
        };
        let pending = match session.client.start_eval(params).await {
            Ok(pending) => pending,
            Err(error) => {
                account.tables.lock().remove_execution(&execution.handle);
                return Err(error.into());
            }
        };
        execution.on_sent(&pending);
        let (running, account) = (Arc::clone(&execution), Arc::clone(account));
        let settings = settings.clone();
        tokio::spawn(async move {
            let keep = |text: String| {
                let id = new_handle("a");
                account.tables.lock().keep_artifact(&settings, id.clone(), text.into());
                id
            };
            running.run(pending, settings.value_bytes_max, keep).await;
        });
        Ok(execution)
    }

    /// Waits for an execution, or ends it.
    pub(super) async fn wait(
        &self,
        caller: &Caller,
        input: WaitInput,
    ) -> Result<CallToolResponse, ToolError> {
        let account = self.account(&caller.principal)?;
        let execution = account.execution(&input.execution)?;
        if input.cancel {
            execution.cancel().await;
        }
        self.follow(&account, &execution, self.wait_time(input.wait_ms), caller).await
    }

    /// How long a call may wait.
    pub(super) fn wait_time(&self, wait_ms: Option<u64>) -> Duration {
        let wait = wait_ms.map_or(WAIT_DEFAULT, Duration::from_millis);
        wait.min(Duration::from_millis(self.config.settings.wait_ms_max))
    }

    /// Lists, resets, closes or forks sessions.
    pub(super) async fn session(&self, caller: &Caller, input: SessionInput) -> Result<Value, ToolError> {
        let account = self.account(&caller.principal)?;
        if input.op == SessionOp::List {
            return Ok(json!({"sessions": account.list()}));
        }
        let Some(handle) = input.session else {
            return Err(ToolError::InvalidArguments("session: expected a handle for this op".to_owned()));
        };
        let session = account.session(&handle)?;
        match input.op {
            SessionOp::Reset => {
                session.client.invoke("session.reset", json!({})).await?;
            }
            SessionOp::Close => {
                account.tables.lock().remove_session(&handle);
                session.client.close().await;
            }
            SessionOp::Fork => return Err(ToolError::ForkUnsupported),
            SessionOp::List => {}
        }
        Ok(json!({"session": handle}))
    }

    async fn open_session(
        &self,
        account: &Account,
        principal: &Arc<Principal>,
    ) -> Result<Arc<Session>, ToolError> {
        let settings = &self.config.settings;
        let closed = account.tables.lock().reserve_session(settings, Instant::now())?;
        if let Some(closed) = closed {
            tokio::spawn(async move { closed.client.close().await });
        }
        let reserved = Reserved(account);
        let connection = self.config.host.connect_as(principal);
        let opened = Session::open(new_handle("s"), connection, self.config.message_bytes_max).await;
        let session = Arc::new(opened?);
        reserved.fill(&session);
        Ok(session)
    }

    /// The bindings that new evals see.
    pub(super) fn catalog(&self) -> Result<Arc<Catalog>, ToolError> {
        let message = "the server is stopping".to_owned();
        (self.config.catalog)().ok_or(ToolError::Refused { kind: "Busy".to_owned(), message })
    }

    /// The calls that wait for a decision of this principal: in its own sessions, or, with the role, in all.
    pub(crate) fn approvals(&self, principal: &Principal) -> Vec<Value> {
        let describe = |(handle, session, _, _): (String, Arc<Session>, Duration, usize)| {
            let asked = session.approvals.pending();
            asked
                .into_iter()
                .map(move |request| json!({"session": handle, "call": request}))
                .collect::<Vec<_>>()
        };
        let accounts = self.accounts_of(principal);
        let listed = accounts.iter().flat_map(|account| account.tables.lock().list_sessions(Instant::now()));
        listed.flat_map(describe).take(APPROVALS_LISTED_MAX).collect()
    }

    /// Decides over such a call; `false` if it does not wait any more, or belongs to another principal.
    pub(crate) fn decide(
        &self,
        principal: &Principal,
        id: &str,
        allow: bool,
        reason: Option<String>,
    ) -> bool {
        let decision = Decision { allow, reason };
        self.accounts_of(principal).iter().any(|account| {
            let sessions = account.tables.lock().list_sessions(Instant::now());
            sessions.iter().any(|(_, session, _, _)| session.approvals.decide(id, decision.clone()))
        })
    }

    fn accounts_of(&self, principal: &Principal) -> Vec<Arc<Account>> {
        let (all, own) = (principal.roles.contains(Role::Approver), format!("{}\n", principal.name));
        let accounts = self.accounts.lock();
        accounts
            .iter()
            .filter(|(key, _)| all || key.starts_with(&own))
            .map(|(_, one)| Arc::clone(one))
            .collect()
    }

    /// The text of an artifact.
    pub(super) fn artifact(&self, principal: &Principal, id: &str) -> Result<Arc<str>, ToolError> {
        let found = self.account(principal)?.tables.lock().artifact(id);
        found.ok_or_else(|| ToolError::ArtifactNotFound(id.to_owned()))
    }
}

/// A place for a session that is being opened; given back when opening fails or is called off.
struct Reserved<'a>(&'a Account);

impl Reserved<'_> {
    fn fill(self, session: &Arc<Session>) {
        let opened = (session.handle.clone(), Arc::clone(session));
        self.0.tables.lock().on_opened(Some(opened), Instant::now());
        std::mem::forget(self);
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.0.tables.lock().on_opened(None, Instant::now());
    }
}

impl Account {
    fn session(&self, handle: &str) -> Result<Arc<Session>, ToolError> {
        let found = self.tables.lock().session(handle, Instant::now());
        found.ok_or_else(|| ToolError::SessionNotFound(handle.to_owned()))
    }

    /// The execution of that handle.
    pub(super) fn execution(&self, handle: &str) -> Result<Arc<Execution>, ToolError> {
        let found = self.tables.lock().execution(handle);
        found.ok_or_else(|| ToolError::ExecutionNotFound(handle.to_owned()))
    }

    /// Takes a place among the calls that wait.
    pub(super) fn begin_wait(&self, settings: &McpSettings) -> Result<OwnedSemaphorePermit, ToolError> {
        let permit = Arc::clone(&self.waits).try_acquire_owned();
        permit.map_err(|_full| ToolError::TooManyWaits(settings.waits_max))
    }

    /// The evals that run in a session.
    pub(super) fn running_evals(&self, session: &str) -> Vec<u64> {
        self.tables.lock().running_in(session).map(|one| one.eval()).collect()
    }

    /// A session counts as used.
    pub(super) fn touch(&self, session: &str) {
        let _ = self.tables.lock().session(session, Instant::now());
    }

    fn list(&self) -> Vec<Value> {
        let listed = self.tables.lock().list_sessions(Instant::now());
        let describe = |(handle, _, idle, running): (String, Arc<Session>, Duration, usize)| {
            let idle_ms = u64::try_from(idle.as_millis()).unwrap_or(u64::MAX);
            json!({"session": handle, "running": running, "idleMs": idle_ms})
        };
        listed.into_iter().map(describe).collect()
    }

    /// The execution that a key was used for, if the request is the same.
    fn keyed(&self, key: &str, request: u64) -> Result<Option<Arc<Execution>>, ToolError> {
        let tables = self.tables.lock();
        match tables.keyed(key) {
            None => Ok(None),
            Some(known) if known.request == request => Ok(tables.execution(&known.execution)),
            Some(_) => Err(ToolError::KeyReused(key.to_owned())),
        }
    }
}

/// Closes sessions and forgets executions that were unused for long.
async fn expire(gateway: Weak<Gateway>) {
    let mut every = tokio::time::interval(EXPIRE_EVERY);
    loop {
        every.tick().await;
        let Some(gateway) = gateway.upgrade() else { return };
        let mut closed = Vec::new();
        gateway.accounts.lock().retain(|_, account| {
            let mut tables = account.tables.lock();
            closed.extend(tables.expire(&gateway.config.settings, Instant::now()));
            !tables.is_empty() || Arc::strong_count(account) > 1
        });
        for session in closed {
            session.client.close().await;
        }
    }
}

/// What has to be the same when a key is used again.
fn request_hash(input: &ExecuteInput) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&input.code, &input.session).hash(&mut hasher);
    hasher.finish()
}

/// A handle that cannot be guessed, short enough for a model to repeat.
pub(super) fn new_handle(prefix: &str) -> String {
    let random = uuid::Uuid::new_v4().simple().to_string();
    format!("{prefix}_{}", random.get(..16).unwrap_or(&random))
}
