//! Behaviour of the package that the vectors do not cover.

use std::time::Duration;

use serde_json::{Value, json};

use crate::interop_folder;
use crate::support::wire::{Arrival, Wire};
use crate::support::{Folder, Running};

fn declaration(config: Value) -> String {
    json!({"package": "holon", "rust": "holon", "config": config}).to_string()
}

async fn request(page: &mut Wire, id: &str, method: &str, payload: Value) -> Value {
    page.text(&json!({"id": id, "method": method, "payload": payload}).to_string()).await;
    page.json().await
}

async fn open_page(server: &Running) -> Wire {
    Wire::offering(&format!("{}holon", server.url), Some("holon-web")).await
}

#[tokio::test]
async fn endpoint_without_the_package_is_not_found() {
    let server = Running::folder(Folder::with(&[]).path()).await;
    let result = tokio_tungstenite::connect_async(format!("{}holon", server.url)).await;
    assert!(result.unwrap_err().to_string().contains("404"));
}

#[tokio::test]
async fn method_is_served_by_one_session_until_unserve() {
    let folder = Folder::with(&[("holon.json", &declaration(json!({})))]);
    let server = Running::folder(folder.path()).await;
    let mut script = Wire::live(&server.url).await;
    let mut rival = Wire::live(&server.url).await;
    let mut page = open_page(&server).await;
    let absent = json!({"id": "1", "error": {"code": 12, "message": "method \"a.B/C\" not registered"}});
    assert_eq!(request(&mut page, "1", "a.B/C", json!({})).await, absent);
    script.value("await holon.serve({ method: 'a.B/C', handler: ({ payload }) => payload.n + 1 }); 0").await;
    assert_eq!(request(&mut page, "2", "a.B/C", json!({"n": 1})).await, json!({"id": "2", "result": 2}));
    let (kind, message) = rival.failure("await holon.serve({ method: 'a.B/C', handler: () => 0 })").await;
    assert_eq!((kind.as_str(), message.contains("is already served")), ("EvalError", true), "{message}");
    assert_eq!(rival.value("await holon.unserve({ method: 'a.B/C' })").await, json!(false));
    assert_eq!(script.value("await holon.unserve({ method: 'a.B/C' })").await, json!(true));
    assert_eq!(request(&mut page, "1", "a.B/C", json!({})).await, absent);
}

#[tokio::test]
async fn methods_of_closed_session_can_be_served_again() {
    let folder = Folder::with(&[("holon.json", &declaration(json!({})))]);
    let server = Running::folder(folder.path()).await;
    let mut script = Wire::live(&server.url).await;
    script.value("await holon.serve({ method: 'a.B/C', handler: () => 1 }); 0").await;
    script.invoke("session.close", json!({})).await;
    let mut next = Wire::live(&server.url).await;
    next.value("await holon.serve({ method: 'a.B/C', handler: () => 2 }); 0").await;
    let mut page = open_page(&server).await;
    assert_eq!(request(&mut page, "1", "a.B/C", json!({})).await, json!({"id": "1", "result": 2}));
}

#[tokio::test]
async fn mapped_method_calls_the_binding() {
    let methods = json!({"shop.v1.Shop/Order": "getOrder", "shop.v1.Shop/Lost": "nothing"});
    let folder = Folder::with(&[
        ("holon.json", &declaration(json!({"methods": methods}))),
        ("orders.json", r#"{"package": "orders", "rust": "orders"}"#),
    ]);
    let server = Running::folder(folder.path()).await;
    let mut page = open_page(&server).await;
    let order = request(&mut page, "1", "shop.v1.Shop/Order", json!({"id": "o_001"})).await;
    assert_eq!(order["result"]["id"], "o_001", "{order}");
    assert_eq!(request(&mut page, "2", "shop.v1.Shop/Order", json!({"id": 7})).await["error"]["code"], 3);
    assert_eq!(request(&mut page, "3", "shop.v1.Shop/Lost", json!({})).await["error"]["code"], 12);
}

#[tokio::test]
async fn slow_handler_times_out_and_excess_request_is_rejected() {
    let config = json!({"handlerMs": 50, "requestsMax": 1});
    let script = "await holon.serve({ method: 'a.B/Never', handler: () => new Promise(() => {}) });";
    let folder = Folder::with(&[("holon.json", &declaration(config)), ("services/never.js", script)]);
    let server = Running::folder(folder.path()).await;
    server.services_run().await;
    let mut page = open_page(&server).await;
    for id in ["1", "2"] {
        page.text(&json!({"id": id, "method": "a.B/Never"}).to_string()).await;
    }
    let rejection = json!({"id": "2", "error": {"code": 8, "message": "too many requests in flight"}});
    assert_eq!(page.json().await, rejection);
    assert_eq!(page.json().await, json!({"id": "1", "error": {"code": 4, "message": "timeout after 50ms"}}));
}

#[tokio::test]
async fn message_past_the_limit_closes_with_1009() {
    let config = json!({"messageBytesMax": 4096});
    let script = "await holon.serve({ method: 'a.B/Echo', handler: ({ payload }) => payload.length });";
    let folder = Folder::with(&[("holon.json", &declaration(config)), ("services/echo.js", script)]);
    let server = Running::folder(folder.path()).await;
    server.services_run().await;
    let mut page = open_page(&server).await;
    let head = r#"{"id":"1","method":"a.B/Echo","payload":""#;
    let payload = "x".repeat(4096 - head.len() - 2);
    page.text(&format!("{head}{payload}\"}}")).await;
    assert_eq!(page.json().await["result"], payload.len());
    page.text(&format!("{head}{payload}x\"}}")).await;
    assert_eq!(page.next().await, Arrival::Closed(1009));
}

#[tokio::test]
async fn payloads_that_look_like_tags_are_passed_unchanged() {
    let server = Running::folder(&interop_folder()).await;
    server.services_run().await;
    let mut page = open_page(&server).await;
    for payload in
        [json!({"$date": "2026"}), json!({"$fn": "f1"}), json!([{"$undefined": true}]), json!(null)]
    {
        let answer = request(&mut page, "1", "echo.v1.Echo/Ping", payload.clone()).await;
        assert_eq!(answer, json!({"id": "1", "result": payload}));
    }
}

/// Starts two servers, the second with the first as a peer. Returns both, and a client of the
/// second.
async fn start_linked(config: Value) -> (Running, Running, Wire) {
    let serving = Running::folder(&interop_folder()).await;
    serving.services_run().await;
    let mut peer = config;
    peer["url"] = json!(format!("{}holon", serving.url));
    let folder = Folder::with(&[("holon.json", &declaration(json!({"peers": {"shop": peer}})))]);
    let calling = Running::folder(folder.path()).await;
    let mut script = Wire::live(&calling.url).await;
    wait_for_state(&mut script, "up").await;
    (serving, calling, script)
}

async fn wait_for_state(script: &mut Wire, state: &str) {
    let code = "(await holon.peers())[0].state";
    while script.value(code).await != state {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn linked_servers_call_each_other_on_one_connection() {
    let (_serving, _calling, mut script) = start_linked(json!({})).await;
    let echoed =
        script.value("await holon.call({ peer: 'shop', method: 'echo.v1.Echo/Ping', payload: [1] })").await;
    assert_eq!(echoed, json!([1]));
    let code =
        "await holon.serve({ method: 'ui.v1.UI/Get', handler: ({ payload, peer }) => [peer.name, payload] });
        await holon.call({ peer: 'shop', method: 'test.v1.Test/CallClient',
          payload: { method: 'ui.v1.UI/Get', payload: { dpr: 2 }, timeoutMs: 5000 } })";
    let result = json!({"result": ["shop", {"dpr": 2}], "resultWasNil": false});
    assert_eq!(script.value(code).await, result);
    let failed = "try { await holon.call({ peer: 'shop', method: 'test.v1.Test/Fail' }) } catch (e) { [e.code, e.message] }";
    assert_eq!(script.value(failed).await, json!([5, "nope"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_to_disconnected_peer_fails_with_14() {
    let (serving, _calling, mut script) = start_linked(json!({})).await;
    serving.server.stop(Duration::ZERO).await;
    let code = "const call = () => holon.call({ peer: 'shop', method: 'echo.v1.Echo/Ping', timeoutMs: 60000 });
        let error; do { error = await call().then(() => null, (e) => e) } while (!error); [error.code, error.name]";
    assert_eq!(script.value(code).await, json!([14, "BindingError"]));
    let unknown = script.failure("await holon.call({ peer: 'unknown', method: 'a.B/C' })").await;
    assert!(unknown.1.contains("expected one of: shop"), "{unknown:?}");
}

#[tokio::test]
async fn malformed_response_fails_the_call_without_a_reply() {
    let server = Running::folder(&interop_folder()).await;
    server.services_run().await;
    let mut page = open_page(&server).await;
    let call = json!({"method": "ui.v1.UI/Ask", "payload": {}, "timeoutMs": 5000});
    page.text(&json!({"id": "7", "method": "test.v1.Test/CallClient", "payload": call}).to_string()).await;
    let request = page.json().await;
    // First with the id of the page's own request, then with that of the server's request.
    page.text(r#"{"id":"7","result":1,"extra":true}"#).await;
    page.text(&json!({"id": request["id"], "error": {"code": "12", "message": "x"}}).to_string()).await;
    let answer = page.json().await;
    assert_eq!((&answer["id"], &answer["result"]["webError"]["code"]), (&json!("7"), &json!(13)), "{answer}");
}

#[tokio::test]
async fn method_with_an_owner_is_closed_to_other_principals() {
    let folder = Folder::with(&[("holon.json", &declaration(json!({"owners": {"a.B/C": "ada"}})))]);
    let server = Running::for_principals(folder.path(), &["ada", "bob"]).await;
    let serve = "await holon.serve({ method: 'a.B/C', handler: () => 1 }); 0";
    let (kind, message) = Wire::live_as(&server.url, "bob").await.failure(serve).await;
    assert_eq!(kind, "PermissionDenied", "{message}");
    Wire::live_as(&server.url, "ada").await.value(serve).await;
}
