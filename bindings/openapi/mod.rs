//! Every OpenAPI document a package: its operations are bindings, with the server's credentials behind them.
//!
//! `config` and `auth` are what the operator says. `document` reads the file; `operations`, `parameters`, `bodies`,
//! `responses` and `schemas` are pure: they map the document to declarations and plans of requests. `styles` writes values
//! into a request, `call` sends it with the client of the package `http`.

mod auth;
mod bodies;
mod call;
mod config;
mod document;
mod media;
mod operations;
mod parameters;
mod responses;
mod schemas;
mod servers;
mod styles;

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::http::allow::AllowList;
use super::http::fetch::Fetcher;
use super::{PackageContext, PackageInstance};
use crate::binding::{Binding, BindingLimits, handler};
use crate::package::PackageDef;
use auth::Credentials;
use call::{ApiClient, REQUESTS_IN_FLIGHT_MAX};
use config::Config;
use document::Document;
use operations::{MappedOperations, Mapping};
use servers::Base;

/// How much longer than its request a call may take.
const CALL_EXTRA_MS: u64 = 1_000;

/// The package behind `"openapi"` in a declaration file.
pub const PACKAGE: PackageDef = PackageDef {
    name: "openapi",
    declaration: include_str!("built_in.json"),
    open: |context| Box::pin(open(context)),
};

/// Reads the document and makes bindings of its operations.
async fn open(context: PackageContext) -> Result<PackageInstance, String> {
    let PackageContext { package, config, mut secrets, folder, .. } = context;
    let config = Config::read(&config).map_err(|error| secrets.redact(&error))?;
    let credentials = Credentials::new(&config.auth, &mut secrets)?;
    let path = folder.join(&config.document);
    let (rules, server, name) = (config.rules(), config.server.clone(), package.clone());
    let response = rules.response;
    // A large document takes a second.
    let mapping = tokio::task::spawn_blocking(move || {
        let document = Document::read(&path)?;
        let base = Base::choose(server.as_deref(), &document)?;
        let mapping = Mapping {
            package: &name,
            document: &document,
            base: &base,
            rules: &rules,
            credentials: &credentials,
        };
        Ok((mapping.map(), base, credentials))
    });
    let mapped: Result<_, String> = mapping.await.map_err(|error| error.to_string())?;
    let (mapped, base, credentials) = mapped.map_err(|error| secrets.redact(&error))?;
    let hosts: Vec<String> = std::iter::once(base.authority()).chain(config.redirect_hosts).collect();
    let allowed = AllowList::parse(&hosts)?;
    let fetcher =
        Fetcher::new(allowed, operations::method_names(), credentials.header_names(), config.limits)?;
    let client = Arc::new(ApiClient {
        package,
        fetcher: Arc::new(fetcher),
        credentials,
        secrets,
        response,
        places: Semaphore::new(REQUESTS_IN_FLIGHT_MAX),
    });
    let MappedOperations { operations, mut unmapped, mut notes, .. } = mapped;
    for item in unmapped.iter_mut().chain(&mut notes) {
        item.reason = client.secrets.redact(&item.reason);
    }
    let limits = BindingLimits {
        timeout_ms: config.limits.timeout_ms.map(|timeout| timeout + CALL_EXTRA_MS),
        ..BindingLimits::default()
    };
    let bind = |(declaration, plan)| {
        let (client, plan) = (Arc::clone(&client), Arc::new(plan));
        let handler = handler(move |input, _| {
            let (client, plan) = (Arc::clone(&client), Arc::clone(&plan));
            async move { client.call(&plan, input).await }
        });
        Binding { declaration, limits: limits.clone(), handler }
    };
    let bindings = operations.into_iter().map(bind).collect();
    Ok(PackageInstance { bindings, unmapped, notes, ..PackageInstance::default() })
}
