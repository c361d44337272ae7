//! Plays the vectors of the endpoint role with a plain WebSocket client.

use std::time::Duration;

use serde_json::{Value, json};

use crate::matching::{fill_in, find_fault, has_keys, matches};
use crate::support::Running;
use crate::support::wire::{ANSWER_WAIT_MAX, Arrival, Wire};
use crate::{interop_folder, load_vectors};

/// How long to wait for a frame before an alternative of a vector counts as failed.
const ALTERNATIVE_WAIT_MAX: Duration = Duration::from_millis(500);

/// A connection, and everything received on it.
struct Page {
    wire: Wire,
    replies: Vec<Value>,
    requests: Vec<Value>,
    closed: Option<u16>,
    faults: Vec<String>,
}

impl Page {
    async fn open(url: &str, offers: &Value) -> Self {
        let offers: Vec<&str> = offers.as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let offers = (!offers.is_empty()).then(|| offers.join(", "));
        let wire = Wire::offering(&format!("{url}holon"), offers.as_deref()).await;
        Self { wire, replies: Vec::new(), requests: Vec::new(), closed: None, faults: Vec::new() }
    }

    /// Reads frames until the condition holds, or no frame arrives in time. Returns whether it
    /// holds.
    async fn read_until(&mut self, wait: Duration, holds: impl Fn(&Self) -> bool) -> bool {
        loop {
            if holds(self) {
                return true;
            }
            match self.wire.next_within(wait).await {
                Arrival::Text(text) => {
                    self.faults.extend(find_fault(&text).map(|reason| format!("{reason}: {text}")));
                    let frame: Value = serde_json::from_str(&text).unwrap();
                    let frames =
                        if frame.get("method").is_some() { &mut self.requests } else { &mut self.replies };
                    frames.push(frame);
                }
                Arrival::Closed(code) => self.closed = Some(code),
                Arrival::Gone | Arrival::Silence => return holds(self),
            }
        }
    }

    async fn is_alive(&mut self) -> bool {
        let ping = json!({"id": "alive", "method": "echo.v1.Echo/Ping", "payload": {"a": 1}});
        self.wire.text(&ping.to_string()).await;
        let pong = json!({"id": "alive", "result": {"a": 1}});
        self.read_until(ANSWER_WAIT_MAX, |seen| seen.replies.contains(&pong)).await
    }
}

/// Whether each pattern matches a different reply.
fn match_replies(wanted: &[Value], replies: &[Value], exact_keys: Option<&Value>) -> bool {
    let mut left: Vec<&Value> = replies.iter().collect();
    wanted.iter().all(|pattern| {
        let fits =
            |reply: &&Value| matches(pattern, reply) && exact_keys.is_none_or(|keys| has_keys(reply, keys));
        left.iter().position(fits).map(|at| left.remove(at)).is_some()
    })
}

async fn send(page: &mut Page, vector: &Value, request_id: &mut Option<String>) -> Result<(), String> {
    let mut awaited = 0;
    for step in vector["send"].as_array().unwrap() {
        let (verb, value) = step.as_object().unwrap().iter().next().unwrap();
        let fill = |value: &Value| fill_in(value, "$SID", request_id.as_deref().unwrap_or("$SID"));
        match verb.as_str() {
            "text" => page.wire.text(value.as_str().unwrap()).await,
            "json" | "jsonSID" | "reply" => page.wire.text(&fill(value).to_string()).await,
            "binary" => page.wire.binary(value.as_str().unwrap().into()).await,
            "awaitReplies" => {
                awaited += value.as_u64().unwrap() as usize;
                if !page.read_until(ANSWER_WAIT_MAX, |seen| seen.replies.len() >= awaited).await {
                    return Err(format!("expected {awaited} replies"));
                }
            }
            "awaitRequest" => {
                let is_it = |request: &&Value| request["method"] == *value;
                page.read_until(ANSWER_WAIT_MAX, |seen| seen.requests.iter().any(|one| is_it(&one))).await;
                let request =
                    page.requests.iter().find(is_it).ok_or(format!("expected a request {value}"))?;
                check_shape(request, &step["shape"])?;
                *request_id = Some(request["id"].as_str().unwrap().to_owned());
            }
            "terminate" => return Ok(()),
            other => return Err(format!("unknown step {other:?}")),
        }
    }
    Ok(())
}

fn check_shape(request: &Value, shape: &Value) -> Result<(), String> {
    let fits = shape.is_null()
        || matches(&shape["payload"], &request["payload"])
            && matches(&json!({"$re": shape["idPattern"]}), &request["id"])
            && has_keys(request, &shape["exactKeys"]);
    if fits { Ok(()) } else { Err(format!("expected a request of the shape {shape}, got {request}")) }
}

async fn check(
    page: &mut Page,
    expect: &Value,
    request_id: Option<&str>,
    wait: Duration,
) -> Result<(), String> {
    let expect = fill_in(expect, "$SID", request_id.unwrap_or("$SID"));
    if let Some(handshake) = expect.get("handshake") {
        let subprotocol = page.wire.subprotocol.clone().unwrap_or_default();
        if handshake["protocol"] != subprotocol {
            return Err(format!("expected the subprotocol {}, got {subprotocol:?}", handshake["protocol"]));
        }
    }
    if let Some(wanted) = expect.get("replies").and_then(Value::as_array) {
        let keys = expect.get("exactKeys");
        if !page.read_until(wait, |seen| match_replies(wanted, &seen.replies, keys)).await {
            return Err(format!("expected {wanted:?}, got {:?}", page.replies));
        }
    }
    if let Some(codes) = expect.get("close").and_then(Value::as_array) {
        let is_closed = |seen: &Page| seen.closed.is_some_and(|code| codes.contains(&json!(code)));
        if !page.read_until(wait, is_closed).await {
            return Err(format!("expected one of {codes:?}, closed with {:?}", page.closed));
        }
    }
    if expect.get("alive") == Some(&json!(true)) && !page.is_alive().await {
        return Err("expected the connection to stay open".to_owned());
    }
    match expect.get("noReplyTo") {
        Some(id) if page.replies.iter().any(|reply| reply["id"] == *id) => {
            Err(format!("expected no reply to {id}"))
        }
        _ => Ok(()),
    }
}

async fn check_any(page: &mut Page, expect: &Value, request_id: Option<&str>) -> Result<(), String> {
    let Some(alternatives) = expect.get("anyOf").and_then(Value::as_array) else {
        return check(page, expect, request_id, ANSWER_WAIT_MAX).await;
    };
    let mut failures = Vec::new();
    for alternative in alternatives {
        match check(page, alternative, request_id, ALTERNATIVE_WAIT_MAX).await {
            Ok(()) => {
                return check(page, &json!({"alive": expect["alive"]}), request_id, ANSWER_WAIT_MAX).await;
            }
            Err(failure) => failures.push(failure),
        }
    }
    Err(failures.join("; "))
}

async fn play(url: &str, vector: &Value) -> Result<(), String> {
    let offers = vector.pointer("/connect/subprotocols").cloned().unwrap_or(json!(["holon-web"]));
    let mut page = Page::open(url, &offers).await;
    let mut request_id = None;
    send(&mut page, vector, &mut request_id).await?;
    let expect = &vector["expect"];
    if expect.get("newConnectionAlive").is_some() {
        drop(page);
        let mut next = Page::open(url, &json!(["holon-web"])).await;
        return if next.is_alive().await {
            Ok(())
        } else {
            Err("expected the server to accept a new connection".to_owned())
        };
    }
    check_any(&mut page, expect, request_id.as_deref()).await?;
    match page.faults.first() {
        Some(fault) => Err(format!("a strict client would close on {fault}")),
        None => Ok(()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endpoint_passes_the_server_vectors() {
    let server = Running::folder(&interop_folder()).await;
    server.services_run().await;
    let mut failures = Vec::new();
    for vector in load_vectors("server") {
        if let Err(failure) = play(&server.url, &vector).await {
            failures.push(format!("{}: {failure}", vector["name"]));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
