//! Service scripts: code that runs from the start of the server, each in a session of its own that does not expire.
//!
//! A service is an ordinary client of its own server, over an in-process connection, so it has every binding
//! and every limit. One that fails to start is started again with back-off; so is one whose session is lost.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Server;
use crate::client::{Client, ClientError};
use crate::concurrency::{Backoff, random_fraction};
use crate::protocol::methods::EvalParams;

/// First wait before a service is started again.
const RESTART_WAIT_FIRST: Duration = Duration::from_millis(200);

/// Longest wait before a service is started again.
const RESTART_WAIT_MAX: Duration = Duration::from_secs(30);

/// The state of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum ServiceState {
    /// Its script has not returned yet.
    Starting,
    /// Its script returned; its timers and handlers run.
    Running,
    /// It failed and will be restarted.
    Failed {
        /// The message and stack of the failure.
        error: String,
    },
}

/// A service, for the operator.
#[derive(Debug, Clone, Serialize)]
pub struct Service {
    /// The file name of its script.
    pub name: String,
    /// Its current state.
    #[serde(flatten)]
    pub state: ServiceState,
    /// How often it was started.
    pub starts: u64,
}

/// The services of a server.
#[derive(Debug, Clone)]
pub struct Services(Arc<watch::Sender<Vec<Service>>>);

impl Default for Services {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Vec::new())))
    }
}

impl Services {
    /// All of them.
    pub fn list(&self) -> Vec<Service> {
        self.0.borrow().clone()
    }

    /// Waits until each script has returned or failed.
    pub async fn wait_until_started(&self) {
        let is_settled = |services: &Vec<Service>| {
            services.iter().all(|service| service.starts > 0 && service.state != ServiceState::Starting)
        };
        // `self` holds the sender, so it cannot be gone.
        let _ = self.0.subscribe().wait_for(is_settled).await;
    }

    /// Starts the scripts; they stop with the server.
    pub(super) fn start(&self, server: &Server, scripts: Vec<PathBuf>, stop: &CancellationToken) {
        for script in scripts {
            let name = script.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let index = self.0.borrow().len();
            let service = Service { name: name.clone(), state: ServiceState::Starting, starts: 0 };
            self.0.send_modify(|services| services.push(service));
            let (services, server, stop) = (self.clone(), server.clone(), stop.clone());
            tokio::spawn(async move {
                tokio::select! {
                    () = services.keep_running(index, &name, &script, &server) => {}
                    () = stop.cancelled() => {}
                }
            });
        }
    }

    async fn keep_running(&self, index: usize, name: &str, script: &Path, server: &Server) {
        let mut backoff = Backoff::new(RESTART_WAIT_FIRST, RESTART_WAIT_MAX);
        loop {
            self.note(index, ServiceState::Starting);
            match run(name, script, server).await {
                Ok(client) => {
                    tracing::info!(service = name, "service started");
                    self.note(index, ServiceState::Running);
                    backoff.reset();
                    client.closed().await;
                    self.note(index, ServiceState::Failed { error: "session lost".to_owned() });
                }
                Err(error) => {
                    tracing::error!(service = name, %error, "service failed to start");
                    self.note(index, ServiceState::Failed { error });
                }
            }
            tokio::time::sleep(backoff.next_wait(random_fraction())).await;
        }
    }

    fn note(&self, index: usize, state: ServiceState) {
        self.0.send_modify(|services| {
            if let Some(service) = services.get_mut(index) {
                service.starts += u64::from(state == ServiceState::Starting);
                service.state = state;
            }
        });
    }
}

/// Runs a script to its end; its session lives as long as the client that is returned.
async fn run(name: &str, script: &Path, server: &Server) -> Result<Client, String> {
    let code = tokio::fs::read_to_string(script).await.map_err(|error| error.to_string())?;
    let service = name.to_owned();
    let client = Client::builder()
        .on_console(move |line| tracing::info!(service, level = line.level, "{}", line.text))
        .connect_transport(server.connect())
        .await
        .map_err(|error| error.to_string())?;
    let params = EvalParams { code, name: Some(name.to_owned()), ..EvalParams::default() };
    match client.eval_with(params).await {
        Ok(_) => Ok(client),
        Err(error) => Err(describe(&error)),
    }
}

fn describe(error: &ClientError) -> String {
    let stack = error.rpc().and_then(|error| error.data.as_ref()?.get("stack")?.as_str());
    match stack {
        Some(stack) => format!("{error}\n{}", stack.trim_end()),
        None => error.to_string(),
    }
}
