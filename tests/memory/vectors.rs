//! Plays the vectors in each dialect, signed and unsigned, against the real server.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::copy_profile;
use crate::matching::Matcher;
use crate::peer::{FLAGS, Identity, Peer, PeerOptions};
use crate::support::Running;
use crate::support::wire::ANSWER_WAIT_MAX;

const TAGGED: PeerOptions = PeerOptions { is_tagged: true, protocol: "memory", signs: true };
const PLAIN: PeerOptions = PeerOptions { is_tagged: false, protocol: "memory/v2", signs: true };

/// Vectors that allow a server to accept both dialects and both representations, as this one does.
const ACCEPTED_ALTERNATIVES: [&str; 2] =
    ["hello.flag-mismatch-modernCellRep", "frame.unprefixed-json-rejected"];

struct VectorRun<'a> {
    url: &'a str,
    options: PeerOptions,
    matcher: Matcher,
    identities: HashMap<String, Identity>,
    peers: HashMap<String, Peer>,
}

impl VectorRun<'_> {
    async fn step(&mut self, step: &Value) -> Result<(), String> {
        if let Some(wait) = step["sleep"].as_u64() {
            tokio::time::sleep(Duration::from_millis(wait)).await;
            return Ok(());
        }
        let name = step["conn"].as_str().unwrap();
        if step["close"] == json!(true) {
            self.peers.remove(name).unwrap().close().await;
            return Ok(());
        }
        if !self.peers.contains_key(name) {
            self.peers.insert(name.to_owned(), Peer::open(self.url, self.options).await);
        }
        let peer = self.peers.get_mut(name).unwrap();
        if let Some(text) = step["sendRaw"].as_str() {
            peer.text(text).await;
        } else if let Some(message) = step.get("send") {
            let mut message = self.matcher.substitute(message);
            if let Some(how) = message.as_object_mut().unwrap().remove("$sign") {
                let signer = how["signer"].as_str().or(how["iss"].as_str()).or(message["space"].as_str());
                let signer = &self.identities[signer.unwrap()];
                peer.sign(&mut message, &how, signer);
            }
            peer.send(&message).await;
        } else if let Some(wait) = step["silence"].as_u64() {
            while peer.receive(Duration::from_millis(wait)).await {}
            return peer.events.pop_front().map_or(Ok(()), |event| Err(format!("unexpected {event}")));
        } else if let Some(pattern) = step.get("expect") {
            let message = next_expected(peer, pattern).await;
            let mut mismatch = self.matcher.find_mismatch(pattern, Some(&message));
            if mismatch.is_some() && pattern["effect"]["upserts"].get("$contains").is_some() {
                // Two commits may arrive in one message or in two.
                mismatch = self.matcher.find_mismatch(pattern, Some(&next_expected(peer, pattern).await));
            }
            return mismatch.map_or(Ok(()), |mismatch| Err(format!("{mismatch}\n  in {message}")));
        } else {
            panic!("unknown step {step}");
        }
        Ok(())
    }
}

/// The next message of the expected kind. Effects without documents are skipped, unless the pattern
/// expects `caughtUpLocalSeq`.
async fn next_expected(peer: &mut Peer, pattern: &Value) -> Value {
    let kind = pattern["type"].as_str().unwrap();
    if !kind.starts_with("session/") {
        return peer.response().await;
    }
    loop {
        let event = peer.event().await;
        let is_empty = |list: &str| event["effect"][list].as_array().is_some_and(Vec::is_empty);
        let is_empty_sync = event["type"] == "session/effect" && is_empty("upserts") && is_empty("removes");
        if !is_empty_sync || pattern["effect"].get("caughtUpLocalSeq").is_some() {
            return event;
        }
    }
}

async fn play_case(url: &str, options: PeerOptions, case: &Value) -> Result<(), String> {
    let run_id = uuid::Uuid::new_v4();
    let mut matcher = Matcher::default();
    let mut identities = HashMap::new();
    for name in ["$space", "$space2", "$other"] {
        let identity = Identity::of(&format!("{name}{run_id}"));
        matcher.names.insert(name.to_owned(), json!(identity.did));
        identities.insert(identity.did.clone(), identity);
    }
    let flags: Value = serde_json::from_str(FLAGS).unwrap();
    let mut bad_flags = flags.clone();
    bad_flags["modernCellRep"] = json!(true);
    matcher.names.insert("$PROTO".to_owned(), json!(options.protocol));
    matcher.names.insert("$FLAGS".to_owned(), flags);
    matcher.names.insert("$BADFLAGS".to_owned(), bad_flags);
    let mut run = VectorRun { url, options, matcher, identities, peers: HashMap::new() };
    for (number, step) in case["steps"].as_array().unwrap().iter().enumerate() {
        run.step(step).await.map_err(|error| format!("{} step {number}: {error}", case["name"]))?;
    }
    Ok(())
}

fn applies_to(case: &Value, options: PeerOptions) -> bool {
    let requires = case["requires"].as_array().cloned().unwrap_or_default();
    let lacks = |need: &Value| match need.as_str().unwrap() {
        "auth" => !options.signs,
        "noauth" => options.signs,
        "fvj1" => !options.is_tagged,
        _ => false,
    };
    !requires.iter().any(lacks) && !ACCEPTED_ALTERNATIVES.contains(&case["name"].as_str().unwrap())
}

async fn play_all(options: PeerOptions) {
    assert!(ANSWER_WAIT_MAX > Duration::from_secs(1));
    let folder = copy_profile(if options.signs { "signed" } else { "trusted" });
    let running = Running::folder(folder.path()).await;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop/memory/vectors/memory.json");
    let vectors: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let filter = std::env::var("SCOMP_ONLY").unwrap_or_default();
    let mut failed = Vec::new();
    for case in vectors["cases"].as_array().unwrap() {
        if applies_to(case, options) && case["name"].as_str().unwrap().contains(&filter) {
            failed.extend(play_case(&running.url, options, case).await.err());
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn vectors_in_tagged_frames_with_signatures() {
    play_all(TAGGED).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn vectors_in_plain_frames_with_signatures() {
    play_all(PLAIN).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn vectors_in_tagged_frames_without_signatures() {
    play_all(PeerOptions { signs: false, ..TAGGED }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn vectors_in_plain_frames_without_signatures() {
    play_all(PeerOptions { signs: false, ..PLAIN }).await;
}

/// Covers the two vectors that are not played.
#[tokio::test(flavor = "multi_thread")]
async fn both_dialects_and_both_representations_are_accepted() {
    let folder = copy_profile("signed");
    let running = Running::folder(folder.path()).await;
    for modern in [false, true] {
        let mut peer = Peer::open(&running.url, TAGGED).await;
        peer.send(&json!({"type": "hello", "protocol": "memory", "flags": {"modernCellRep": modern}})).await;
        assert_eq!(peer.response().await["flags"]["modernCellRep"], json!(modern));
    }
    let mut peer = Peer::open(&running.url, TAGGED).await;
    peer.text(r#"{"type":"hello","protocol":"memory","flags":{}}"#).await;
    assert_eq!(peer.response().await["type"], json!("hello.ok"));
    let mut old = Peer::open(&running.url, PLAIN).await;
    let flags = json!({"richStorableValues": true, "unifiedJsonEncoding": false});
    old.send(&json!({"type": "hello", "protocol": "memory/v2", "flags": flags})).await;
    assert_eq!(old.response().await["flags"], flags);
}
