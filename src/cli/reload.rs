//! SIGHUP: the settings and the declaration files are read anew, and what can be replaced in a running server is.
//!
//! Tokens, policies, quotas, origins, the certificate and the packages are replaced; sessions live on. If anything is wrong,
//! the problems are logged and nothing changes. Settings of other kinds are reported as waiting for a restart.

use scomp::config::{LoadedSettings, Settings};
use scomp::package::loader::{self, Reloaded, Sources};
use scomp::server::{Gate, Server, Tls};
use tokio_util::task::AbortOnDropHandle;

use super::Failure;
use super::args::ServeArgs;
use super::service_manager::{self, State};
use super::signals::Reloads;

/// Reloads at every signal until the handle is dropped.
pub(super) fn start(
    server: Server,
    args: ServeArgs,
    settings: Settings,
) -> Result<AbortOnDropHandle<()>, Failure> {
    let mut reloads =
        Reloads::new().map_err(|error| Failure::Run(format!("cannot watch for signals: {error}")))?;
    Ok(AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            reloads.next().await;
            service_manager::report(State::Reloading);
            match reload(&server, &args, &settings).await {
                Ok(packages) => log_packages(&packages),
                Err(problems) => tracing::error!("the reload failed:\n{problems}"),
            }
            service_manager::report(State::Ready);
        }
    })))
}

/// Checks the settings before it changes anything.
async fn reload(server: &Server, args: &ServeArgs, started: &Settings) -> Result<Reloaded, String> {
    let LoadedSettings { settings, problems, warnings, .. } = args.settings.load_all(args.overrides());
    warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    let mut problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let gate = Gate::new(&settings.auth, settings.origins.clone(), &settings.quotas)
        .map_err(|error| problems.push(error.to_string()));
    let tls = settings.tls.as_ref().map(Tls::load).transpose();
    let tls = tls.map_err(|error| problems.push(format!("tls: {error}")));
    let (Ok(gate), Ok(tls), true) = (gate, tls, problems.is_empty()) else {
        return Err(problems.join("\n"));
    };
    let sources = Sources { folder: settings.bindings.as_deref(), mcp_files: &settings.mcp_files };
    // The packages first: policies are checked against their bindings.
    let packages = server
        .reload_packages(sources, &loader::environment(), scomp::bindings::BUILT_IN)
        .await
        .map_err(|error| error.to_string())?;
    server.replace_gate(gate).map_err(|error| format!("{error}\nonly the packages were reloaded"))?;
    if let Some(tls) = tls {
        server.replace_tls(tls);
    }
    if needs_restart(started, &settings) {
        tracing::warn!(
            "settings beside tokens, quotas, origins, certificate and bindings changed; they wait for a restart"
        );
    }
    Ok(packages)
}

/// Whether anything else differs.
fn needs_restart(started: &Settings, now: &Settings) -> bool {
    let others = |settings: &Settings| Settings {
        auth: Default::default(),
        origins: Default::default(),
        quotas: Default::default(),
        tls: None,
        bindings: None,
        mcp_files: Vec::new(),
        ..settings.clone()
    };
    others(started) != others(now) || started.tls.is_some() != now.tls.is_some()
}

fn log_packages(packages: &Reloaded) {
    let Reloaded { added, changed, removed, waiting } = packages;
    tracing::info!(?added, ?changed, ?removed, "reloaded");
    if !waiting.is_empty() {
        tracing::warn!(?waiting, "packages with mounts or work beside sessions wait for a restart");
    }
}
