//! What one principal does with its sessions costs no other principal a session.

use std::net::SocketAddr;

use futures_util::{SinkExt as _, StreamExt as _};
use scomp::quota::Quotas;
use scomp::server::Server;
use scomp::server::settings::SessionSettings;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use crate::harness::{WAIT_MAX, ask, builder, gate, start};

/// `session` of a handshake that resumes.
type Resume = Value;

/// Opens a session, runs an eval in it and goes away without closing it.
async fn leave_session(address: SocketAddr, token: &str) -> Resume {
    let mut request = format!("ws://{address}/").into_client_request().unwrap();
    request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    let (mut socket, _) = tokio_tungstenite::connect_async(request).await.unwrap();
    let mut answers = Vec::new();
    for message in [
        json!({"jsonrpc": "2.0", "id": 1, "method": "handshake", "params": {"protocol": "0.1"}}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "eval", "params": {"code": "1"}}),
    ] {
        socket.send(Message::text(message.to_string())).await.unwrap();
        let answer = tokio::time::timeout(WAIT_MAX, socket.next()).await.unwrap().unwrap().unwrap();
        answers.push(serde_json::from_str::<Value>(answer.to_text().unwrap()).unwrap());
    }
    let result = &answers[0]["result"];
    json!({"id": result["sessionId"], "token": result["metadata"]["session"]["token"]})
}

async fn is_resumed(address: SocketAddr, token: &str, session: &Resume) -> bool {
    let params = json!({"protocol": "0.1", "session": session});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "handshake", "params": params});
    ask(address, token, &message).await["error"]["data"]["kind"] != json!("SessionRefused")
}

/// Waits until the server has that many sessions.
async fn settled(server: &Server, sessions: usize) {
    let wait = async {
        while server.session_count() != sessions {
            tokio::task::yield_now().await;
        }
    };
    let settled = tokio::time::timeout(WAIT_MAX, wait).await;
    assert!(settled.is_ok(), "{} sessions instead of {sessions}", server.session_count());
}

#[tokio::test]
async fn detached_sessions_are_evicted_within_their_principal() {
    let tokens = [("ann", "token-a"), ("bob", "token-b")];
    let sessions = SessionSettings { detached_max: 4, ..SessionSettings::default() };
    let gate = gate(&tokens, Quotas::default(), &[]);
    let (server, address) = start(builder().gate(gate).sessions(sessions)).await;
    let bobs = [leave_session(address, "token-b").await, leave_session(address, "token-b").await];
    let mut anns = Vec::new();
    for left in 1..=8 {
        anns.push(leave_session(address, "token-a").await);
        settled(&server, 2 + left.min(2)).await;
    }
    for session in &bobs {
        assert!(is_resumed(address, "token-b", session).await);
    }
    assert!(!is_resumed(address, "token-a", &anns[5]).await);
    assert!(is_resumed(address, "token-a", &anns[7]).await);
}
