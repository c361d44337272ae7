//! The session in which the tools of one message run, opened by the first tool and closed after the
//! answer.
//!
//! Tools run as code of this session, as the principal of the client, so that limits, policy and
//! approvals apply to a model as they do to any script.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::tools::ToolAction;
use crate::binding::Principal;
use crate::client::{Client, ClientError, EvalOutput};
use crate::peering::Host;
use crate::protocol::plain::to_plain;

/// Longest result of a tool; the rest is cut off. A result uses tokens in every model call that
/// follows.
pub(super) const RESULT_BYTES_MAX: usize = 256 << 10;

pub(super) struct ToolSession {
    host: Host,
    principal: Arc<Principal>,
    runtime: Handle,
    client: Option<Client>,
}

impl ToolSession {
    pub(super) fn new(host: Host, principal: Arc<Principal>, runtime: Handle) -> Self {
        Self { host, principal, runtime, client: None }
    }

    /// Runs a tool. The model gets the text of the result or of the error.
    pub(super) async fn run(&mut self, action: &ToolAction, input: &Value) -> Result<String, String> {
        let code = action.to_code(input)?;
        let client = self.client().await.map_err(|error| error.to_string())?;
        match client.eval(code).await {
            Ok(output) => Ok(truncate(format_output(output))),
            Err(error) => Err(truncate(describe_error(&error))),
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

impl Drop for ToolSession {
    /// Closes the session, which would outlive its connection and keep running its code.
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            self.runtime.spawn(async move {
                // Fails if the session has already ended.
                let _ = client.invoke("session.close", json!({})).await;
            });
        }
    }
}

/// The console lines, followed by the value as text.
fn format_output(output: EvalOutput) -> String {
    let value = match to_plain(output.value.clone()) {
        Ok(Value::String(text)) => text,
        Ok(value) => value.to_string(),
        Err(_) => output.value.to_string(),
    };
    if output.console.is_empty() {
        return value;
    }
    let lines: Vec<&str> = output.console.iter().map(|line| line.text.as_str()).collect();
    format!("{}\n{value}", lines.join("\n"))
}

fn describe_error(error: &ClientError) -> String {
    match error.rpc() {
        Some(object) => object.message.clone(),
        None => error.to_string(),
    }
}

fn truncate(mut text: String) -> String {
    if text.len() > RESULT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(RESULT_BYTES_MAX));
        text.push_str(" … (truncated)");
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
    fn string_is_output_unquoted_and_other_values_as_json() {
        assert_eq!(format_output(output(json!("hi"), &[])), "hi");
        assert_eq!(format_output(output(json!({"a": [1, null]}), &[])), r#"{"a":[1,null]}"#);
        assert_eq!(
            format_output(output(json!({"$date": "2026-01-01T00:00:00.000Z"}), &[])),
            "2026-01-01T00:00:00.000Z"
        );
        assert_eq!(format_output(output(json!({"$map": []}), &[])), r#"{"$map":[]}"#);
    }

    #[test]
    fn console_lines_precede_the_value() {
        assert_eq!(format_output(output(json!(2), &["one", "two"])), "one\ntwo\n2");
    }

    #[test]
    fn long_result_is_truncated_at_a_character_boundary() {
        let fits = "x".repeat(RESULT_BYTES_MAX);
        assert_eq!(truncate(fits.clone()), fits);
        let long = truncate("é".repeat(RESULT_BYTES_MAX));
        assert!(long.ends_with("(truncated)") && long.len() < RESULT_BYTES_MAX + 20);
    }
}
