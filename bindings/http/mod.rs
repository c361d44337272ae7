//! HTTP requests for scripts, to listed hosts only.
//!
//! Redirects are followed here and not by the HTTP library, because each hop has to pass the list,
//! and because credentials must not be sent to another origin. No proxy is used: it would bypass
//! the check of resolved addresses. OpenAPI packages send their requests with the same client.

pub(in crate::bindings) mod allow;
pub(in crate::bindings) mod fetch;
pub(in crate::bindings) mod request;

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::{Handlers, PackageContext, PackageInstance};
use crate::binding::{BindingError, Call};
use crate::package::Bindings;
use allow::AllowList;
use fetch::{FetchLimits, Fetcher};
use request::{RequestInput, ResponseOutput};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    #[serde(default)]
    hosts: Vec<String>,
    #[serde(default = "methods_default")]
    methods: Vec<String>,
    #[serde(flatten)]
    limits: FetchLimits,
}

fn methods_default() -> Vec<String> {
    vec!["GET".to_owned(), "HEAD".to_owned()]
}

/// Opens the package.
pub async fn open(context: PackageContext) -> Result<PackageInstance, String> {
    Ok(context.bind(handlers(&context.config)?).into())
}

fn handlers(config: &Value) -> Result<Handlers, String> {
    let config = Config::deserialize(config).map_err(|error| error.to_string())?;
    let allowed = AllowList::parse(&config.hosts)?;
    let fetcher = Fetcher::new(allowed, config.methods, Vec::new(), config.limits)?;
    Ok(Bindings::with(Arc::new(fetcher)).on("http.request", request).into())
}

async fn request(
    fetcher: Arc<Fetcher>,
    input: RequestInput,
    _: Call,
) -> Result<ResponseOutput, BindingError> {
    let redirect = input.redirect;
    let request = input.into_request(fetcher.body_bytes_max())?;
    Ok(fetcher.fetch(request, redirect).await?.into())
}

#[cfg(test)]
mod tests;
