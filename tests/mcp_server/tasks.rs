//! Slow executions as tasks, for a client that declares the extension.

use scomp::server::settings::McpSettings;
use serde_json::{Value, json};

use crate::http::Endpoint;
use crate::support::principals::token_of;

fn capabilities() -> Value {
    json!({"extensions": {"io.modelcontextprotocol/tasks": {}}})
}

async fn send(endpoint: &Endpoint, principal: &str, method: &str, params: Value) -> Value {
    endpoint.request(&token_of(principal), method, params, capabilities()).await.message()
}

/// Starts code that takes a while; the id of its task.
async fn start(endpoint: &Endpoint, code: &str) -> String {
    let call = json!({"name": "execute", "arguments": {"code": code, "waitMs": 1}});
    let created = send(endpoint, "ann", "tools/call", call).await;
    assert_eq!(
        (&created["result"]["resultType"], &created["result"]["status"]),
        (&json!("task"), &json!("working"))
    );
    created["result"]["taskId"].as_str().unwrap().to_owned()
}

/// Looks at a task until it is over.
async fn end_of(endpoint: &Endpoint, id: &str) -> Value {
    loop {
        let task = send(endpoint, "ann", "tasks/get", json!({"taskId": id})).await["result"].clone();
        if task["status"] != "working" {
            return task;
        }
    }
}

#[tokio::test]
async fn slow_execution_is_a_task_with_a_result_that_stays() {
    let endpoint = Endpoint::start(McpSettings::default(), &["ann", "bob"]).await;
    let id =
        start(&endpoint, "await new Promise((resolve) => setTimeout(resolve, 300)); console.log('done'); 7")
            .await;
    for _ in 0..2 {
        let task = end_of(&endpoint, &id).await;
        let result = &task["result"]["structuredContent"];
        assert_eq!((&task["status"], &result["value"]), (&json!("completed"), &json!(7)), "{task}");
        assert_eq!(result["console"], "done");
    }
    let foreign = send(&endpoint, "bob", "tasks/get", json!({"taskId": id})).await;
    assert_eq!(foreign["error"]["code"], -32602, "{foreign}");
}

#[tokio::test]
async fn cancelled_task_ends_its_eval() {
    let endpoint = Endpoint::start(McpSettings::default(), &["ann"]).await;
    let id = start(&endpoint, "await new Promise((resolve) => setTimeout(resolve, 50_000))").await;
    send(&endpoint, "ann", "tasks/cancel", json!({"taskId": id})).await;
    assert_eq!(end_of(&endpoint, &id).await["status"], "cancelled");
}
