//! The state that all connections of the gateway share: its agents, its store, and its access to
//! the server.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::OnceCell;

use super::agents::model::ModelAgent;
use super::agents::script::{ScriptAgent, ScriptAgents};
use super::budget::Budgets;
use super::config::{ModelAgentConfig, ServeConfig};
use super::locks::SessionLocks;
use super::model::call::Endpoint;
use super::route::{Router, SessionId, no_agent_error};
use super::store::{Store, StoreError};
use super::tools::Toolbox;
use super::wire::{Methods, Origin, VERSION};
use crate::binding::Principal;
use crate::client::{Client, ClientError};
use crate::peering::Host;
use crate::quota::Quotas;

/// The principal of clients that authenticate with the gateway's token.
const TOKEN_PRINCIPAL: &str = "exoclaw";

/// The namespace of sessions and facts if all principals share them.
const SHARED_NAMESPACE: &str = "";

/// What answers the messages of a session.
pub(super) enum Agent {
    Model(Arc<ModelAgent>),
    Script(ScriptAgent),
}

/// Why a request failed. The client gets the text.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    #[error("{0}")]
    Rejected(String),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("server not ready: {0}")]
    NotReady(String),
}

impl From<ClientError> for RequestError {
    fn from(error: ClientError) -> Self {
        Self::NotReady(error.to_string())
    }
}

/// The tools of the model agents, by agent id.
type Toolboxes = HashMap<String, Arc<Toolbox>>;

pub(super) struct Gateway {
    pub(super) token: Option<Arc<str>>,
    /// The principal of clients that authenticate with the token: the server has not authenticated
    /// them.
    pub(super) token_principal: Option<Arc<Principal>>,
    pub(super) methods: Methods,
    pub(super) budgets: Budgets,
    /// Earlier turns that an agent gets with a message.
    pub(super) window: usize,
    pub(super) stores_facts: bool,
    is_shared: bool,
    /// By agent id, the only principal whose scripts may register the agent.
    owners: BTreeMap<String, String>,
    pub(super) scripts: ScriptAgents,
    pub(super) store: Store,
    pub(super) locks: SessionLocks,
    pub(super) http: reqwest::Client,
    /// Where chats run. Connections to providers are pooled, so they do not belong on a shard,
    /// which is busy with scripts and is replaced when it is stuck.
    pub(super) runtime: Handle,
    router: Router,
    models: HashMap<String, Arc<ModelAgent>>,
    host: OnceLock<Host>,
    toolboxes: OnceCell<Toolboxes>,
}

impl Gateway {
    /// Opens the store and loads the model agents. Paths are relative to `folder`.
    pub(super) fn open(serve: ServeConfig, folder: &Path) -> Result<Self, String> {
        let path = serve.memory.path.map(|path| folder.join(path));
        let token: Option<Arc<str>> = serve.token.filter(|token| !token.is_empty()).map(Arc::from);
        let token_principal = || Arc::new(Principal::new(TOKEN_PRINCIPAL, serve.policy, Quotas::default()));
        let token_principal = token.is_some().then(token_principal);
        // Files from before sessions had principals belong to the single principal that all clients
        // had.
        let legacy_principal = match &token_principal {
            _ if serve.shared => SHARED_NAMESPACE.to_owned(),
            Some(principal) => principal.name.clone(),
            None => Principal::anonymous().name,
        };
        let store = Store::open(path.as_deref(), &legacy_principal).map_err(|error| error.to_string())?;
        let mut models = HashMap::new();
        for (id, agent) in serve.agents {
            models.insert(id, Arc::new(load_model_agent(agent, folder)?));
        }
        Ok(Self {
            token_principal,
            token,
            is_shared: serve.shared,
            owners: serve.owners,
            methods: if serve.extensions { Methods::Extended } else { Methods::Core },
            budgets: serve.budgets,
            window: serve.memory.window,
            stores_facts: serve.memory.semantic,
            scripts: ScriptAgents::default(),
            store,
            locks: SessionLocks::default(),
            http: build_http_client()?,
            runtime: Handle::try_current().map_err(|error| error.to_string())?,
            router: Router::new(serve.routes, serve.strict_routing),
            models,
            host: OnceLock::new(),
            toolboxes: OnceCell::new(),
        })
    }

    /// Sets the server that the gateway belongs to, when it has started.
    pub(super) fn set_host(&self, host: Host) {
        // Fails on a second start, which is that of the same server.
        let _ = self.host.set(host);
    }

    pub(super) fn host(&self) -> Result<&Host, RequestError> {
        self.host.get().ok_or_else(|| RequestError::NotReady("it has not started".to_owned()))
    }

    /// Whether a configured model has that agent id.
    pub(super) fn is_model(&self, agent: &str) -> bool {
        self.models.contains_key(agent)
    }

    /// Returns the session that a principal's message belongs to.
    pub(super) fn find_session(
        &self,
        origin: &Origin,
        principal: &Principal,
    ) -> Result<SessionId, RequestError> {
        self.router
            .route(origin, self.namespace(principal))
            .ok_or_else(|| RequestError::Rejected(no_agent_error(origin)))
    }

    /// The name under which a principal's sessions and facts are stored.
    pub(super) fn namespace<'a>(&self, principal: &'a Principal) -> &'a str {
        if self.is_shared { SHARED_NAMESPACE } else { &principal.name }
    }

    /// Makes a principal the owner of a script agent. Returns false if it belongs to another
    /// principal.
    pub(super) async fn claim_agent(&self, agent: &str, principal: &Principal) -> Result<bool, StoreError> {
        match self.owners.get(agent) {
            _ if self.is_shared => Ok(true),
            Some(owner) => Ok(*owner == principal.name),
            None => self.store.claim_agent(agent.to_owned(), principal.name.clone()).await,
        }
    }

    pub(super) fn find_agent(&self, session: &SessionId, origin: &Origin) -> Result<Agent, RequestError> {
        if let Some(model) = self.models.get(&session.agent) {
            return Ok(Agent::Model(Arc::clone(model)));
        }
        let script = self.scripts.get(&session.agent).map(Agent::Script);
        script.ok_or_else(|| RequestError::Rejected(no_agent_error(origin)))
    }

    pub(super) async fn toolbox(&self, agent: &str) -> Result<Arc<Toolbox>, RequestError> {
        Ok(self.toolboxes().await?.get(agent).cloned().unwrap_or_default())
    }

    /// The names of the tools of all agents, sorted.
    pub(super) async fn tool_names(&self) -> Result<Vec<String>, RequestError> {
        let toolboxes = self.toolboxes().await?;
        let names: BTreeSet<&str> = toolboxes.values().flat_map(|toolbox| toolbox.names()).collect();
        Ok(names.into_iter().map(str::to_owned).collect())
    }

    /// The result of the method `status`.
    pub(super) async fn status(&self, principal: &Principal) -> Result<Value, RequestError> {
        let namespace = self.namespace(principal).to_owned();
        let (tools, sessions) = (self.tool_names().await?, self.store.count_sessions(namespace).await?);
        Ok(json!({"version": VERSION, "plugins": tools.len(), "sessions": sessions}))
    }

    /// Built once: the server's bindings do not change while it runs.
    async fn toolboxes(&self) -> Result<&Toolboxes, RequestError> {
        self.toolboxes
            .get_or_try_init(|| async {
                let client = Client::builder().connect_transport(self.host()?.connect()).await?;
                let declarations = client.bindings();
                client.invoke("session.close", json!({})).await?;
                let toolbox = |agent: &ModelAgent| Toolbox::new(&declarations, &agent.tools, agent.has_eval);
                Ok(self.models.iter().map(|(id, agent)| (id.clone(), Arc::new(toolbox(agent)))).collect())
            })
            .await
    }
}

fn load_model_agent(agent: ModelAgentConfig, folder: &Path) -> Result<ModelAgent, String> {
    let soul = match agent.soul {
        Some(path) => {
            let path = folder.join(path);
            let unreadable = |error: std::io::Error| format!("{}: {error}", path.display());
            Some(std::fs::read_to_string(&path).map_err(unreadable)?)
        }
        None => None,
    };
    let system: Vec<String> = [agent.system_prompt, soul].into_iter().flatten().collect();
    let endpoint = Endpoint {
        provider: agent.provider,
        url: agent.endpoint.unwrap_or_else(|| agent.provider.endpoint().to_owned()),
        key: agent.api_key.unwrap_or_default(),
        request_timeout: Duration::from_millis(agent.request_ms),
        idle_timeout: Duration::from_millis(agent.idle_ms),
    };
    Ok(ModelAgent {
        endpoint,
        model: agent.model,
        tokens_max: agent.max_tokens,
        system: (!system.is_empty()).then(|| system.join("\n\n")),
        tools: agent.tools,
        has_eval: agent.eval,
    })
}

/// API keys must reach only the configured endpoint, so the client follows no redirects and uses no
/// proxy.
fn build_http_client() -> Result<reqwest::Client, String> {
    // Fails if a provider is installed already, which is then the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .user_agent(concat!("scomp-serve/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| error.to_string())
}
