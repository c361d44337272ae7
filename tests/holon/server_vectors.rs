//! Plays the vectors of the endpoint's role with a raw client.

use std::time::Duration;

use serde_json::{Value, json};

use crate::matching::{fault, filled, has_keys, matches};
use crate::support::Running;
use crate::support::wire::{ANSWER_WAIT_MAX, Arrival, Wire};
use crate::{interop_folder, vectors};

/// How long nothing may come before an alternative of a vector counts as not met.
const ALTERNATIVE_WAIT_MAX: Duration = Duration::from_millis(500);

/// A connection and all that came over it.
struct Visitor {
    wire: Wire,
    replies: Vec<Value>,
    requests: Vec<Value>,
    closed: Option<u16>,
    faults: Vec<String>,
}

impl Visitor {
    async fn open(url: &str, offers: &Value) -> Self {
        let offers: Vec<&str> = offers.as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let offers = (!offers.is_empty()).then(|| offers.join(", "));
        let wire = Wire::offering(&format!("{url}holon"), offers.as_deref()).await;
        Self { wire, replies: Vec::new(), requests: Vec::new(), closed: None, faults: Vec::new() }
    }

    /// Reads until something holds; whether it does.
    async fn until(&mut self, wait: Duration, holds: impl Fn(&Self) -> bool) -> bool {
        loop {
            if holds(self) {
                return true;
            }
            match self.wire.next_within(wait).await {
                Arrival::Text(text) => {
                    self.faults.extend(fault(&text).map(|why| format!("{why}: {text}")));
                    let frame: Value = serde_json::from_str(&text).unwrap();
                    let kept =
                        if frame.get("method").is_some() { &mut self.requests } else { &mut self.replies };
                    kept.push(frame);
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
        self.until(ANSWER_WAIT_MAX, |seen| seen.replies.contains(&pong)).await
    }
}

/// Whether every pattern has a reply of its own.
fn all_replied(wanted: &[Value], replies: &[Value], exact_keys: Option<&Value>) -> bool {
    let mut left: Vec<&Value> = replies.iter().collect();
    wanted.iter().all(|pattern| {
        let fits =
            |reply: &&Value| matches(pattern, reply) && exact_keys.is_none_or(|keys| has_keys(reply, keys));
        left.iter().position(fits).map(|at| left.remove(at)).is_some()
    })
}

async fn send(visitor: &mut Visitor, vector: &Value, asked_id: &mut Option<String>) -> Result<(), String> {
    let mut awaited = 0;
    for step in vector["send"].as_array().unwrap() {
        let (verb, value) = step.as_object().unwrap().iter().next().unwrap();
        let fill = |value: &Value| filled(value, "$SID", asked_id.as_deref().unwrap_or("$SID"));
        match verb.as_str() {
            "text" => visitor.wire.text(value.as_str().unwrap()).await,
            "json" | "jsonSID" | "reply" => visitor.wire.text(&fill(value).to_string()).await,
            "binary" => visitor.wire.binary(value.as_str().unwrap().into()).await,
            "awaitReplies" => {
                awaited += value.as_u64().unwrap() as usize;
                if !visitor.until(ANSWER_WAIT_MAX, |seen| seen.replies.len() >= awaited).await {
                    return Err(format!("fewer than {awaited} replies"));
                }
            }
            "awaitRequest" => {
                let is_it = |request: &&Value| request["method"] == *value;
                visitor.until(ANSWER_WAIT_MAX, |seen| seen.requests.iter().any(|one| is_it(&one))).await;
                let request = visitor.requests.iter().find(is_it).ok_or(format!("no request {value}"))?;
                check_shape(request, &step["shape"])?;
                *asked_id = Some(request["id"].as_str().unwrap().to_owned());
            }
            "terminate" => return Ok(()),
            other => return Err(format!("the player does not know {other:?}")),
        }
    }
    Ok(())
}

fn check_shape(request: &Value, shape: &Value) -> Result<(), String> {
    let fits = shape.is_null()
        || matches(&shape["payload"], &request["payload"])
            && matches(&json!({"$re": shape["idPattern"]}), &request["id"])
            && has_keys(request, &shape["exactKeys"]);
    if fits { Ok(()) } else { Err(format!("the request is {request}")) }
}

async fn check(
    visitor: &mut Visitor,
    expect: &Value,
    asked_id: Option<&str>,
    wait: Duration,
) -> Result<(), String> {
    let expect = filled(expect, "$SID", asked_id.unwrap_or("$SID"));
    if let Some(handshake) = expect.get("handshake") {
        let agreed = visitor.wire.subprotocol.clone().unwrap_or_default();
        if handshake["protocol"] != agreed {
            return Err(format!("the subprotocol is {agreed:?}"));
        }
    }
    if let Some(wanted) = expect.get("replies").and_then(Value::as_array) {
        let keys = expect.get("exactKeys");
        if !visitor.until(wait, |seen| all_replied(wanted, &seen.replies, keys)).await {
            return Err(format!("expected {wanted:?}, got {:?}", visitor.replies));
        }
    }
    if let Some(codes) = expect.get("close").and_then(Value::as_array) {
        let is_closed = |seen: &Visitor| seen.closed.is_some_and(|code| codes.contains(&json!(code)));
        if !visitor.until(wait, is_closed).await {
            return Err(format!("expected one of {codes:?}, closed with {:?}", visitor.closed));
        }
    }
    if expect.get("alive") == Some(&json!(true)) && !visitor.is_alive().await {
        return Err("the connection does not live on".to_owned());
    }
    match expect.get("noReplyTo") {
        Some(id) if visitor.replies.iter().any(|reply| reply["id"] == *id) => Err(format!("a reply to {id}")),
        _ => Ok(()),
    }
}

async fn check_any(visitor: &mut Visitor, expect: &Value, asked_id: Option<&str>) -> Result<(), String> {
    let Some(alternatives) = expect.get("anyOf").and_then(Value::as_array) else {
        return check(visitor, expect, asked_id, ANSWER_WAIT_MAX).await;
    };
    let mut failures = Vec::new();
    for alternative in alternatives {
        match check(visitor, alternative, asked_id, ALTERNATIVE_WAIT_MAX).await {
            Ok(()) => {
                return check(visitor, &json!({"alive": expect["alive"]}), asked_id, ANSWER_WAIT_MAX).await;
            }
            Err(failure) => failures.push(failure),
        }
    }
    Err(failures.join("; "))
}

async fn play(url: &str, vector: &Value) -> Result<(), String> {
    let offers = vector.pointer("/connect/subprotocols").cloned().unwrap_or(json!(["holon-web"]));
    let mut visitor = Visitor::open(url, &offers).await;
    let mut asked_id = None;
    send(&mut visitor, vector, &mut asked_id).await?;
    let expect = &vector["expect"];
    if expect.get("newConnectionAlive").is_some() {
        drop(visitor);
        let mut next = Visitor::open(url, &json!(["holon-web"])).await;
        return if next.is_alive().await { Ok(()) } else { Err("the server is gone".to_owned()) };
    }
    check_any(&mut visitor, expect, asked_id.as_deref()).await?;
    match visitor.faults.first() {
        Some(fault) => Err(format!("a strict client would close on {fault}")),
        None => Ok(()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_endpoint_does_what_the_vectors_say() {
    let server = Running::folder(&interop_folder()).await;
    server.services_run().await;
    let mut failures = Vec::new();
    for vector in vectors("server") {
        if let Err(failure) = play(&server.url, &vector).await {
            failures.push(format!("{}: {failure}", vector["name"]));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
