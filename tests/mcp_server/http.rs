//! The endpoint `/mcp`, request by request: who gets in, what belongs to whom, and the limits.

use scomp::quota::Quotas;
use scomp::server::Gate;
use scomp::server::settings::{AuthSettings, McpSettings, OriginSettings, TokenSettings};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::principals::token_of;
use crate::support::{Folder, Running};

const ORDERS: &str = include_str!("../../bindings/orders/declaration.json");

/// A server with the example shop, for `ann` and `bob`.
pub(crate) struct Endpoint {
    pub(crate) running: Running,
    _folder: Folder,
}

/// An answer over HTTP.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    body: String,
}

impl Answer {
    /// The message in it, alone or as the last event of a stream.
    pub(crate) fn message(&self) -> Value {
        let last = self.body.lines().rev().find_map(|line| {
            let text = line.trim().strip_prefix("data:").unwrap_or(line).trim();
            text.starts_with('{').then(|| serde_json::from_str(text).ok()).flatten()
        });
        last.unwrap_or_else(|| panic!("no message in {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl Endpoint {
    pub(crate) async fn start(settings: McpSettings, principals: &[&str]) -> Self {
        let tokens = principals.iter().map(|name| TokenSettings::of_token(*name, &token_of(name)));
        let auth = AuthSettings { tokens: tokens.collect(), ..AuthSettings::default() };
        let gate = Gate::new(&auth, OriginSettings::default(), &Quotas::default()).unwrap();
        let folder = Folder::with(&[("orders/declaration.json", ORDERS)]);
        let running = Running::folder_and(folder.path(), |builder| builder.gate(gate).mcp(settings)).await;
        Self { running, _folder: folder }
    }

    fn address(&self) -> &str {
        self.running.url.trim_start_matches("ws://").trim_end_matches('/')
    }

    pub(crate) async fn send(&self, method: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        self.send_to("/mcp", method, headers, body).await
    }

    pub(crate) async fn send_to(
        &self,
        path: &str,
        method: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let mut stream = TcpStream::connect(self.address()).await.unwrap();
        let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            request.push_str(&format!("Host: {}\r\n", self.address()));
        }
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str("Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n");
        request.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = Vec::new();
        stream.read_to_end(&mut text).await.unwrap();
        let text = String::from_utf8(text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    /// A request of revision 2026-07-28, of a client with these capabilities.
    pub(crate) async fn request(
        &self,
        token: &str,
        method: &str,
        mut params: Value,
        capabilities: Value,
    ) -> Answer {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
        let name = params["name"].as_str().or(params["taskId"].as_str()).unwrap_or_default().to_owned();
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let token = format!("Bearer {token}");
        let headers = [
            ("Authorization", token.as_str()),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", method),
            ("Mcp-Name", name.as_str()),
        ];
        self.send("POST", &headers, &request.to_string()).await
    }

    async fn call(&self, principal: &str, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        let answer = self.request(&token_of(principal), "tools/call", params, json!({})).await;
        let result = answer.message()["result"].clone();
        assert!(result.is_object(), "{answer:?}");
        result
    }

    async fn run(&self, principal: &str, arguments: Value) -> Value {
        self.call(principal, "execute", arguments).await
    }

    /// The handshake of an older client.
    async fn initialize(&self, principal: &str) -> Answer {
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "old", "version": "1"},
        });
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        let token = format!("Bearer {}", token_of(principal));
        self.send("POST", &[("Authorization", &token)], &request.to_string()).await
    }
}

fn text_of(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

#[tokio::test]
async fn request_without_a_valid_token_is_refused() {
    let endpoint = Endpoint::start(McpSettings::default(), &["ann"]).await;
    for headers in [&[][..], &[("Authorization", "Bearer wrong")]] {
        let answer = endpoint.send("POST", headers, "{}").await;
        assert_eq!(answer.status, 401, "{answer:?}");
        assert!(answer.header("WWW-Authenticate").unwrap().starts_with("Bearer"));
    }
}

#[tokio::test]
async fn foreign_pages_and_hosts_are_refused() {
    let endpoint = Endpoint::start(McpSettings::default(), &["ann"]).await;
    let token = format!("Bearer {}", token_of("ann"));
    let page = [("Authorization", token.as_str()), ("Origin", "https://evil.example")];
    assert_eq!(endpoint.send("POST", &page, "{}").await.status, 403);
    // Without tokens a web page could give its own name to this address.
    let open = Endpoint::start(McpSettings::default(), &[]).await;
    assert_eq!(open.send("POST", &[("Host", "evil.example")], "{}").await.status, 403);
}

#[tokio::test]
async fn endpoint_that_is_switched_off_does_not_exist() {
    let off = McpSettings { enabled: false, ..McpSettings::default() };
    let endpoint = Endpoint::start(off, &[]).await;
    assert_eq!(endpoint.send("POST", &[], "{}").await.status, 404);
}

#[tokio::test]
async fn session_belongs_to_its_principal() {
    let endpoint = Endpoint::start(McpSettings::default(), &["ann", "bob"]).await;
    let first = endpoint.run("ann", json!({"code": "globalThis.x = 1"})).await;
    let handles = &first["structuredContent"];
    let again = endpoint.run("ann", json!({"code": "x + 1", "session": handles["session"]})).await;
    assert_eq!(again["structuredContent"]["value"], 2);
    let foreign = endpoint.run("bob", json!({"code": "x + 1", "session": handles["session"]})).await;
    assert!(text_of(&foreign).starts_with("SessionNotFound"), "{foreign}");
    let foreign = endpoint.call("bob", "wait", json!({"execution": handles["execution"]})).await;
    assert!(text_of(&foreign).starts_with("ExecutionNotFound"), "{foreign}");
    let listed = endpoint.call("bob", "session", json!({"op": "list"})).await;
    assert_eq!(listed["structuredContent"]["sessions"], json!([]));
}

#[tokio::test]
async fn connection_of_an_older_client_belongs_to_its_principal() {
    let settings = McpSettings { connections_max: 1, ..McpSettings::default() };
    let endpoint = Endpoint::start(settings, &["ann", "bob"]).await;
    let opened = endpoint.initialize("ann").await;
    let id = opened.header("Mcp-Session-Id").unwrap().to_owned();
    assert_eq!(opened.message()["result"]["protocolVersion"], "2025-11-25");
    let ping = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    let send = |principal: &str| {
        let token = format!("Bearer {}", token_of(principal));
        let (endpoint, id, ping) = (&endpoint, id.clone(), ping.clone());
        async move {
            endpoint.send("POST", &[("Authorization", &token), ("Mcp-Session-Id", &id)], &ping).await.status
        }
    };
    assert_eq!(send("bob").await, 404);
    assert_eq!(send("ann").await, 202);
    // One more is refused to `ann` and not to `bob`, until the first has ended.
    assert_eq!(endpoint.initialize("ann").await.status, 503);
    assert_eq!(endpoint.initialize("bob").await.status, 200);
    let token = format!("Bearer {}", token_of("ann"));
    let ended = endpoint.send("DELETE", &[("Authorization", &token), ("Mcp-Session-Id", &id)], "").await;
    assert!(ended.status < 300, "{ended:?}");
    assert_eq!(endpoint.initialize("ann").await.status, 200);
}

#[tokio::test]
async fn sessions_and_waits_are_limited_per_principal() {
    let settings = McpSettings { sessions_max: 1, waits_max: 1, ..McpSettings::default() };
    let endpoint = Endpoint::start(settings, &["ann", "bob"]).await;
    let hanging = json!({"code": "await new Promise((resolve) => setTimeout(resolve, 50_000))", "waitMs": 0});
    let started = endpoint.run("ann", hanging).await;
    let execution = &started["structuredContent"]["execution"];
    assert_eq!(started["structuredContent"]["status"], "running");
    let refused = endpoint.run("ann", json!({"code": "1"})).await;
    assert!(refused["isError"] == true && text_of(&refused).starts_with("TooManySessions"), "{refused}");
    assert_eq!(endpoint.run("bob", json!({"code": "1"})).await["structuredContent"]["value"], 1);
    // Of two that wait, the second is refused; the first ends with the execution.
    let wait = async || loop {
        // It may find the place taken by one of the other calls, which return immediately.
        let waited = endpoint.call("ann", "wait", json!({"execution": execution})).await;
        if !text_of(&waited).starts_with("TooManyWaits") {
            return waited;
        }
    };
    let (first, second) = tokio::join!(biased; wait(), async {
        loop {
            let second = endpoint.call("ann", "wait", json!({"execution": execution, "waitMs": 0})).await;
            if text_of(&second).starts_with("TooManyWaits") {
                let session = &started["structuredContent"]["session"];
                endpoint.call("ann", "session", json!({"op": "close", "session": session})).await;
                return second;
            }
        }
    });
    assert!(second["isError"] == true);
    assert_eq!(first["structuredContent"]["status"], "failed", "{first}");
}

#[tokio::test]
async fn body_past_the_limit_is_refused() {
    let endpoint = Endpoint::start(McpSettings::default(), &[]).await;
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        endpoint.address(),
        (16 << 20) + 1
    );
    let mut stream = TcpStream::connect(endpoint.address()).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).await.unwrap();
    assert_eq!(&status, b"HTTP/1.1 413");
}
