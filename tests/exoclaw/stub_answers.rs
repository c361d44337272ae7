//! The answers of the stub model, as the events of each provider.

use serde_json::{Value, json};

/// The provider whose events are written.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Api {
    Anthropic,
    OpenAi,
}

/// A step of writing an answer.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Start,
    Text(String),
    Tool {
        index: usize,
        id: String,
        name: String,
        input: String,
    },
    Stop {
        calls_tools: bool,
        tokens: u64,
    },
    /// Waits until the test calls `Stub::resume`.
    Wait,
    /// Waits a moment.
    Pause,
    /// Aborts the connection.
    Abort,
    Raw(String),
    /// Responds with an HTTP error instead of a stream.
    Status(u16, String),
}

/// Chooses the steps by words in the last message of the user.
pub(crate) fn steps_for(body: &Value) -> Vec<Step> {
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    let is_user = |message: &&Value| message["role"] == "user";
    let content =
        messages.iter().filter(is_user).filter_map(|message| message["content"].as_str()).next_back();
    let is_result = |message: &&Value| {
        message["role"] == "tool" || message["role"] == "user" && message["content"].is_array()
    };
    let rounds = messages.iter().filter(is_result).count();
    let text = content.unwrap_or_default();
    if let Some(failure) = find_failure(text) {
        return vec![failure];
    }
    let mut steps = vec![Step::Start];
    steps.extend(choose_answer(text, &messages, rounds));
    steps
}

fn find_failure(text: &str) -> Option<Step> {
    let body = |kind: &str, message: &str| {
        json!({"type": "error", "error": {"type": kind, "message": message}}).to_string()
    };
    let cases = [
        ("http500", 500, body("api_error", "boom")),
        ("http429", 429, body("rate_limit_error", "slow down")),
        ("http401", 401, body("authentication_error", "invalid x-api-key")),
    ];
    let garbage = text.contains("garbage").then(|| Step::Raw("<html>not a model</html>\n\n".to_owned()));
    let long = text.strip_prefix("fail:").map(|bytes| Step::Status(500, "x".repeat(bytes.parse().unwrap())));
    let found = cases.into_iter().find(|(word, ..)| text.contains(word));
    garbage.or(long).or(found.map(|(_, code, body)| Step::Status(code, body)))
}

fn choose_answer(text: &str, messages: &[Value], rounds: usize) -> Vec<Step> {
    let say = |words: &[&str]| words.iter().map(|word| Step::Text((*word).to_owned())).collect::<Vec<_>>();
    let finish = |mut steps: Vec<Step>, tokens| {
        steps.push(Step::Stop { calls_tools: false, tokens });
        steps
    };
    if text.contains("loop") {
        return call_tools(&[(&format!("call_{rounds}"), "echo", r#"{"message":"again"}"#)], 7);
    }
    if let Some(instruction) = text.split("tool:").nth(1).filter(|_| rounds == 0) {
        return call_requested_tools(instruction);
    }
    let words: &[(&str, Vec<Step>)] = &[
        ("cut", [say(&["partial"]), vec![Step::Abort]].concat()),
        ("eof", say(&["partial"])),
        ("empty", finish(Vec::new(), 0)),
        (
            "sseerror",
            vec![Step::Raw(sse(
                &json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
            ))],
        ),
        ("unicode", finish(say(&["héllo ", "🦞", " \"quoted\"\n\ttab"]), 3)),
        ("history", finish(vec![Step::Text(format_history(messages))], 5)),
        ("hold", finish([say(&["one "]), vec![Step::Wait], say(&["two"])].concat(), 42)),
    ];
    if let Some((_, steps)) = words.iter().find(|(word, _)| text.contains(word)) {
        return steps.clone();
    }
    if rounds > 0 {
        return finish(say(&["Tool said ok."]), 30);
    }
    if text.contains("slow") {
        let slowly = |word: &&str| [Step::Text((*word).to_owned()), Step::Pause];
        return finish(["s1 ", "s2 ", "s3 ", "s4"].iter().flat_map(slowly).collect(), 42);
    }
    finish(say(&["Hello", " world"]), 42)
}

/// `tool:name` calls that tool, `tool:two` an existing and an unknown one, and `tool:code:1+1` runs
/// code.
fn call_requested_tools(instruction: &str) -> Vec<Step> {
    if let Some(code) = instruction.strip_prefix("code:") {
        return call_tools(&[("call_1", "eval", &json!({"code": code}).to_string())], 20);
    }
    match instruction.split_whitespace().next().unwrap_or_default() {
        "two" => call_tools(&[("call_a", "echo", r#"{"message":"a"}"#), ("call_b", "nosuch", "{}")], 20),
        name => call_tools(&[("call_123", name, r#"{"message":"hi"}"#)], 20),
    }
}

fn call_tools(calls: &[(&str, &str, &str)], tokens: u64) -> Vec<Step> {
    let call = |(index, (id, name, input)): (usize, &(&str, &str, &str))| Step::Tool {
        index,
        id: (*id).to_owned(),
        name: (*name).to_owned(),
        input: (*input).to_owned(),
    };
    let stop = Step::Stop { calls_tools: true, tokens };
    calls.iter().enumerate().map(call).chain([stop]).collect()
}

fn format_history(messages: &[Value]) -> String {
    let pairs: Vec<Value> =
        messages.iter().map(|message| json!([message["role"], message["content"]])).collect();
    json!(pairs).to_string()
}

fn sse(event: &Value) -> String {
    format!("data: {event}\n\n")
}

impl Api {
    /// Returns the events of a step as text.
    pub(crate) fn encode(self, step: &Step) -> String {
        let events = match self {
            Self::Anthropic => anthropic_events(step),
            Self::OpenAi => openai_events(step),
        };
        let text: String = events.iter().map(sse).collect();
        let is_end = matches!((self, step), (Self::OpenAi, Step::Stop { .. }));
        if is_end { format!("{text}data: [DONE]\n\n") } else { text }
    }
}

fn anthropic_events(step: &Step) -> Vec<Value> {
    match step {
        Step::Start => vec![
            json!({"type": "message_start", "message": {"usage": {"input_tokens": 150, "output_tokens": 1}}}),
        ],
        Step::Text(text) => vec![
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
        ],
        Step::Tool { index, id, name, input } => {
            let (start, end) = input.split_at(input.len() / 2);
            let part = |part: &str| json!({"type": "content_block_delta", "index": index + 1, "delta": {"type": "input_json_delta", "partial_json": part}});
            let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
            vec![
                json!({"type": "content_block_start", "index": index + 1, "content_block": block}),
                part(start),
                part(end),
                json!({"type": "content_block_stop", "index": index + 1}),
            ]
        }
        Step::Stop { tokens, .. } => {
            vec![
                json!({"type": "message_delta", "usage": {"output_tokens": tokens}}),
                json!({"type": "message_stop"}),
            ]
        }
        Step::Wait | Step::Pause | Step::Abort | Step::Raw(_) | Step::Status(..) => Vec::new(),
    }
}

fn openai_events(step: &Step) -> Vec<Value> {
    let choice = |delta: Value, reason: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
    match step {
        Step::Text(text) => vec![choice(json!({"content": text}), Value::Null)],
        Step::Tool { index, id, name, input } => {
            let call = |call: Value| choice(json!({"tool_calls": [call]}), Value::Null);
            vec![
                call(
                    json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}),
                ),
                call(json!({"index": index, "function": {"arguments": input}})),
            ]
        }
        Step::Stop { calls_tools, tokens } => {
            let reason = if *calls_tools { "tool_calls" } else { "stop" };
            let usage = json!({"prompt_tokens": 150, "completion_tokens": tokens});
            vec![choice(json!({}), json!(reason)), json!({"choices": [], "usage": usage})]
        }
        Step::Start | Step::Wait | Step::Pause | Step::Abort | Step::Raw(_) | Step::Status(..) => Vec::new(),
    }
}
