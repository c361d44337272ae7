//! HTTP requests for scripts, to listed hosts only.
//!
//! Redirects are followed here and not by the HTTP library, because each step has to pass the list, and because
//! credentials must not follow to another origin. No proxy is used: it would do the name lookup that is checked here.

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

/// Longest body, both ways, unless the configuration says otherwise: a page of data.
const BODY_BYTES_DEFAULT: usize = 1 << 20;

/// How long a request may take in all unless the configuration says otherwise; below the binding's own limit.
const TIMEOUT_MS_DEFAULT: u64 = 30_000;

/// Redirects that are followed unless the configuration says otherwise; browsers stop at 20, honest sites at 3.
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

/// A body is text, or bytes in base64.
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

/// Makes the package.
pub async fn open(context: PackageContext) -> Result<PackageInstance, String> {
    Ok(context.bind(handlers(&context.config)?).into())
}

/// What the handler works with.
struct Requests {
    fetcher: Fetcher,
    /// Connections are kept for the next request, so they live on the runtime that loads packages: those that run
    /// sessions are busy with scripts and may be given up.
    runtime: Handle,
}

fn handlers(config: &Value) -> Result<Handlers, String> {
    let config = Config::deserialize(config).map_err(|error| error.to_string())?;
    let runtime = Handle::try_current().map_err(|error| error.to_string())?;
    let requests = Requests { fetcher: fetcher(config)?, runtime };
    Ok(Bindings::with(Arc::new(requests)).on("http.request", request).into())
}

async fn request(
    requests: Arc<Requests>,
    input: RequestInput,
    _: Call,
) -> Result<ResponseOutput, BindingError> {
    let fetching = Arc::clone(&requests);
    let fetching = requests.runtime.spawn(async move { fetching.fetcher.fetch(input).await });
    Ok(AbortOnDropHandle::new(fetching).await??)
}

fn fetcher(config: Config) -> Result<Fetcher, String> {
    let allowed = AllowList::read(&config.hosts)?;
    // Whoever was first has installed the same one.
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
