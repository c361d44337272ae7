//! How clients learn of a change, and what becomes of the names that they declared.

use serde_json::json;

use super::support::Wire;
use super::tools::{Tools, answer, called, listed, named, serve, ticket};

#[tokio::test]
async fn client_is_notified_once_per_version() {
    let tools = Tools::offering(&["tools.first", "tools.second"]).await;
    let version = tools.server.catalog().version();
    let (mut wire, _) = tools.client(&["bindings.changed"]).await;
    let mut described = named("tools.second");
    described.declaration.description = Some("Says its name.".to_owned());
    assert_eq!(tools.publisher.replace(tools.with_wait([described.clone(), named("tools.third")])).await, []);
    let expected = json!({
        "version": version + 1, "added": ["tools.third"], "changed": ["tools.second"], "removed": ["tools.first"],
    });
    assert_eq!(serve(&mut wire, "bindings.changed").await, expected);
    // The same set again is not a change: the next message is the answer of an eval.
    assert_eq!(tools.publisher.replace(tools.with_wait([named("tools.third"), described])).await, []);
    let id = wire.send("eval", json!({"code": "await tools.third()"})).await;
    let next = wire.json().await;
    assert_eq!((&next["id"], &next["result"]["value"]), (&json!(id), &json!("tools.third")));
}

#[tokio::test]
async fn versions_are_collected_while_a_notification_is_unanswered() {
    let tools = Tools::offering(&[]).await;
    let (mut wire, _) = tools.client(&["bindings.changed"]).await;
    tools.offer(&["tools.a"]).await;
    let (first, input) = called(&mut wire, "bindings.changed").await;
    assert_eq!(input["added"], json!(["tools.a"]));
    tools.offer(&["tools.a", "tools.b"]).await;
    tools.offer(&["tools.b", "tools.c"]).await;
    // A round trip: no second notification is sent before the first is answered.
    let id = wire.send("eval", json!({"code": "Object.keys(tools)"})).await;
    let next = wire.json().await;
    assert_eq!((&next["id"], &next["result"]["value"]), (&json!(id), &json!(["wait", "b", "c"])));
    answer(&mut wire, &first).await;
    let input = serve(&mut wire, "bindings.changed").await;
    assert_eq!(input["added"], json!(["tools.b", "tools.c"]));
    assert_eq!((&input["changed"], &input["removed"]), (&json!([]), &json!(["tools.a"])));
}

#[tokio::test]
async fn notification_reaches_a_client_whose_script_loops() {
    let tools = Tools::offering(&[]).await;
    let (mut wire, _) = tools.client(&["bindings.changed"]).await;
    let loops = wire.send("eval", json!({"code": "tools.wait(); for (;;) {}"})).await;
    tools.call_begins().await;
    tools.offer(&["tools.a"]).await;
    assert_eq!(serve(&mut wire, "bindings.changed").await["added"], json!(["tools.a"]));
    wire.invoke("session.cancel", json!({"evalId": loops})).await;
}

#[tokio::test]
async fn scripts_do_not_see_bindings_changed() {
    let tools = Tools::offering(&[]).await;
    let (mut wire, _) = tools.client(&["bindings.changed", "mine"]).await;
    assert_eq!(wire.value("[typeof bindings, typeof mine]").await, json!(["undefined", "function"]));
}

#[tokio::test]
async fn binding_of_a_client_hides_one_that_is_added_later() {
    let tools = Tools::offering(&[]).await;
    let (mut wire, welcome) = tools.client(&["tools.mine", "own", "bindings.changed"]).await;
    tools.offer(&["tools.mine", "own.deeper", "tools.other"]).await;
    let input = serve(&mut wire, "bindings.changed").await;
    assert_eq!(input["added"], json!(["tools.other"]));
    let code = "[await tools.mine(1), await tools.other(), typeof own]";
    let id = wire.send("eval", json!({"code": code})).await;
    assert_eq!(serve(&mut wire, "tools.mine").await, json!(1));
    assert_eq!(wire.answer(id).await["result"]["value"], json!([null, "tools.other", "function"]));
    drop(wire);
    // The session keeps it when its client comes back; a new session cannot declare it.
    let bindings = json!([{"name": "tools.mine"}]);
    let params = json!({"session": ticket(&welcome), "bindings": bindings});
    let (mut wire, welcome) = Wire::live_with(&tools.url, params).await;
    assert!(listed(&welcome).contains(&"tools.mine"));
    let id = wire.send("eval", json!({"code": "await tools.mine(2)"})).await;
    assert_eq!(serve(&mut wire, "tools.mine").await, json!(2));
    wire.answer(id).await;
    let mut new = Wire::open(&tools.url).await;
    let refused = new.request("handshake", json!({"protocol": "0.1", "bindings": bindings})).await;
    assert_eq!(refused["error"]["data"]["path"], "/bindings/0/name", "{refused}");
}

#[tokio::test]
async fn hidden_binding_is_seen_by_the_next_client_of_the_session() {
    let tools = Tools::offering(&[]).await;
    let (mut wire, welcome) = tools.client(&["tools.mine"]).await;
    tools.offer(&["tools.mine"]).await;
    wire.value("1").await;
    drop(wire);
    let (mut wire, _) = Wire::live_with(&tools.url, json!({"session": ticket(&welcome)})).await;
    assert_eq!(wire.value("await tools.mine()").await, json!("tools.mine"));
}
