//! Which messages are valid, and the form of responses.

use serde_json::{Value, json};

use super::*;

fn message(value: Value) -> Option<ClientMessage> {
    parse_message(&Data::from_tagged(value))
}

#[test]
fn hello_flags_of_all_client_generations_are_parsed() {
    let flags = |flags: Value| match message(json!({"type": "hello", "protocol": "memory", "flags": flags})) {
        Some(ClientMessage::Hello { flags, .. }) => Some(flags),
        Some(ClientMessage::Request(_)) | None => None,
    };
    assert_eq!(flags(json!({})), Some(Flags::ModernCells(false)));
    assert_eq!(flags(json!({"modernCellRep": true, "later": "x"})), Some(Flags::ModernCells(true)));
    let rich = json!({"richStorableValues": true, "unifiedJsonEncoding": false});
    let parsed = flags(rich.clone()).unwrap();
    assert_eq!(parsed.to_data().to_plain(), rich);
    for wrong in
        [json!({"modernCellRep": "yes"}), json!({"persistentSchedulerState": 1}), json!(null), json!([])]
    {
        assert_eq!(flags(wrong.clone()), None, "{wrong}");
    }
    assert_eq!(message(json!({"type": "hello", "protocol": "memory"})), None);
}

#[test]
fn request_without_a_required_field_is_invalid() {
    let complete = json!({
        "type": "transact", "requestId": "1", "space": "s", "sessionId": "x", "commit": {},
        "query": {"roots": []}, "watches": [], "seenSeq": 1, "session": {},
    });
    let kinds = [
        ("session.open", "session"),
        ("transact", "commit"),
        ("graph.query", "query"),
        ("session.watch.set", "watches"),
        ("session.watch.add", "watches"),
        ("session.ack", "seenSeq"),
        ("scheduler.snapshot.list", "sessionId"),
    ];
    for (kind, field) in kinds {
        let mut value = complete.clone();
        value["type"] = json!(kind);
        assert!(message(value.clone()).is_some(), "{kind}");
        for missing in ["requestId", "space", field] {
            let mut without = value.clone();
            without[missing] = json!({"/Undefined@1": null});
            assert_eq!(message(without), None, "{kind} without {missing}");
        }
        value[field] = json!(-1);
        assert_eq!(message(value), None, "{kind} with a wrong {field}");
    }
    assert_eq!(message(json!({"type": "no.such", "requestId": "1", "space": "s", "sessionId": "x"})), None);
}

#[test]
fn request_past_the_watch_limit_is_invalid() {
    let watches = |count: usize| {
        message(
            json!({"type": "session.watch.set", "requestId": "1", "space": "s", "sessionId": "x", "watches": vec![json!({}); count]}),
        )
    };
    assert!(watches(WATCHES_MAX).is_some());
    assert!(watches(WATCHES_MAX + 1).is_none());
}

#[test]
fn undefined_schema_is_absent() {
    let roots =
        json!({"roots": [{"id": "of:x", "selector": {"path": ["a", 0], "schema": {"/Undefined@1": null}}}]});
    let query = Query::parse(&Data::from_tagged(roots)).unwrap();
    assert_eq!(query.roots[0].schema, None);
    assert_eq!(query.roots[0].path, ["a", "0"]);
}

#[test]
fn malformed_query_fails_with_query_error() {
    for wrong in [
        json!({"roots": [{}]}),
        json!({"roots": [{"id": "of:x"}]}),
        json!({"roots": [{"id": "of:x", "selector": {"path": "a"}}]}),
        json!({"roots": [], "branch": "other"}),
        json!({"roots": [], "atSeq": "1"}),
    ] {
        assert_eq!(Query::parse(&Data::from_plain(wrong)).unwrap_err().name, "QueryError");
    }
}

#[test]
fn receipt_names_the_scope_unless_it_is_the_space() {
    let revision = |scope_key: &str, op: &str, data: Option<Data>| Revision {
        key: super::super::names::DocumentKey { id: "of:x".to_owned(), scope_key: scope_key.to_owned() },
        op_index: 0,
        op: op.to_owned(),
        data,
    };
    let revisions =
        vec![revision("space", "delete", None), revision("user:a", "patch", Some(Data::List(vec![])))];
    let receipt = receipt_data(&CommitReceipt { seq: 7, revisions, is_replay: false }).to_plain();
    assert_eq!(
        receipt["revisions"],
        json!([
            {"branch": "", "commitSeq": 7, "id": "of:x", "op": "delete", "opIndex": 0, "seq": 7},
            {"branch": "", "commitSeq": 7, "id": "of:x", "op": "patch", "opIndex": 0, "patches": [], "scope": "user", "scopeKey": "user:a", "seq": 7},
        ])
    );
}

#[test]
fn error_response_contains_its_detail() {
    let error = WireError::new("ConflictError", "stale").with("retryAfterSeq", 4_u64);
    assert_eq!(
        response("r1", Err(error)).to_plain(),
        json!({"error": {"message": "stale", "name": "ConflictError", "retryAfterSeq": 4}, "requestId": "r1", "type": "response"})
    );
}
