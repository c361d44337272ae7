//! The shapes of frames, the error texts, and that no input makes the parsers panic.

use proptest::prelude::*;
use serde_json::json;

use super::params::{LISTED_MAX, Limit, NAME_BYTES_MAX};
use super::*;

fn parse_call(text: &str) -> Result<Call, String> {
    Request::parse(text)?.into_call(Methods::Core)
}

fn parse_error(text: &str) -> String {
    parse_call(text).expect_err(text)
}

#[test]
fn id_may_be_a_string_or_a_number() {
    let cases = [
        ("\"a\"", "a"),
        ("7", "7"),
        ("-3", "-3"),
        ("1.5", "1.5"),
        ("\"\"", ""),
        ("18446744073709551615", "18446744073709551615"),
    ];
    for (id, expected) in cases {
        let request = Request::parse(&format!(r#"{{"id":{id},"method":"ping"}}"#)).unwrap();
        assert_eq!(request.id, expected);
    }
}

#[test]
fn id_of_another_type_is_a_parse_error() {
    for id in ["null", "true", "{}", "[]"] {
        let text = Request::parse(&format!(r#"{{"id":{id},"method":"ping"}}"#)).unwrap_err();
        assert!(text.starts_with("parse error: invalid type: "), "{text}");
        assert!(text.contains("expected a string or a number"), "{text}");
    }
}

#[test]
fn invalid_frame_is_a_parse_error() {
    assert!(parse_error("hello").starts_with("parse error: "));
    assert!(parse_error("").starts_with("parse error: "));
    assert!(parse_error("\"ping\"").starts_with("parse error: invalid type: string \"ping\""));
    assert!(parse_error(r#"{"method":"ping"}"#).starts_with("parse error: missing field `id`"));
    assert!(parse_error(r#"{"id":"1"}"#).starts_with("parse error: missing field `method`"));
    assert!(parse_error(r#"{"id":"1","method":5}"#).starts_with("parse error: invalid type: integer `5`"));
    assert!(
        parse_error(r#"{"id":"1","id":"2","method":"ping"}"#)
            .starts_with("parse error: duplicate field `id`")
    );
    assert!(parse_error(&"[".repeat(100_000)).starts_with("parse error: "));
}

#[test]
fn unknown_members_are_ignored() {
    assert_eq!(
        parse_call(r#"{"jsonrpc":"2.0","id":"1","method":"ping","params":{"x":1},"y":[]}"#),
        Ok(Call::Ping)
    );
}

#[test]
fn extended_methods_are_unknown_to_a_core_gateway() {
    let frame = r#"{"id":"1","method":"session.list"}"#;
    assert_eq!(parse_error(frame), "unknown method: session.list");
    let extended = Request::parse(frame).unwrap().into_call(Methods::Extended);
    assert_eq!(extended, Ok(Call::SessionList(SessionListParams::default())));
    let unknown =
        Request::parse(r#"{"id":"1","method":"plugin.load"}"#).unwrap().into_call(Methods::Extended);
    assert_eq!(unknown, Err("unknown method: plugin.load".to_owned()));
}

#[test]
fn invalid_chat_params_have_the_expected_error_texts() {
    let text =
        |params: Value| parse_error(&json!({"id": "c", "method": "chat.send", "params": params}).to_string());
    assert_eq!(
        parse_error(r#"{"id":"c","method":"chat.send"}"#),
        "invalid chat.send params: invalid type: null, expected struct ChatSendParams"
    );
    assert_eq!(
        text(json!({"channel": "a", "content": "x"})),
        "invalid chat.send params: missing field `account`"
    );
    assert_eq!(
        text(json!({"channel": "a", "account": "x", "content": {}})),
        "invalid chat.send params: invalid type: map, expected a string"
    );
    assert_eq!(
        text(json!({"channel": "a", "account": "x", "content": "", "peer": null})),
        "invalid chat.send params: invalid type: null, expected a string"
    );
    assert_eq!(
        text(json!({"channel": "a", "account": "x", "content": "", "guild": 5})),
        "invalid chat.send params: invalid type: integer `5`, expected a string"
    );
    assert!(text(json!("x")).starts_with("invalid chat.send params: invalid type: string \"x\""));
}

#[test]
fn peer_may_be_absent_and_guild_and_team_null() {
    let frame =
        r#"{"id":"c","method":"chat.send","params":{"channel":"w","account":"a","content":"","guild":null}}"#;
    let Ok(Call::ChatSend(chat)) = parse_call(frame) else { panic!("a chat") };
    assert_eq!((chat.peer.as_str(), chat.content.as_str(), chat.guild, chat.team), ("main", "", None, None));
}

#[test]
fn name_past_the_length_limit_is_rejected() {
    let chat = |bytes: usize| {
        let params = json!({"channel": "w", "account": "a".repeat(bytes), "content": ""});
        parse_call(&json!({"id": "c", "method": "chat.send", "params": params}).to_string())
    };
    assert!(chat(NAME_BYTES_MAX).is_ok());
    let error = chat(NAME_BYTES_MAX + 1).unwrap_err();
    assert_eq!(error, "invalid chat.send params: `account` is longer than 512 bytes");
}

#[test]
fn limit_is_clamped() {
    assert_eq!(Limit::from(0).get(), 1);
    assert_eq!(Limit::from(LISTED_MAX).get(), LISTED_MAX);
    assert_eq!(Limit::from(LISTED_MAX + 1).get(), LISTED_MAX);
}

#[test]
fn event_frames_have_members_in_alphabetical_order() {
    let tool_use = ToolUse { id: "call_1".to_owned(), input: json!({"a": 1}), name: "echo".to_owned() };
    let result = ToolResult { content: "hi".to_owned(), is_error: false, tool_use_id: "call_1".to_owned() };
    let frames = [
        (Event::Text("hi".to_owned()), r#"{"data":"hi","event":"text","id":"c"}"#),
        (
            Event::ToolUse(tool_use),
            r#"{"data":{"id":"call_1","input":{"a":1},"name":"echo"},"event":"tool_use","id":"c"}"#,
        ),
        (
            Event::ToolResult(result),
            r#"{"data":{"content":"hi","is_error":false,"tool_use_id":"call_1"},"event":"tool_result","id":"c"}"#,
        ),
        (
            Event::Usage(Usage { input_tokens: 1, output_tokens: 2 }),
            r#"{"data":{"input_tokens":1,"output_tokens":2},"event":"usage","id":"c"}"#,
        ),
        (Event::Error("no".to_owned()), r#"{"data":"no","event":"error","id":"c"}"#),
        (Event::Done, r#"{"event":"done","id":"c"}"#),
    ];
    for (event, expected) in frames {
        assert_eq!(event.encode("c"), expected);
    }
}

#[test]
fn response_frames_have_the_expected_text() {
    assert_eq!(hello_frame(), r#"{"ok":true,"version":"0.1.0"}"#);
    assert_eq!(auth_failed_frame(), r#"{"error":"auth_failed","code":4001}"#);
    assert_eq!(encode_response("1", &Ok(json!("pong"))), r#"{"id":"1","result":"pong"}"#);
    assert_eq!(encode_response("0", &Err("no".to_owned())), r#"{"id":"0","error":"no"}"#);
}

#[test]
fn token_must_be_a_string_in_an_object() {
    assert_eq!(parse_token(r#"{"token":"s","more":1}"#).as_deref(), Some("s"));
    for text in ["", "{", "\"s\"", r#"["s"]"#, r#"{"token":1}"#, r#"{"token":null}"#, r#"{"id":"1"}"#] {
        assert_eq!(parse_token(text), None, "{text}");
    }
}

#[test]
fn client_accepts_null_members_and_unknown_events() {
    let response = |outcome| Ok(Reply::Response { id: "1".to_owned(), outcome });
    assert_eq!(Reply::parse(r#"{"id":"1","result":"pong","error":null}"#), response(Ok(json!("pong"))));
    assert_eq!(Reply::parse(r#"{"id":1,"result":null}"#), response(Ok(Value::Null)));
    assert_eq!(Reply::parse(r#"{"id":"1","result":null,"error":"no"}"#), response(Err("no".to_owned())));
    assert_eq!(
        Reply::parse(r#"{"id":"1","error":{"message":"no"}}"#),
        response(Err(r#"{"message":"no"}"#.to_owned()))
    );
    let event = Reply::Event { id: "1".to_owned(), event: "new".to_owned(), data: Some(json!([1])) };
    assert_eq!(Reply::parse(r#"{"id":"1","event":"new","data":[1]}"#), Ok(event));
    assert_eq!(Reply::parse(&hello_frame()), Ok(Reply::Hello));
    assert_eq!(Reply::parse(&auth_failed_frame()), Ok(Reply::AuthFailed));
}

#[test]
fn client_rejects_meaningless_frames() {
    for text in [
        "",
        "[]",
        "{}",
        r#"{"id":"1"}"#,
        r#"{"id":null,"result":1}"#,
        r#"{"id":"1","event":1}"#,
        r#"{"id":"1","error":null}"#,
    ] {
        assert!(Reply::parse(text).is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn parse_of_any_text_does_not_panic(text in ".{0,200}") {
        let _ = parse_call(&text);
        let _ = Reply::parse(&text);
        let _ = parse_token(&text);
    }

    #[test]
    fn client_parses_every_event_of_a_gateway(id in ".{0,20}", text in ".{0,50}", input in 0u64..9, failed: bool) {
        let tool_use = ToolUse { id: text.clone(), input: json!({"n": input}), name: id.clone() };
        let result = ToolResult { content: text.clone(), is_error: failed, tool_use_id: id.clone() };
        let usage = Usage { input_tokens: input, output_tokens: 1 };
        let events = [
            Event::Text(text.clone()), Event::ToolUse(tool_use), Event::ToolResult(result), Event::Usage(usage),
            Event::Error(text), Event::Done,
        ];
        for event in events {
            let Ok(Reply::Event { id: read_id, event: name, data }) = Reply::parse(&event.encode(&id)) else {
                return Err(TestCaseError::fail("not an event"));
            };
            prop_assert_eq!(&read_id, &id);
            prop_assert_eq!(Event::parse(&name, data.unwrap_or_default()), Ok(event));
        }
    }

    #[test]
    fn gateway_parses_every_request_of_a_client(id in ".{0,20}", content in ".{0,50}") {
        let params = json!({"channel": "w", "account": "a", "content": content});
        let read = Request::parse(&encode_request(&id, "chat.send", Some(&params))).unwrap();
        prop_assert_eq!(&read.id, &id);
        let Ok(Call::ChatSend(chat)) = read.into_call(Methods::Core) else { return Err(TestCaseError::fail("not a chat")) };
        prop_assert_eq!(chat.content, content);
    }
}
