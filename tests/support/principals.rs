//! A server with tokens, and connections of its principals.

use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use scomp::quota::Quotas;
use scomp::server::settings::{AuthSettings, OriginSettings, TokenSettings};
use scomp::server::{Gate, Server};
use serde_json::json;

use super::{Running, Wire};

pub fn token_of(principal: &str) -> String {
    format!("token of {principal}")
}

impl Running {
    /// Starts a server with the packages of a folder, for these principals alone.
    pub async fn for_principals(folder: &Path, principals: &[&str]) -> Self {
        let tokens = principals.iter().map(|name| TokenSettings::of_token(*name, &token_of(name)));
        let auth = AuthSettings { tokens: tokens.collect(), file: None };
        let gate = Gate::new(&auth, OriginSettings::default(), &Quotas::default()).unwrap();
        let loaded = scomp::package::loader::load(
            folder,
            &scomp::package::loader::environment(),
            scomp::bindings::BUILT_IN,
        )
        .await
        .unwrap();
        let services = loaded.services.clone();
        let server = Server::builder().loaded(loaded).gate(gate).shards(2).build().unwrap();
        server.start(services);
        Self::listening(server).await
    }
}

impl Wire {
    /// Connects as a principal and shakes hands.
    pub async fn live_as(url: &str, principal: &str) -> Self {
        let mut wire = Self::open_as(url, principal, None).await;
        let answer = wire.request("handshake", json!({"protocol": "0.1"})).await;
        assert!(answer.get("result").is_some(), "refused: {answer}");
        wire
    }

    /// Connects as a principal, offering a subprotocol beside the token.
    pub async fn open_as(url: &str, principal: &str, subprotocol: Option<&str>) -> Self {
        let token = BASE64_URL_SAFE_NO_PAD.encode(token_of(principal));
        let offer = format!("{}, bearer.{token}", subprotocol.unwrap_or("scomp.v0"));
        Self::offering(url, Some(&offer)).await
    }
}
