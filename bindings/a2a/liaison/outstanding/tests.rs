//! Frames of gateways that repeat correlations, and of those that do not.

use serde_json::json;

use super::*;

const ONE: LineNumber = LineNumber(1);
const TWO: LineNumber = LineNumber(2);

fn asked(kind: &str, id: &str) -> Value {
    json!({"type": kind, "agent": "coder", "content": {}, "metadata": {"correlationId": id}})
}

fn plain(kind: &str) -> Value {
    json!({"type": kind, "content": {}})
}

fn sort(outstanding: &mut Outstanding, mut frame: Value) -> (Match, Value) {
    let found = outstanding.sort(&mut frame, |agent| agent == "coder");
    (found, frame["correlationId"].clone())
}

#[test]
fn answers_without_correlation_are_matched_by_type_and_order() {
    let mut outstanding = Outstanding::default();
    outstanding.note(Some(ONE), &asked("discovery", "d1"), false);
    outstanding.note(Some(TWO), &asked("subscribe", "s"), false);
    outstanding.note(Some(TWO), &asked("discovery", "d2"), false);
    assert_eq!(sort(&mut outstanding, plain("subscribe")), (Match::Line(TWO), json!("s")));
    assert_eq!(sort(&mut outstanding, plain("discovery")), (Match::Line(ONE), json!("d1")));
    assert_eq!(sort(&mut outstanding, plain("discovery")), (Match::Line(TWO), json!("d2")));
    assert_eq!(sort(&mut outstanding, plain("discovery")).0, Match::Ignored);
}

#[test]
fn error_without_correlation_is_about_what_the_first_fence_stands_behind() {
    let mut outstanding = Outstanding::default();
    outstanding.note(Some(ONE), &asked("message", "m"), false);
    outstanding.note(Some(TWO), &plain("message"), true);
    assert_eq!(sort(&mut outstanding, plain("error")), (Match::Line(ONE), json!("m")));
    assert_eq!(sort(&mut outstanding, plain("handshake")).0, Match::Fences(Vec::new()));
    assert_eq!(sort(&mut outstanding, plain("error")), (Match::Line(TWO), json!(null)));
    assert_eq!(sort(&mut outstanding, plain("handshake")).0, Match::Fences(vec![TWO]));
    assert_eq!(sort(&mut outstanding, plain("error")).0, Match::Ignored);
}

#[test]
fn acknowledged_handshake_is_not_taken_for_its_fence() {
    let mut outstanding = Outstanding::default();
    outstanding.note(Some(ONE), &plain("handshake"), true);
    assert_eq!(sort(&mut outstanding, plain("handshake")).0, Match::Ignored);
    assert_eq!(sort(&mut outstanding, plain("handshake")).0, Match::Fences(vec![ONE]));
}

#[test]
fn fence_that_is_refused_under_its_correlation_is_passed() {
    let mut outstanding = Outstanding::default();
    let first = outstanding.note(Some(ONE), &plain("message"), true);
    let second = outstanding.note(Some(TWO), &plain("message"), true);
    assert_ne!(first, second);
    let refused = json!({"type": "error", "content": {"code": 3003}, "correlationId": second});
    assert_eq!(sort(&mut outstanding, refused).0, Match::Fences(vec![ONE, TWO]));
}

#[test]
fn question_to_an_agent_of_the_link_comes_back_before_its_answer() {
    let mut outstanding = Outstanding::default();
    outstanding.note(Some(ONE), &asked("message", "c"), false);
    assert_eq!(sort(&mut outstanding, asked("message", "c")).0, Match::News);
    let mut answer = asked("message", "c");
    answer["metadata"]["parentId"] = json!("q");
    assert_eq!(sort(&mut outstanding, answer.clone()).0, Match::Line(ONE), "whatever agent it names");
    assert_eq!(sort(&mut outstanding, answer).0, Match::News);
}

#[test]
fn word_that_a_message_waits_does_not_settle_it() {
    let mut outstanding = Outstanding::default();
    outstanding.note(Some(ONE), &asked("message", "c"), false);
    let queued = json!({"type": "status", "content": {"queued": true}, "correlationId": "c"});
    assert_eq!(sort(&mut outstanding, queued).0, Match::Line(ONE));
    let response = json!({"type": "response", "correlationId": "c"});
    assert_eq!(sort(&mut outstanding, response).0, Match::Line(ONE));
}

#[test]
fn last_place_is_taken_and_free_again_when_everything_is_lost() {
    let mut outstanding = Outstanding::default();
    for number in 0..OUTSTANDING_MAX / 2 {
        assert!(outstanding.has_room());
        outstanding.note(Some(ONE), &asked("message", &number.to_string()), false);
    }
    assert!(!outstanding.has_room());
    let (questions, notified) = outstanding.take_all();
    assert_eq!((questions.len(), notified.len()), (OUTSTANDING_MAX / 2, 0));
    assert!(outstanding.has_room());
}
