//! `scomp-serve health`: whether a server answers, for containers without curl.

use std::time::Duration;

use scomp::config::{Overrides, Settings};

use super::args::HealthArgs;
use super::{Failure, output};

/// How long the answer may take. Less than what probes usually wait.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(2);

/// Prints `ready` or fails with the reason.
pub(super) async fn run(args: &HealthArgs) -> Result<(), Failure> {
    let url = match &args.url {
        Some(url) => format!("{}/readyz", url.trim_end_matches('/')),
        None => own_url(&args.settings.load(Overrides::default())?),
    };
    let failed = |error: &dyn std::fmt::Display| Failure::Run(format!("{url}: {error}"));
    // Fails only if another provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .timeout(ANSWER_WAIT_MAX)
        .no_proxy()
        // Whether it lives is asked, and nothing is sent: its certificate names it for others, not for this machine.
        .tls_danger_accept_invalid_certs(args.url.is_none())
        .build()
        .map_err(|error| failed(&error))?;
    let answer = client.get(&url).send().await.map_err(|error| failed(&describe(&error)))?;
    let status = answer.status();
    let text = answer.text().await.unwrap_or_default();
    match status.is_success() {
        true => output::print(&text),
        false => Err(failed(&format!("{status}: {}", text.trim()))),
    }
}

/// The address that the settings listen on, as seen from this machine.
fn own_url(settings: &Settings) -> String {
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    let (host, port) = settings.listen.rsplit_once(':').unwrap_or((&settings.listen, "7400"));
    let host = match host {
        "0.0.0.0" => "127.0.0.1",
        "[::]" => "[::1]",
        host => host,
    };
    format!("{scheme}://{host}:{port}/readyz")
}

/// The innermost cause, which is what an operator needs.
fn describe(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
