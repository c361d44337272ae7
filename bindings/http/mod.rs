//! HTTP requests for scripts, to listed hosts only.
//!
//! Redirects are followed here and not by the HTTP library, because each hop has to pass the list,
//! and because credentials must not be sent to another origin. No proxy is used: it would bypass
//! the check of resolved addresses.

mod allow;
mod fetch;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use super::{Handlers, PackageContext, PackageInstance};
use crate::binding::{BindingError, Call};
use crate::package::Bindings;
use allow::{AllowList, GuardedResolver};
use fetch::Fetcher;

/// Default longest body of a request or a response.
const BODY_BYTES_DEFAULT: usize = 1 << 20;

/// Default timeout of a request with its redirects; below the timeout of the binding.
const TIMEOUT_MS_DEFAULT: u64 = 30_000;

/// Default number of redirects to follow. Browsers stop at 20; few sites need more than 3.
const REDIRECTS_DEFAULT: usize = 10;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    #[serde(default)]
    hosts: Vec<String>,
    #[serde(default = "methods_default")]
    methods: Vec<String>,
    bytes_max: Option<usize>,
    timeout_ms: Option<u64>,
    redirects_max: Option<usize>,
}

fn methods_default() -> Vec<String> {
    vec!["GET".to_owned(), "HEAD".to_owned()]
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum BodyEncoding {
    #[default]
    Text,
    Base64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestInput {
    url: String,
    method: Option<String>,
    #[serde(default)]
    headers: std::collections::BTreeMap<String, String>,
    body: Option<String>,
    #[serde(default)]
    body_encoding: BodyEncoding,
    #[serde(default)]
    redirect: Redirect,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Redirect {
    #[default]
    Follow,
    Manual,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ResponseOutput {
    status: u16,
    url: String,
    headers: std::collections::BTreeMap<String, String>,
    body: String,
    body_encoding: BodyEncoding,
}

/// Opens the package.
pub async fn open(context: PackageContext) -> Result<PackageInstance, String> {
    Ok(context.bind(handlers(&context.config)?).into())
}

/// State of the handler.
struct HttpClient {
    fetcher: Fetcher,
    /// Connections are pooled, so they belong to the runtime that loads packages: the shards are
    /// busy with scripts, and a stuck shard is replaced.
    runtime: Handle,
}

fn handlers(config: &Value) -> Result<Handlers, String> {
    let config = Config::deserialize(config).map_err(|error| error.to_string())?;
    let runtime = Handle::try_current().map_err(|error| error.to_string())?;
    let client = HttpClient { fetcher: build_fetcher(config)?, runtime };
    Ok(Bindings::with(Arc::new(client)).on("http.request", request).into())
}

async fn request(
    client: Arc<HttpClient>,
    input: RequestInput,
    _: Call,
) -> Result<ResponseOutput, BindingError> {
    let worker = Arc::clone(&client);
    let task = client.runtime.spawn(async move { worker.fetcher.fetch(input).await });
    Ok(AbortOnDropHandle::new(task).await??)
}

fn build_fetcher(config: Config) -> Result<Fetcher, String> {
    let allowed = AllowList::parse(&config.hosts)?;
    // Fails if a provider is installed already, which is then the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .dns_resolver(GuardedResolver(allowed.clone()))
        .user_agent(concat!("scomp-serve/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| error.to_string())?;
    Ok(Fetcher {
        client,
        allowed,
        methods: config.methods,
        body_bytes_max: config.bytes_max.unwrap_or(BODY_BYTES_DEFAULT),
        timeout: Duration::from_millis(config.timeout_ms.unwrap_or(TIMEOUT_MS_DEFAULT)),
        redirects_max: config.redirects_max.unwrap_or(REDIRECTS_DEFAULT),
    })
}

#[cfg(test)]
mod tests;
