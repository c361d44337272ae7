//! Where the tools of one chat run: a session of its own, opened with the first tool and closed with the chat.
//!
//! Tools run as code of that session and in the name of whoever chats, so that limits, policy and approval hold for a
//! model as they do for any script.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::tools::Action;
use crate::binding::Principal;
use crate::client::{Client, ClientError, EvalOutput};
use crate::peering::Host;
use crate::protocol::plain::to_plain;

/// Longest result that a model is told of; what is more is cut. It costs tokens in every call that follows.
pub(super) const RESULT_BYTES_MAX: usize = 256 << 10;

pub(super) struct Workspace {
    host: Host,
    principal: Arc<Principal>,
    runtime: Handle,
    client: Option<Client>,
}

impl Workspace {
    pub(super) fn new(host: Host, principal: Arc<Principal>, runtime: Handle) -> Self {
        Self { host, principal, runtime, client: None }
    }

    /// Runs a tool; the error is what the model is told of its failure.
    pub(super) async fn run(&mut self, action: &Action, input: &Value) -> Result<String, String> {
        let code = action.code(input)?;
        let client = self.client().await.map_err(|error| error.to_string())?;
        match client.eval(code).await {
            Ok(output) => Ok(cut(told(output))),
            Err(error) => Err(cut(failure(&error))),
        }
    }

    async fn client(&mut self) -> Result<Client, ClientError> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let connection = self.host.connect_as(&self.principal);
        let client = Client::builder().connect_transport(connection).await?;
        self.client = Some(client.clone());
        Ok(client)
    }
}

impl Drop for Workspace {
    /// A session outlives its connection, and so would the code that it runs.
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            self.runtime.spawn(async move {
                // A session that is gone already is as good as closed.
                let _ = client.invoke("session.close", json!({})).await;
            });
        }
    }
}

/// The value as text, after what was printed.
fn told(output: EvalOutput) -> String {
    let value = match to_plain(output.value.clone()) {
        Ok(Value::String(text)) => text,
        Ok(value) => value.to_string(),
        Err(_) => output.value.to_string(),
    };
    if output.console.is_empty() {
        return value;
    }
    let printed: Vec<&str> = output.console.iter().map(|line| line.text.as_str()).collect();
    format!("{}\n{value}", printed.join("\n"))
}

fn failure(error: &ClientError) -> String {
    match error.rpc() {
        Some(object) => object.message.clone(),
        None => error.to_string(),
    }
}

fn cut(mut text: String) -> String {
    if text.len() > RESULT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(RESULT_BYTES_MAX));
        text.push_str(" … (cut)");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(value: Value, lines: &[&str]) -> EvalOutput {
        let console: Vec<Value> = lines.iter().map(|text| json!({"level": "log", "text": text})).collect();
        serde_json::from_value(json!({"value": value, "console": console})).unwrap()
    }

    #[test]
    fn a_text_is_told_as_it_is_and_anything_else_as_json() {
        assert_eq!(told(output(json!("hi"), &[])), "hi");
        assert_eq!(told(output(json!({"a": [1, null]}), &[])), r#"{"a":[1,null]}"#);
        assert_eq!(
            told(output(json!({"$date": "2026-01-01T00:00:00.000Z"}), &[])),
            "2026-01-01T00:00:00.000Z"
        );
        assert_eq!(told(output(json!({"$map": []}), &[])), r#"{"$map":[]}"#);
    }

    #[test]
    fn what_was_printed_comes_first() {
        assert_eq!(told(output(json!(2), &["one", "two"])), "one\ntwo\n2");
    }

    #[test]
    fn a_long_result_is_cut_between_characters() {
        let fits = "x".repeat(RESULT_BYTES_MAX);
        assert_eq!(cut(fits.clone()), fits);
        let long = cut("é".repeat(RESULT_BYTES_MAX));
        assert!(long.ends_with("(cut)") && long.len() < RESULT_BYTES_MAX + 20);
    }
}
