//! Each shape of frame, each text of refusal, and that no input breaks the readers.

use proptest::prelude::*;
use serde_json::json;

use super::params::{LISTED_MAX, Limit, NAME_BYTES_MAX};
use super::*;

fn call(text: &str) -> Result<Call, String> {
    Request::read(text)?.call(Methods::Core)
}

fn refused(text: &str) -> String {
    call(text).expect_err(text)
}

#[test]
fn an_id_is_a_string_or_a_number_and_becomes_a_string() {
    let cases = [
        ("\"a\"", "a"),
        ("7", "7"),
        ("-3", "-3"),
        ("1.5", "1.5"),
        ("\"\"", ""),
        ("18446744073709551615", "18446744073709551615"),
    ];
    for (id, expected) in cases {
        let request = Request::read(&format!(r#"{{"id":{id},"method":"ping"}}"#)).unwrap();
        assert_eq!(request.id, expected);
    }
}

#[test]
fn other_ids_are_a_parse_error_that_says_what_was_expected() {
    for id in ["null", "true", "{}", "[]"] {
        let text = Request::read(&format!(r#"{{"id":{id},"method":"ping"}}"#)).unwrap_err();
        assert!(text.starts_with("parse error: invalid type: "), "{text}");
        assert!(text.contains("expected a string or a number"), "{text}");
    }
}

#[test]
fn broken_frames_are_parse_errors() {
    assert!(refused("hello").starts_with("parse error: "));
    assert!(refused("").starts_with("parse error: "));
    assert!(refused("\"ping\"").starts_with("parse error: invalid type: string \"ping\""));
    assert!(refused(r#"{"method":"ping"}"#).starts_with("parse error: missing field `id`"));
    assert!(refused(r#"{"id":"1"}"#).starts_with("parse error: missing field `method`"));
    assert!(refused(r#"{"id":"1","method":5}"#).starts_with("parse error: invalid type: integer `5`"));
    assert!(
        refused(r#"{"id":"1","id":"2","method":"ping"}"#).starts_with("parse error: duplicate field `id`")
    );
    assert!(refused(&"[".repeat(100_000)).starts_with("parse error: "));
}

#[test]
fn unknown_members_are_ignored() {
    assert_eq!(call(r#"{"jsonrpc":"2.0","id":"1","method":"ping","params":{"x":1},"y":[]}"#), Ok(Call::Ping));
}

#[test]
fn methods_of_the_future_are_known_only_where_they_are_switched_on() {
    let frame = r#"{"id":"1","method":"session.list"}"#;
    assert_eq!(refused(frame), "unknown method: session.list");
    let listed = Request::read(frame).unwrap().call(Methods::Extended);
    assert_eq!(listed, Ok(Call::SessionList(SessionListParams::default())));
    let odd = Request::read(r#"{"id":"1","method":"plugin.load"}"#).unwrap().call(Methods::Extended);
    assert_eq!(odd, Err("unknown method: plugin.load".to_owned()));
}

#[test]
fn chat_parameters_are_refused_in_the_words_that_peers_know() {
    let text =
        |params: Value| refused(&json!({"id": "c", "method": "chat.send", "params": params}).to_string());
    assert_eq!(
        refused(r#"{"id":"c","method":"chat.send"}"#),
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
fn a_peer_may_be_absent_and_guild_and_team_null() {
    let frame =
        r#"{"id":"c","method":"chat.send","params":{"channel":"w","account":"a","content":"","guild":null}}"#;
    let Ok(Call::ChatSend(chat)) = call(frame) else { panic!("a chat") };
    assert_eq!((chat.peer.as_str(), chat.content.as_str(), chat.guild, chat.team), ("main", "", None, None));
}

#[test]
fn names_have_a_longest_length() {
    let chat = |bytes: usize| {
        let params = json!({"channel": "w", "account": "a".repeat(bytes), "content": ""});
        call(&json!({"id": "c", "method": "chat.send", "params": params}).to_string())
    };
    assert!(chat(NAME_BYTES_MAX).is_ok());
    let refused = chat(NAME_BYTES_MAX + 1).unwrap_err();
    assert_eq!(refused, "invalid chat.send params: `account` is longer than 512 bytes");
}

#[test]
fn a_limit_is_kept_within_its_bounds() {
    assert_eq!(Limit::from(0).get(), 1);
    assert_eq!(Limit::from(LISTED_MAX).get(), LISTED_MAX);
    assert_eq!(Limit::from(LISTED_MAX + 1).get(), LISTED_MAX);
}

#[test]
fn event_frames_have_their_members_in_alphabetical_order() {
    let use_of = ToolUse { id: "call_1".to_owned(), input: json!({"a": 1}), name: "echo".to_owned() };
    let result = ToolResult { content: "hi".to_owned(), is_error: false, tool_use_id: "call_1".to_owned() };
    let frames = [
        (Event::Text("hi".to_owned()), r#"{"data":"hi","event":"text","id":"c"}"#),
        (
            Event::ToolUse(use_of),
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
        assert_eq!(event.frame("c"), expected);
    }
}

#[test]
fn plain_frames_are_written_as_clients_read_them() {
    assert_eq!(hello(), r#"{"ok":true,"version":"0.1.0"}"#);
    assert_eq!(auth_failed(), r#"{"error":"auth_failed","code":4001}"#);
    assert_eq!(answer("1", &Ok(json!("pong"))), r#"{"id":"1","result":"pong"}"#);
    assert_eq!(answer("0", &Err("no".to_owned())), r#"{"id":"0","error":"no"}"#);
}

#[test]
fn a_token_is_a_string_of_an_object() {
    assert_eq!(token_of(r#"{"token":"s","more":1}"#).as_deref(), Some("s"));
    for text in ["", "{", "\"s\"", r#"["s"]"#, r#"{"token":1}"#, r#"{"token":null}"#, r#"{"id":"1"}"#] {
        assert_eq!(token_of(text), None, "{text}");
    }
}

#[test]
fn a_client_takes_null_for_absent_and_any_event() {
    let answer = |outcome| Ok(Reply::Answer { id: "1".to_owned(), outcome });
    assert_eq!(Reply::read(r#"{"id":"1","result":"pong","error":null}"#), answer(Ok(json!("pong"))));
    assert_eq!(Reply::read(r#"{"id":1,"result":null}"#), answer(Ok(Value::Null)));
    assert_eq!(Reply::read(r#"{"id":"1","result":null,"error":"no"}"#), answer(Err("no".to_owned())));
    assert_eq!(
        Reply::read(r#"{"id":"1","error":{"message":"no"}}"#),
        answer(Err(r#"{"message":"no"}"#.to_owned()))
    );
    let event = Reply::Event { id: "1".to_owned(), event: "new".to_owned(), data: Some(json!([1])) };
    assert_eq!(Reply::read(r#"{"id":"1","event":"new","data":[1]}"#), Ok(event));
    assert_eq!(Reply::read(&hello()), Ok(Reply::Hello));
    assert_eq!(Reply::read(&auth_failed()), Ok(Reply::AuthFailed));
}

#[test]
fn a_client_refuses_what_says_nothing() {
    for text in [
        "",
        "[]",
        "{}",
        r#"{"id":"1"}"#,
        r#"{"id":null,"result":1}"#,
        r#"{"id":"1","event":1}"#,
        r#"{"id":"1","error":null}"#,
    ] {
        assert!(Reply::read(text).is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn no_text_breaks_the_readers(text in ".{0,200}") {
        let _ = call(&text);
        let _ = Reply::read(&text);
        let _ = token_of(&text);
    }

    #[test]
    fn a_client_reads_every_event_that_a_gateway_writes(id in ".{0,20}", text in ".{0,50}", input in 0u64..9, failed: bool) {
        let use_of = ToolUse { id: text.clone(), input: json!({"n": input}), name: id.clone() };
        let result = ToolResult { content: text.clone(), is_error: failed, tool_use_id: id.clone() };
        let usage = Usage { input_tokens: input, output_tokens: 1 };
        let events = [
            Event::Text(text.clone()), Event::ToolUse(use_of), Event::ToolResult(result), Event::Usage(usage),
            Event::Error(text), Event::Done,
        ];
        for event in events {
            let Ok(Reply::Event { id: read_id, event: name, data }) = Reply::read(&event.frame(&id)) else {
                return Err(TestCaseError::fail("no event"));
            };
            prop_assert_eq!(&read_id, &id);
            prop_assert_eq!(Event::read(&name, data.unwrap_or_default()), Ok(event));
        }
    }

    #[test]
    fn a_gateway_reads_every_request_that_a_client_writes(id in ".{0,20}", content in ".{0,50}") {
        let params = json!({"channel": "w", "account": "a", "content": content});
        let read = Request::read(&request(&id, "chat.send", Some(&params))).unwrap();
        prop_assert_eq!(&read.id, &id);
        let Ok(Call::ChatSend(chat)) = read.call(Methods::Core) else { return Err(TestCaseError::fail("no chat")) };
        prop_assert_eq!(chat.content, content);
    }
}
