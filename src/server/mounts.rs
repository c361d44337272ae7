//! What packages add to a server: mounts, and work beside the sessions.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderMap, Response, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::IntoResponse;
use axum::routing::any;
use futures_util::future::join_all;
use hyper::body::Body as _;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tracing::Instrument as _;

use super::gate::Refusal;
use super::{PAIR_FRAMES_MAX, Server, ServerState, http, upgrade};
use crate::binding::Policy;
use crate::budget::ConnectionBudget;
use crate::observe;
use crate::package::loader::reload::{self, LivePackage};
use crate::peering::{
    Background, Endpoint, Host, IncomingConnection, Mount, MountGate, MountKind, Requester,
};
use crate::transport::{MessageSizes, pair};

/// HTTP requests with a body that packages serve at a time. The largest body that one takes has 10 MiB.
/// Past it: 503.
pub(super) const HTTP_BODIES_MAX: usize = 32;

/// How long such a request may take, so that slow ones do not keep all others out. Past it: 408.
pub(super) const BODY_TIME_MAX: Duration = Duration::from_secs(60);

/// The path of scomp itself on the server's own port.
const ROOT: &str = "/";

/// What the packages of a server add to it.
#[derive(Default)]
pub(crate) struct Additions {
    pub(crate) mounts: Vec<Mount>,
    /// Taken when the server is started.
    pub(crate) background: Mutex<Vec<Background>>,
    /// The packages of the folder, with the executables behind bindings, which end with the server.
    pub(crate) live: tokio::sync::Mutex<Vec<LivePackage>>,
    /// The policies in their configurations, with their places.
    pub(crate) policies: Vec<(String, Policy)>,
}

impl Additions {
    /// Ends the executables; returns when they are gone.
    pub(crate) async fn stop_commands(&self) {
        let commands = reload::commands(&self.live.lock().await);
        join_all(commands.iter().map(|command| command.stop())).await;
    }
}

impl Server {
    /// Starts what packages do beside the sessions, and the service scripts. Within a Tokio runtime that lives on.
    pub fn start(&self, services: Vec<PathBuf>) {
        for background in std::mem::take(&mut *self.state.additions.background.lock()) {
            self.state.tasks.spawn(background.run(self.host()));
        }
        self.state.services.start(self, services, &self.state.stop);
    }

    /// The listen addresses of packages, and whether any mount there works without authentication.
    pub fn listens(&self) -> Vec<(String, bool)> {
        let mut listens: Vec<(String, bool)> = Vec::new();
        for mount in &self.state.additions.mounts {
            let Some(listen) = &mount.listen else { continue };
            let is_open = mount.gate == MountGate::Server && self.state.gate().is_open();
            match listens.iter_mut().find(|(known, _)| known == listen) {
                Some((_, any_open)) => *any_open |= is_open,
                None => listens.push((listen.clone(), is_open)),
            }
        }
        listens
    }

    /// Accepts connections for the packages that asked for this address, until the server is stopped.
    pub async fn serve_at(&self, listen: &str, listener: TcpListener) -> io::Result<()> {
        self.accept(listener, router(&self.state, Some(listen))).await
    }

    pub(super) fn host(&self) -> Host {
        let (state, shards) = (Arc::downgrade(&self.state), Arc::downgrade(&self.shards));
        let connect = move |principal: Option<_>| match (Weak::upgrade(&state), Weak::upgrade(&shards)) {
            (Some(state), Some(shards)) => {
                // A package acts for its peers, so its own connections have no role either.
                let principal = principal.unwrap_or_else(|| state.gate().unauthenticated());
                Self { state, shards }.connect_as(principal)
            }
            // The other end is dropped immediately, so that the client sees that the server is gone.
            _ => pair(PAIR_FRAMES_MAX).0,
        };
        Host::new(connect, self.state.stop.clone())
    }
}

/// The routes of the packages at an address, or on the server's own port.
pub(super) fn router(state: &Arc<ServerState>, listen: Option<&str>) -> Router {
    let here = state.additions.mounts.iter().filter(|mount| mount.listen.as_deref() == listen);
    // The root of the server's own port is shared, see `at_root`.
    let here = here.filter(|mount| listen.is_some() || mount.path != ROOT);
    here.fold(Router::new(), |router, mount| match &mount.kind {
        MountKind::WebSocket(endpoint) => {
            let (state, endpoint, rule) = (Arc::clone(state), Arc::clone(endpoint), EntryRule::of(mount));
            let serve = move |request: Request| {
                let answer = accept(&state, &endpoint, rule, request);
                async move { answer }
            };
            router.route(&mount.path, any(serve))
        }
        MountKind::Http(pages) => {
            let checked = (Arc::clone(state), EntryRule::of(mount));
            router.merge(pages.clone().layer(middleware::from_fn_with_state(checked, check)))
        }
    })
}

/// Serves the package at the root of the server's own port whose subprotocol a client offers.
pub(super) fn at_root(
    state: &Arc<ServerState>,
    headers: &HeaderMap,
) -> Option<impl FnOnce(Request) -> Response<Body> + use<>> {
    let at_root = state.additions.mounts.iter().filter(|mount| mount.listen.is_none() && mount.path == ROOT);
    let (endpoint, rule) = at_root
        .filter_map(|mount| match &mount.kind {
            MountKind::WebSocket(endpoint) => Some((Arc::clone(endpoint), EntryRule::of(mount))),
            MountKind::Http(_) => None,
        })
        .find(|(endpoint, _)| {
            endpoint.subprotocol().is_some_and(|name| upgrade::offered(headers, name).is_some())
        })?;
    let state = Arc::clone(state);
    Some(move |request| accept(&state, &endpoint, rule, request))
}

/// What a request to a mount must pass.
#[derive(Debug, Clone, Copy)]
struct EntryRule {
    gate: MountGate,
    is_local: bool,
}

impl EntryRule {
    fn of(mount: &Mount) -> Self {
        Self { gate: mount.gate, is_local: mount.is_local() }
    }
}

fn admit(state: &ServerState, rule: EntryRule, uri: &Uri, headers: &HeaderMap) -> Result<Requester, Refusal> {
    let principal = match rule.gate {
        MountGate::Server => http::admit(state, uri, headers)?,
        MountGate::Own => {
            http::record_refusal(state, state.gate().admit_unauthenticated(uri, headers, rule.is_local))?
        }
    };
    Ok(Requester { principal, audit: state.directory.audit().clone() })
}

async fn check(
    State((state, rule)): State<(Arc<ServerState>, EntryRule)>,
    mut request: Request,
    next: Next,
) -> Response<Body> {
    match admit(&state, rule, request.uri(), request.headers()) {
        Ok(requester) => {
            request.extensions_mut().insert(requester);
            run_within(&state, request, next).await
        }
        Err(refusal) => refusal.into_response(),
    }
}

/// Serves a request within the limits for bodies: pages read a body as a whole.
async fn run_within(state: &ServerState, request: Request, next: Next) -> Response<Body> {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let Ok(_permit) = state.bodies.try_acquire() else {
        observe::record_refusal("http-bodies");
        return (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")], "Too many uploads.\n")
            .into_response();
    };
    match tokio::time::timeout(BODY_TIME_MAX, next.run(request)).await {
        Ok(response) => response,
        Err(_) => (StatusCode::REQUEST_TIMEOUT, "The request took too long.\n").into_response(),
    }
}

fn accept(
    state: &Arc<ServerState>,
    endpoint: &Arc<dyn Endpoint>,
    rule: EntryRule,
    request: Request,
) -> Response<Body> {
    let Requester { principal, audit } = match admit(state, rule, request.uri(), request.headers()) {
        Ok(requester) => requester,
        Err(refusal) => return refusal.into_response(),
    };
    let (state, endpoint) = (Arc::clone(state), Arc::clone(endpoint));
    let (query, headers) = (request.uri().query().map(str::to_owned), request.headers().clone());
    let span = tracing::info_span!(
        "connection",
        number = state.connections.next_number(),
        path = request.uri().path()
    );
    let subprotocol = endpoint.subprotocol();
    let sizes = MessageSizes {
        read_bytes_max: endpoint.message_bytes_max(),
        sent_bytes_max: endpoint.sent_bytes_max(),
    };
    // Only messages that are still arriving are counted: after that the package is responsible for them.
    let budget = ConnectionBudget::new(&state.budget, usize::MAX, sizes.read_bytes_max);
    let at = Arc::clone(&state);
    upgrade::accept(&at, request, subprotocol, sizes, budget, move |socket, placed| {
        let stop = state.stop.clone();
        let visit =
            IncomingConnection { transport: Box::new(socket), principal, audit, query, headers, stop };
        let serve = async move {
            endpoint.serve(visit).await;
            drop(placed);
        };
        state.tasks.spawn_local(serve.instrument(span));
    })
}
