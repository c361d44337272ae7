//! `scomp-serve`: the server itself, on a socket or over stdin and stdout, until it is stopped.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::try_join_all;
use scomp::config::Settings;
use scomp::server::Server;
use tokio::net::TcpListener;

use super::args::ServeArgs;
use super::service_manager::{self, State};
use super::signals::Signals;
use super::{Failure, bindings, connect, log, output, reload, stop_guard};

/// How long a reader of stdout that stalls holds up the start.
const ANNOUNCE_WAIT_MAX: Duration = Duration::from_secs(1);

/// How long the first connections wait for the service scripts.
const SERVICES_WAIT_MAX: Duration = Duration::from_secs(2);

/// Serves until a signal comes, or, over stdio, until the input ends.
pub(super) async fn run(args: &ServeArgs) -> Result<(), Failure> {
    let settings = args.settings.load(args.overrides())?;
    log::start(&settings.log)?;
    let mut signals =
        Signals::to_stop().map_err(|error| Failure::Run(format!("cannot watch for signals: {error}")))?;
    let drain_max = Duration::from_millis(settings.drain_ms);
    stop_guard::start(drain_max)
        .map_err(|error| Failure::Run(format!("cannot watch for signals: {error}")))?;
    service_manager::start_watchdog();
    if settings.stdio {
        let (server, services) = build(&settings).await?;
        server.start(services);
        let _reloading = reload::start(server.clone(), args.clone(), settings.clone())?;
        service_manager::report(State::Ready);
        return until_stopped(&server, server.serve_stdio(), drain_max, &mut signals).await;
    }
    // Before the packages are loaded: what they start must not run on an exposed server even for a moment.
    let inherited = service_manager::inherited_listener()?;
    let is_open = !settings.demands_authentication();
    let addresses = match &inherited {
        Some(listener) => own_address(listener, is_open)?,
        None => resolve(&settings.listen, is_open).await?,
    };
    let (server, services) = build(&settings).await?;
    let listener = match inherited {
        Some(listener) => TcpListener::from_std(listener).map_err(|error| Failure::Run(error.to_string()))?,
        None => listen(&settings.listen, &addresses).await?,
    };
    let mut extra = Vec::new();
    for (address, is_open) in server.listens() {
        let listener = listen(&address, &resolve(&address, is_open).await?).await?;
        extra.push((address, listener));
    }
    server.start(services);
    // Early clients wait in the backlog, so that they find the services complete. A service that takes longer, or that
    // connects to this very server, is not waited for.
    let _ = tokio::time::timeout(SERVICES_WAIT_MAX, server.services().wait_until_started()).await;
    for listener in extra.iter().map(|(_, listener)| listener).chain([&listener]) {
        announce(&settings, listener)?;
    }
    let _reloading = reload::start(server.clone(), args.clone(), settings.clone())?;
    service_manager::report(State::Ready);
    let serving = async {
        let extra = extra.into_iter().map(|(address, listener)| serve_at(server.clone(), address, listener));
        tokio::try_join!(server.serve(listener), try_join_all(extra)).map(|_| ())
    };
    until_stopped(&server, serving, drain_max, &mut signals).await
}

/// Serves an MCP client over stdin and stdout until a signal comes or the input ends.
#[cfg(feature = "mcp")]
pub(super) async fn run_mcp(args: &super::args::McpArgs) -> Result<(), Failure> {
    let settings = args.settings.load(scomp::config::Overrides::default())?;
    log::start(&settings.log)?;
    let mut signals =
        Signals::to_stop().map_err(|error| Failure::Run(format!("cannot watch for signals: {error}")))?;
    let drain_max = Duration::from_millis(settings.drain_ms);
    stop_guard::start(drain_max)
        .map_err(|error| Failure::Run(format!("cannot watch for signals: {error}")))?;
    let (server, services) = build(&settings).await?;
    server.start(services);
    until_stopped(&server, server.serve_mcp_stdio(), drain_max, &mut signals).await
}

/// The server, and the scripts that are to run on it.
async fn build(settings: &Settings) -> Result<(Server, Vec<PathBuf>), Failure> {
    let mut loaded = bindings::load(settings)
        .await
        .map_err(|problems| Failure::Usage(bindings::join_problems(&problems)))?;
    let services = std::mem::take(&mut loaded.services);
    Ok((connect::build_server(settings, loaded)?, services))
}

/// The address of a socket that the service manager opened, if it may be served.
fn own_address(listener: &std::net::TcpListener, is_open: bool) -> Result<Vec<SocketAddr>, Failure> {
    let address = listener.local_addr().map_err(|error| Failure::Run(error.to_string()))?;
    check_exposure(is_open, &[address])?;
    Ok(vec![address])
}

async fn listen(wanted: &str, addresses: &[SocketAddr]) -> Result<TcpListener, Failure> {
    let cannot = |error: io::Error| Failure::Run(format!("cannot listen on {wanted}: {error}"));
    TcpListener::bind(addresses).await.map_err(cannot)
}

async fn serve_at(server: Server, address: String, listener: TcpListener) -> io::Result<()> {
    server.serve_at(&address, listener).await
}

fn announce(settings: &Settings, listener: &TcpListener) -> Result<(), Failure> {
    let address = listener.local_addr().map_err(|error| Failure::Run(error.to_string()))?;
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    tracing::info!(%address, shards = settings.shards, isolation = ?settings.isolation, "serving");
    output::print_line_within(ANNOUNCE_WAIT_MAX, format!("listening on {scheme}://{address}"))
}

/// Resolves `listen`. Addresses that other machines can reach are refused if `is_open`.
pub(super) async fn resolve(listen: &str, is_open: bool) -> Result<Vec<SocketAddr>, Failure> {
    let wrong = |reason: String| Failure::Usage(format!("listen: {listen:?}: {reason}; expected HOST:PORT"));
    let addresses: Vec<SocketAddr> =
        tokio::net::lookup_host(listen).await.map_err(|error| wrong(error.to_string()))?.collect();
    if addresses.is_empty() {
        return Err(wrong("no address".to_owned()));
    }
    check_exposure(is_open, &addresses)?;
    Ok(addresses)
}

/// Refuses addresses that other machines can reach without authentication: every client can run code.
fn check_exposure(is_open: bool, addresses: &[SocketAddr]) -> Result<(), Failure> {
    let public = addresses.iter().find(|address| !address.ip().to_canonical().is_loopback());
    match public {
        Some(address) if is_open => Err(Failure::Usage(format!(
            "listen: {address} is reachable from other machines, but no authentication is configured; \
             listen on 127.0.0.1, or configure authentication"
        ))),
        Some(_) | None => Ok(()),
    }
}

/// Runs `serving` to its end, or until a signal: then running evals get `drain_max`. A second signal cuts that short.
/// The stop guard ends the program if this takes too long.
async fn until_stopped(
    server: &Server,
    serving: impl Future<Output = io::Result<()>>,
    drain_max: Duration,
    signals: &mut Signals,
) -> Result<(), Failure> {
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        served = &mut serving => {
            served.map_err(|error| Failure::Run(format!("serving failed: {error}")))?;
            server.stop(Duration::ZERO).await;
            return Ok(());
        }
        name = signals.next() => tracing::info!(signal = name, "stopping"),
    }
    service_manager::report(State::Stopping);
    let stopping = async {
        let mut stop = std::pin::pin!(server.stop(drain_max));
        tokio::select! {
            _served = &mut serving => stop.await,
            // The connection over stdio writes its last answers while the server stops; on a stuck shard it never ends.
            () = &mut stop => {}
        }
    };
    tokio::select! {
        () = stopping => Ok(()),
        _again = signals.next() => Err(Failure::Run("stopped immediately by a second signal".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_address(address: &str) -> Result<(), Failure> {
        check_exposure(true, &[address.parse().unwrap()])
    }

    #[test]
    fn only_loopback_is_served_without_authentication() {
        for address in ["127.0.0.1:0", "127.8.8.8:1", "[::1]:7400", "[::ffff:127.0.0.1]:1"] {
            assert!(check_address(address).is_ok(), "{address}");
        }
        for address in ["0.0.0.0:7400", "[::]:7400", "192.168.1.2:1", "8.8.8.8:1"] {
            assert!(matches!(check_address(address), Err(Failure::Usage(_))), "{address}");
        }
    }
}
