//! The requests to each provider, and the reading of its answers.

use proptest::prelude::*;
use serde_json::json;

use super::sse::SseReader;
use super::*;

fn read(provider: Provider, stream: &str) -> (Vec<Piece>, Usage, Result<(), AnswerError>) {
    let (mut reader, mut sse, mut pieces) = (provider.new_reader(), SseReader::default(), Vec::new());
    for event in sse.feed(stream.as_bytes()).unwrap() {
        match reader.on_event(&event) {
            Ok(more) => pieces.extend(more),
            Err(error) => return (pieces, reader.usage(), Err(error)),
        }
    }
    (pieces, reader.usage(), reader.on_end())
}

fn stream(events: &[Value]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

fn tool_use(id: &str, name: &str, input: Value) -> ToolUse {
    ToolUse { id: id.to_owned(), input, name: name.to_owned() }
}

fn conversation() -> Vec<Message> {
    let result = |content: &str, is_error, id: &str| ToolResult {
        content: content.to_owned(),
        is_error,
        tool_use_id: id.to_owned(),
    };
    vec![
        Message::User("hello".to_owned()),
        Message::Assistant {
            text: "Let me check.".to_owned(),
            tool_uses: vec![tool_use("a", "echo", json!({"m": 1})), tool_use("b", "fail", json!({}))],
        },
        Message::ToolResults(vec![result("hi", false, "a"), result("no", true, "b")]),
        Message::Assistant { text: "Done.".to_owned(), tool_uses: Vec::new() },
    ]
}

fn encode(provider: Provider, system: Option<&str>, tools: &[Tool]) -> Value {
    provider.encode_request(&Prompt { model: "m", tokens_max: 9, system, messages: &conversation(), tools })
}

#[test]
fn anthropic_request_has_content_blocks() {
    let tools =
        [Tool { name: "echo".to_owned(), description: "Echo.".to_owned(), input: json!({"type": "object"}) }];
    let expected = json!({
        "model": "m", "max_tokens": 9, "stream": true, "system": "Be kind.",
        "messages": [
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": [
                {"type": "text", "text": "Let me check."},
                {"type": "tool_use", "id": "a", "name": "echo", "input": {"m": 1}},
                {"type": "tool_use", "id": "b", "name": "fail", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "hi", "is_error": false},
                {"type": "tool_result", "tool_use_id": "b", "content": "no", "is_error": true},
            ]},
            {"role": "assistant", "content": "Done."},
        ],
        "tools": [{"name": "echo", "description": "Echo.", "input_schema": {"type": "object"}}],
    });
    assert_eq!(encode(Provider::Anthropic, Some("Be kind."), &tools), expected);
}

#[test]
fn openai_request_has_tool_messages() {
    let tools =
        [Tool { name: "echo".to_owned(), description: "Echo.".to_owned(), input: json!({"type": "object"}) }];
    let call = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    let expected = json!({
        "model": "m", "max_tokens": 9, "stream": true, "stream_options": {"include_usage": true},
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": "Let me check.", "tool_calls": [call("a", "echo", "{\"m\":1}"), call("b", "fail", "{}")]},
            {"role": "tool", "tool_call_id": "a", "content": "hi"},
            {"role": "tool", "tool_call_id": "b", "content": "error: no"},
            {"role": "assistant", "content": "Done."},
        ],
        "tools": [{"type": "function", "function": {"name": "echo", "description": "Echo.", "parameters": {"type": "object"}}}],
    });
    assert_eq!(encode(Provider::OpenAi, Some("Be kind."), &tools), expected);
}

#[test]
fn absent_tools_and_system_prompt_are_omitted() {
    for provider in [Provider::Anthropic, Provider::OpenAi] {
        let body = encode(provider, None, &[]);
        assert_eq!((body.get("tools"), body.get("system")), (None, None));
    }
}

#[test]
fn anthropic_text_tools_and_usage_are_read() {
    let text = stream(&[
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 150, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "ping"}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "c", "name": "echo", "input": {}}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{\"m\""}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": ":1}"}}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 20}}),
        json!({"type": "message_stop"}),
    ]);
    let (pieces, usage, end) = read(Provider::Anthropic, &text);
    let expected =
        [Piece::Text("Hi".to_owned()), Piece::ToolUse(tool_use("c", "echo", json!({"m": 1}))), Piece::End];
    assert_eq!(pieces, expected);
    assert_eq!((usage, end), (Usage { input_tokens: 150, output_tokens: 20 }, Ok(())));
}

#[test]
fn openai_text_tools_and_usage_are_read() {
    let delta = |delta: Value, reason: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
    let mut text = stream(&[
        delta(json!({"role": "assistant", "content": ""}), Value::Null),
        delta(json!({"content": "Hi"}), Value::Null),
        delta(json!({"tool_calls": [{"index": 1, "function": {"name": "b", "arguments": ""}}]}), Value::Null),
        delta(
            json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "echo", "arguments": "{\"m\""}}]}),
            Value::Null,
        ),
        delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]}), Value::Null),
        delta(json!({}), json!("tool_calls")),
        json!({"choices": [], "usage": {"prompt_tokens": 150, "completion_tokens": 20}}),
    ]);
    text.push_str("data: [DONE]\n\n");
    let (pieces, usage, end) = read(Provider::OpenAi, &text);
    let expected = [
        Piece::Text("Hi".to_owned()),
        Piece::ToolUse(tool_use("c", "echo", json!({"m": 1}))),
        Piece::ToolUse(tool_use("call_1", "b", json!({}))),
        Piece::End,
    ];
    assert_eq!(pieces, expected);
    assert_eq!((usage, end), (Usage { input_tokens: 150, output_tokens: 20 }, Ok(())));
}

#[test]
fn error_event_fails_the_answer() {
    let event = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    for provider in [Provider::Anthropic, Provider::OpenAi] {
        let (_, _, end) = read(provider, &stream(std::slice::from_ref(&event)));
        assert_eq!(end.unwrap_err().to_string(), "overloaded_error: Overloaded");
    }
}

#[test]
fn answer_without_end_event_is_complete_unless_invalid() {
    for provider in [Provider::Anthropic, Provider::OpenAi] {
        assert_eq!(read(provider, "<html>no</html>\n\n").2, Err(AnswerError::NoEvents));
        assert_eq!(read(provider, "").2, Err(AnswerError::NoEvents));
        assert_eq!(read(provider, "data: {\n\n").2, Err(AnswerError::InvalidEvent));
        assert_eq!(read(provider, "data: [1]\n\n").2, Err(AnswerError::InvalidEvent));
    }
    let started = stream(&[json!({"type": "message_start", "message": {"usage": {"input_tokens": 3}}})]);
    let (pieces, usage, end) = read(Provider::Anthropic, &started);
    assert_eq!((pieces, usage.input_tokens, end), (Vec::new(), 3, Ok(())));
}

fn anthropic_tool(index: usize, input: &str) -> [Value; 3] {
    [
        json!({"type": "content_block_start", "index": index, "content_block": {"type": "tool_use", "id": "c", "name": "echo"}}),
        json!({"type": "content_block_delta", "index": index, "delta": {"partial_json": input}}),
        json!({"type": "content_block_stop", "index": index}),
    ]
}

#[test]
fn invalid_tool_input_is_an_error_and_absent_is_empty() {
    for input in ["{\"m\":", "[1]", "7"] {
        let (_, _, end) = read(Provider::Anthropic, &stream(&anthropic_tool(0, input)));
        assert_eq!(end, Err(AnswerError::InvalidInput("echo".to_owned())), "{input}");
    }
    for input in ["", " ", "null", "{}"] {
        let (pieces, _, _) = read(Provider::Anthropic, &stream(&anthropic_tool(0, input)));
        assert_eq!(pieces, [Piece::ToolUse(tool_use("c", "echo", json!({})))], "{input}");
    }
}

#[test]
fn tool_input_past_the_length_limit_is_an_error() {
    let parts = |bytes: usize| {
        let [start, _, stop] = anthropic_tool(0, "");
        let part = |text: String| json!({"type": "content_block_delta", "index": 0, "delta": {"partial_json": text}});
        stream(&[
            start,
            part(" ".repeat(TOOL_INPUT_BYTES_MAX / 2)),
            part(" ".repeat(bytes - TOOL_INPUT_BYTES_MAX / 2)),
            stop,
        ])
    };
    assert_eq!(read(Provider::Anthropic, &parts(TOOL_INPUT_BYTES_MAX)).2, Ok(()));
    let result = read(Provider::Anthropic, &parts(TOOL_INPUT_BYTES_MAX + 1)).2;
    assert_eq!(result, Err(AnswerError::InputTooLong("echo".to_owned())));
}

#[test]
fn tool_calls_past_the_limit_are_an_error() {
    let calls =
        |count: usize| stream(&(0..count).flat_map(|at| anthropic_tool(at, "{}")).collect::<Vec<_>>());
    assert_eq!(read(Provider::Anthropic, &calls(TOOL_USES_MAX)).2, Ok(()));
    assert_eq!(read(Provider::Anthropic, &calls(TOOL_USES_MAX + 1)).2, Err(AnswerError::TooManyTools));
    let open = |count: usize| {
        let part = |at: usize| json!({"index": at, "function": {"name": "echo"}});
        stream(&[json!({"choices": [{"delta": {"tool_calls": (0..count).map(part).collect::<Vec<_>>()}}]})])
    };
    assert_eq!(read(Provider::OpenAi, &open(TOOL_USES_MAX)).2, Ok(()));
    assert_eq!(read(Provider::OpenAi, &open(TOOL_USES_MAX + 1)).2, Err(AnswerError::TooManyTools));
}

#[test]
fn answer_past_the_length_limit_is_an_error() {
    let chunk = |bytes: usize| json!({"choices": [{"delta": {"content": "x".repeat(bytes)}}]});
    let eighth = ANSWER_BYTES_MAX / 8;
    let mut events = vec![chunk(eighth); 8];
    assert_eq!(read(Provider::OpenAi, &stream(&events)).2, Ok(()));
    events.push(chunk(1));
    assert_eq!(read(Provider::OpenAi, &stream(&events)).2, Err(AnswerError::TooLong));
}

proptest! {
    #[test]
    fn any_event_is_read_without_panic(name in "[a-z_]{0,20}", data in ".{0,100}", kind in "(message_start|content_block_delta|content_block_start|error|x)") {
        let odd = json!({"type": kind, "index": data, "delta": name, "content_block": [1], "choices": [{"delta": 1}], "usage": 4});
        for data in [data, odd.to_string()] {
            let event = SseEvent { name: name.clone(), data };
            let _ = Provider::Anthropic.new_reader().on_event(&event);
            let _ = Provider::OpenAi.new_reader().on_event(&event);
        }
    }
}
