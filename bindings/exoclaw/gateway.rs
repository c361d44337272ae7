//! What the connections of the gateway share: who its agents are, what it remembers, and what it may use of the server.

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
use super::config::{self, Serve};
use super::locks::SessionLocks;
use super::model::call::Endpoint;
use super::route::{Router, SessionId, no_agent};
use super::store::{Store, StoreError};
use super::tools::Toolbox;
use super::wire::{Methods, Origin, VERSION};
use crate::binding::Principal;
use crate::client::{Client, ClientError};
use crate::peering::Host;
use crate::quota::Quotas;

/// The principal of those who come with the gateway's token.
const GUEST: &str = "exoclaw";

/// The namespace of all principals, where they share what is kept.
const SHARED: &str = "";

/// Whoever answers the messages of a session.
pub(super) enum Agent {
    Model(Arc<ModelAgent>),
    Script(ScriptAgent),
}

/// Why a request has no result. The text is what the client sees.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the server is not ready: {0}")]
    Server(String),
}

impl From<ClientError> for RequestError {
    fn from(error: ClientError) -> Self {
        Self::Server(error.to_string())
    }
}

/// The tools of the model agents, by agent.
type Toolboxes = HashMap<String, Arc<Toolbox>>;

pub(super) struct Gateway {
    pub(super) token: Option<Arc<str>>,
    /// In whose name agents act for those who come with the token: the server does not know them.
    pub(super) guest: Option<Arc<Principal>>,
    pub(super) methods: Methods,
    pub(super) budgets: Budgets,
    /// Turns that an agent is told with a message.
    pub(super) window: usize,
    pub(super) keeps_facts: bool,
    is_shared: bool,
    /// The principals that may answer for agents of scripts, by the agents' ids.
    owners: BTreeMap<String, String>,
    pub(super) scripts: ScriptAgents,
    pub(super) store: Store,
    pub(super) locks: SessionLocks,
    pub(super) http: reqwest::Client,
    /// Where chats run. Connections to providers are kept for the next one, and the threads that serve sessions are
    /// busy with scripts and may be given up.
    pub(super) runtime: Handle,
    router: Router,
    models: HashMap<String, Arc<ModelAgent>>,
    host: OnceLock<Host>,
    toolboxes: OnceCell<Toolboxes>,
}

impl Gateway {
    /// Opens the store and reads what the agents are; paths start at `folder`.
    pub(super) fn open(serve: Serve, folder: &Path) -> Result<Self, String> {
        let path = serve.memory.path.map(|path| folder.join(path));
        let token: Option<Arc<str>> = serve.token.filter(|token| !token.is_empty()).map(Arc::from);
        let guest = || Arc::new(Principal::new(GUEST, serve.policy, Quotas::default()));
        let guest = token.is_some().then(guest);
        // What was kept before sessions had principals belongs to the one that all clients were.
        let former = match &guest {
            _ if serve.shared => SHARED.to_owned(),
            Some(guest) => guest.name.clone(),
            None => Principal::anonymous().name,
        };
        let store = Store::open(path.as_deref(), &former).map_err(|error| error.to_string())?;
        let mut models = HashMap::new();
        for (id, agent) in serve.agents {
            models.insert(id, Arc::new(model_agent(agent, folder)?));
        }
        Ok(Self {
            guest,
            token,
            is_shared: serve.shared,
            owners: serve.owners,
            methods: if serve.extensions { Methods::Extended } else { Methods::Core },
            budgets: serve.budgets,
            window: serve.memory.window,
            keeps_facts: serve.memory.semantic,
            scripts: ScriptAgents::default(),
            store,
            locks: SessionLocks::default(),
            http: http_client()?,
            runtime: Handle::try_current().map_err(|error| error.to_string())?,
            router: Router::new(serve.routes, serve.strict_routing),
            models,
            host: OnceLock::new(),
            toolboxes: OnceCell::new(),
        })
    }

    /// The server has started.
    pub(super) fn attach(&self, host: Host) {
        // A second start is the same server.
        let _ = self.host.set(host);
    }

    pub(super) fn host(&self) -> Result<&Host, RequestError> {
        self.host.get().ok_or_else(|| RequestError::Server("it has not started".to_owned()))
    }

    /// Whether an agent of the configuration has that id.
    pub(super) fn is_model(&self, agent: &str) -> bool {
        self.models.contains_key(agent)
    }

    /// The session that a principal's message belongs to.
    pub(super) fn session(&self, origin: &Origin, principal: &Principal) -> Result<SessionId, RequestError> {
        self.router
            .session(origin, self.namespace(principal))
            .ok_or_else(|| RequestError::Refused(no_agent(origin)))
    }

    /// What the sessions and facts of a principal's clients are kept under.
    pub(super) fn namespace<'a>(&self, principal: &'a Principal) -> &'a str {
        if self.is_shared { SHARED } else { &principal.name }
    }

    /// Makes an agent of scripts a principal's, unless it is another's.
    pub(super) async fn claim(&self, agent: &str, principal: &Principal) -> Result<bool, StoreError> {
        match self.owners.get(agent) {
            _ if self.is_shared => Ok(true),
            Some(owner) => Ok(*owner == principal.name),
            None => self.store.claim(agent.to_owned(), principal.name.clone()).await,
        }
    }

    /// Who answers in a session.
    pub(super) fn agent(&self, session: &SessionId, origin: &Origin) -> Result<Agent, RequestError> {
        if let Some(model) = self.models.get(&session.agent) {
            return Ok(Agent::Model(Arc::clone(model)));
        }
        let script = self.scripts.get(&session.agent).map(Agent::Script);
        script.ok_or_else(|| RequestError::Refused(no_agent(origin)))
    }

    /// The tools of an agent.
    pub(super) async fn toolbox(&self, agent: &str) -> Result<Arc<Toolbox>, RequestError> {
        Ok(self.toolboxes().await?.get(agent).cloned().unwrap_or_default())
    }

    /// The names of all tools, sorted.
    pub(super) async fn tools(&self) -> Result<Vec<String>, RequestError> {
        let toolboxes = self.toolboxes().await?;
        let names: BTreeSet<&str> = toolboxes.values().flat_map(|toolbox| toolbox.names()).collect();
        Ok(names.into_iter().map(str::to_owned).collect())
    }

    /// `status`.
    pub(super) async fn status(&self, principal: &Principal) -> Result<Value, RequestError> {
        let namespace = self.namespace(principal).to_owned();
        let (tools, sessions) = (self.tools().await?, self.store.count_sessions(namespace).await?);
        Ok(json!({"version": VERSION, "plugins": tools.len(), "sessions": sessions}))
    }

    /// The server's bindings do not change while it runs, so they are asked for once.
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

fn model_agent(agent: config::ModelAgent, folder: &Path) -> Result<ModelAgent, String> {
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
        request_max: Duration::from_millis(agent.request_ms),
        idle_max: Duration::from_millis(agent.idle_ms),
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

/// Keys go to the configured endpoint and nowhere else: no redirect is followed, and no proxy is asked.
fn http_client() -> Result<reqwest::Client, String> {
    // Whoever was first has installed the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .user_agent(concat!("scomp-serve/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| error.to_string())
}
