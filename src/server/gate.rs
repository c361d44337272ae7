//! Who may connect: checks of the token, the origin and the host of a request, all before the upgrade.
//!
//! Tokens are kept as SHA-256 and compared in constant time, each of them every time, so that neither the time of an
//! answer nor the memory of the process reveals one. A browser cannot set `Authorization` on a WebSocket; it
//! offers the subprotocol `bearer.<token in base64url>` beside scomp's instead, which is never echoed.

mod load;
mod origin;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, Response, StatusCode, Uri};
use axum::response::IntoResponse;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use subtle::ConstantTimeEq as _;

pub use load::GateError;

use super::settings::OriginSettings;
use crate::binding::{MissingRole, Policy, Principal, Roles};
use crate::quota::Quotas;

/// What a browser offers as subprotocol, before its token.
const BEARER_SUBPROTOCOL: &str = "bearer.";

/// The name of the principal of this machine and of peers that this gate does not authenticate.
const LOCAL_PRINCIPAL: &str = "anonymous";

/// A refusal before the upgrade.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// A token is required and the request has none.
    NoToken,
    /// The token is unknown.
    WrongToken,
    /// A web page that is not on the list.
    ForeignOrigin,
    /// Without tokens only names of this machine are served, or any web page could rebind its own name to this address.
    ForeignHost,
    /// The token is valid, but its principal lacks a role.
    MissingRole(MissingRole),
}

impl Refusal {
    /// Its name in the metrics and the audit log.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::NoToken => "no-token",
            Self::WrongToken => "wrong-token",
            Self::ForeignOrigin => "origin",
            Self::ForeignHost => "host",
            Self::MissingRole(_) => "role",
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response<Body> {
        let unauthorized = |text: &'static str| {
            (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")], text).into_response()
        };
        match self {
            // The same text for both, so that guessing reveals nothing.
            Self::NoToken | Self::WrongToken => unauthorized("A valid bearer token is required.\n"),
            Self::ForeignOrigin => (StatusCode::FORBIDDEN, "Origin not allowed.\n").into_response(),
            Self::ForeignHost => {
                (StatusCode::FORBIDDEN, "Host not allowed: without tokens, only localhost is served.\n")
                    .into_response()
            }
            Self::MissingRole(missing) => (StatusCode::FORBIDDEN, format!("{missing}\n")).into_response(),
        }
    }
}

/// Decides over a request by its headers.
#[derive(Debug)]
pub struct Gate {
    tokens: Vec<KnownToken>,
    origins: OriginSettings,
    /// The principal of this machine: the program itself, stdio, services, and, without tokens, every request. It
    /// has every role.
    local: Arc<Principal>,
    /// The same principal without roles: peers of mounts that authenticate by themselves, and packages.
    unauthenticated: Arc<Principal>,
}

#[derive(Debug)]
struct KnownToken {
    hash: [u8; SHA256_OUTPUT_LEN],
    principal: Arc<Principal>,
    /// Where it is set.
    place: String,
}

impl Gate {
    /// A gate that admits every client on this machine, all as one principal.
    pub fn open() -> Self {
        Self::without_tokens(OriginSettings::default(), Quotas::default())
    }

    fn without_tokens(origins: OriginSettings, quotas: Quotas) -> Self {
        let unauthenticated = Principal::new(LOCAL_PRINCIPAL, Policy::default(), quotas);
        let local = unauthenticated.clone().with_roles(Roles::all());
        Self {
            tokens: Vec::new(),
            origins,
            local: Arc::new(local),
            unauthenticated: Arc::new(unauthenticated),
        }
    }

    /// Whether no token is required. Such a gate belongs on a loopback address only.
    pub fn is_open(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Lets principals that were known to `before`, with the same quotas, go on with their accounts: a reload frees nothing.
    pub(super) fn keep_accounts(&mut self, before: &Self) {
        let known = before
            .tokens
            .iter()
            .map(|token| &token.principal)
            .chain([&before.local, &before.unauthenticated]);
        let known: Vec<&Arc<Principal>> = known.collect();
        let own = self.tokens.iter_mut().map(|token| &mut token.principal);
        for principal in own.chain([&mut self.local, &mut self.unauthenticated]) {
            let is_same = |other: &&&Arc<Principal>| {
                other.name == principal.name && other.account.quotas() == principal.account.quotas()
            };
            if let Some(account) = known.iter().find(is_same).map(|other| Arc::clone(&other.account)) {
                *principal = Arc::new(Principal { account, ..Principal::clone(principal) });
            }
        }
    }

    /// How many principals share the server: those with tokens, or the one without.
    pub(crate) fn principals(&self) -> usize {
        let names: HashSet<&str> = self.tokens.iter().map(|token| token.principal.name.as_str()).collect();
        names.len().max(1)
    }

    /// The principal of that name.
    pub(crate) fn principal(&self, name: &str) -> Option<Arc<Principal>> {
        let known = self.tokens.iter().map(|token| &token.principal).find(|principal| principal.name == name);
        let local = || Some(&self.local).filter(|local| local.name == name);
        known.or_else(local).cloned()
    }

    /// The principal behind a request, or why it is refused.
    pub(crate) fn admit(&self, uri: &Uri, headers: &HeaderMap) -> Result<Arc<Principal>, Refusal> {
        if self.is_open() && !origin::is_loopback_host(uri, headers) {
            return Err(Refusal::ForeignHost);
        }
        if !origin::is_allowed(&self.origins, uri, headers) {
            return Err(Refusal::ForeignOrigin);
        }
        if self.is_open() {
            return Ok(self.local());
        }
        let shown =
            shown_token(headers).filter(|shown| !shown.trim_ascii().is_empty()).ok_or(Refusal::NoToken)?;
        self.owner_of(&shown).ok_or(Refusal::WrongToken)
    }

    /// Lets a request through to a package that authenticates by itself. A web page must be on the list all the same,
    /// and where only this machine is served, the request must name it.
    pub(crate) fn admit_unauthenticated(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
        is_local: bool,
    ) -> Result<Arc<Principal>, Refusal> {
        if is_local && self.is_open() && !origin::is_loopback_host(uri, headers) {
            return Err(Refusal::ForeignHost);
        }
        if !origin::is_allowed(&self.origins, uri, headers) {
            return Err(Refusal::ForeignOrigin);
        }
        Ok(self.unauthenticated())
    }

    fn owner_of(&self, shown: &[u8]) -> Option<Arc<Principal>> {
        let hash = sha256(shown);
        let mut owner = None;
        // No early exit: the time it takes reveals nothing about which token it is.
        for known in &self.tokens {
            if bool::from(known.hash.ct_eq(&hash)) {
                owner = Some(&known.principal);
            }
        }
        owner.map(Arc::clone)
    }

    /// The principal of a transport without headers: the program itself, stdio and service scripts.
    pub(crate) fn local(&self) -> Arc<Principal> {
        Arc::clone(&self.local)
    }

    /// The principal of peers that this gate does not authenticate, and of packages. It has no role.
    pub(crate) fn unauthenticated(&self) -> Arc<Principal> {
        Arc::clone(&self.unauthenticated)
    }
}

/// The token of a request: the header, or else the subprotocol that a browser offers.
fn shown_token(headers: &HeaderMap) -> Option<Vec<u8>> {
    if let Some(value) = headers.get(AUTHORIZATION) {
        let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
        return scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().as_bytes().to_vec());
    }
    let offers = headers.get_all(SEC_WEBSOCKET_PROTOCOL).into_iter();
    let encoded = offers
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .find_map(|offer| offer.trim().strip_prefix(BEARER_SUBPROTOCOL))?;
    BASE64_URL_SAFE_NO_PAD.decode(encoded.trim_end_matches('=')).ok()
}

fn sha256(bytes: &[u8]) -> [u8; SHA256_OUTPUT_LEN] {
    let mut hash = [0; SHA256_OUTPUT_LEN];
    hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
    hash
}
