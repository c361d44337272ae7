//! Matching frames of gateways that repeat correlations, and of gateways that do not.

use serde_json::json;

use super::*;

const ONE: LinkClientId = LinkClientId(1);
const TWO: LinkClientId = LinkClientId(2);

fn request(kind: &str, id: &str) -> Value {
    json!({"type": kind, "agent": "coder", "content": {}, "metadata": {"correlationId": id}})
}

fn plain(kind: &str) -> Value {
    json!({"type": kind, "content": {}})
}

fn match_frame(in_flight: &mut InFlightFrames, mut frame: Value) -> (FrameMatch, Value) {
    let found = in_flight.match_frame(&mut frame, |agent| agent == "coder");
    (found, frame["correlationId"].clone())
}

#[test]
fn replies_without_correlation_match_by_type_and_order() {
    let mut in_flight = InFlightFrames::default();
    in_flight.add(Some(ONE), &request("discovery", "d1"), false);
    in_flight.add(Some(TWO), &request("subscribe", "s"), false);
    in_flight.add(Some(TWO), &request("discovery", "d2"), false);
    assert_eq!(match_frame(&mut in_flight, plain("subscribe")), (FrameMatch::Client(TWO), json!("s")));
    assert_eq!(match_frame(&mut in_flight, plain("discovery")), (FrameMatch::Client(ONE), json!("d1")));
    assert_eq!(match_frame(&mut in_flight, plain("discovery")), (FrameMatch::Client(TWO), json!("d2")));
    assert_eq!(match_frame(&mut in_flight, plain("discovery")).0, FrameMatch::Ignored);
}

#[test]
fn error_without_correlation_matches_the_first_fence() {
    let mut in_flight = InFlightFrames::default();
    in_flight.add(Some(ONE), &request("message", "m"), false);
    in_flight.add(Some(TWO), &plain("message"), true);
    assert_eq!(match_frame(&mut in_flight, plain("error")), (FrameMatch::Client(ONE), json!("m")));
    assert_eq!(match_frame(&mut in_flight, plain("handshake")).0, FrameMatch::Fences(Vec::new()));
    assert_eq!(match_frame(&mut in_flight, plain("error")), (FrameMatch::Client(TWO), json!(null)));
    assert_eq!(match_frame(&mut in_flight, plain("handshake")).0, FrameMatch::Fences(vec![TWO]));
    assert_eq!(match_frame(&mut in_flight, plain("error")).0, FrameMatch::Ignored);
}

#[test]
fn handshake_ack_is_not_taken_for_its_fence() {
    let mut in_flight = InFlightFrames::default();
    in_flight.add(Some(ONE), &plain("handshake"), true);
    assert_eq!(match_frame(&mut in_flight, plain("handshake")).0, FrameMatch::Ignored);
    assert_eq!(match_frame(&mut in_flight, plain("handshake")).0, FrameMatch::Fences(vec![ONE]));
}

#[test]
fn refused_fence_is_passed() {
    let mut in_flight = InFlightFrames::default();
    let first = in_flight.add(Some(ONE), &plain("message"), true);
    let second = in_flight.add(Some(TWO), &plain("message"), true);
    assert_ne!(first, second);
    let refused = json!({"type": "error", "content": {"code": 3003}, "correlationId": second});
    assert_eq!(match_frame(&mut in_flight, refused).0, FrameMatch::Fences(vec![ONE, TWO]));
}

#[test]
fn request_to_own_agent_arrives_before_its_reply() {
    let mut in_flight = InFlightFrames::default();
    in_flight.add(Some(ONE), &request("message", "c"), false);
    assert_eq!(match_frame(&mut in_flight, request("message", "c")).0, FrameMatch::Unsolicited);
    let mut reply = request("message", "c");
    reply["metadata"]["parentId"] = json!("q");
    assert_eq!(
        match_frame(&mut in_flight, reply.clone()).0,
        FrameMatch::Client(ONE),
        "whatever agent it names"
    );
    assert_eq!(match_frame(&mut in_flight, reply).0, FrameMatch::Unsolicited);
}

#[test]
fn queued_status_does_not_complete_a_request() {
    let mut in_flight = InFlightFrames::default();
    in_flight.add(Some(ONE), &request("message", "c"), false);
    let queued = json!({"type": "status", "content": {"queued": true}, "correlationId": "c"});
    assert_eq!(match_frame(&mut in_flight, queued).0, FrameMatch::Client(ONE));
    let response = json!({"type": "response", "correlationId": "c"});
    assert_eq!(match_frame(&mut in_flight, response).0, FrameMatch::Client(ONE));
}

#[test]
fn room_at_limit_returns_after_take_all() {
    let mut in_flight = InFlightFrames::default();
    for number in 0..IN_FLIGHT_MAX / 2 {
        assert!(in_flight.has_room());
        in_flight.add(Some(ONE), &request("message", &number.to_string()), false);
    }
    assert!(!in_flight.has_room());
    let (requests, clients) = in_flight.take_all();
    assert_eq!((requests.len(), clients.len()), (IN_FLIGHT_MAX / 2, 0));
    assert!(in_flight.has_room());
}
