//! What scripts see of a change, and what becomes of calls.

use parking_lot::Mutex;
use scomp::binding::BindingPublisher;
use scomp::package::{Package, PackageContext, PackageDef, PackageInstance, loader};
use scomp::server::Server;
use serde_json::{Value, json};

use super::support::{Folder, Wire};
use super::tools::{Tools, listed, listen, named, ticket};

#[tokio::test]
async fn added_binding_is_seen_from_the_next_eval_on() {
    let tools = Tools::offering(&["tools.first"]).await;
    let mut wire = Wire::live(&tools.url).await;
    let code = "const seen = () => typeof tools.second; [seen(), await tools.wait(), seen()]";
    let running = wire.send("eval", json!({"code": code})).await;
    tools.call_begins().await;
    tools.offer(&["tools.first", "tools.second", "more.third"]).await;
    tools.end_call();
    let during = wire.answer(running).await;
    assert_eq!(during["result"]["value"], json!(["undefined", "waited", "undefined"]));
    assert_eq!(
        wire.value("[await tools.second(), await more.third(), seen()]").await,
        json!(["tools.second", "more.third", "function"])
    );
    let (_, welcome) = tools.client(&[]).await;
    assert_eq!(listed(&welcome), ["tools.wait", "tools.first", "tools.second", "more.third"]);
}

#[tokio::test]
async fn added_binding_is_found_by_invoke_search_and_types() {
    let tools = Tools::offering(&[]).await;
    let mut wire = Wire::live(&tools.url).await;
    let before = wire.invoke("bindings.types", json!({})).await;
    assert!(!before["result"]["value"].as_str().unwrap().contains("lookup"));
    tools.offer(&["tools.lookup"]).await;
    assert_eq!(wire.invoke("tools.lookup", json!({})).await["result"]["value"], "tools.lookup");
    let types = wire.invoke("bindings.types", json!({})).await;
    assert!(types["result"]["value"].as_str().unwrap().contains("function lookup"), "{types}");
    let hits = wire.invoke("bindings.search", json!({"query": "lookup"})).await;
    assert_eq!(hits["result"]["value"][0]["name"], "tools.lookup");
}

#[tokio::test]
async fn changed_schema_is_checked_and_keeps_the_function() {
    let tools = Tools::offering(&["tools.get"]).await;
    let mut wire = Wire::live(&tools.url).await;
    assert_eq!(wire.value("const held = tools.get; await held({id: 1})").await, json!("tools.get"));
    let mut stricter = named("tools.get");
    stricter.declaration.input = Some(json!({"properties": {"id": {"type": "string"}}}));
    assert_eq!(tools.publisher.replace(tools.with_wait([stricter])).await, []);
    for call in ["held({id: 1})", "tools.get({id: 1})"] {
        let kind = wire.value(&format!("try {{ await {call} }} catch (error) {{ error.name }}")).await;
        assert_eq!(kind, "InvalidInput", "{call}");
    }
    assert_eq!(wire.value("await held({id: 'a'})").await, json!("tools.get"));
}

#[tokio::test]
async fn removed_binding_is_unknown_and_its_name_gone() {
    let tools = Tools::offering(&["tools.first", "gone.away"]).await;
    let mut wire = Wire::live(&tools.url).await;
    assert_eq!(wire.value("const held = gone.away; await held()").await, json!("gone.away"));
    tools.offer(&["tools.first", "tools.later"]).await;
    let caught = "try { await held() } catch (error) { [error.name, typeof gone, typeof tools.later] }";
    assert_eq!(wire.value(caught).await, json!(["UnknownBinding", "undefined", "function"]));
    let error = wire.invoke("gone.away", json!({})).await;
    assert_eq!(error["error"]["data"]["kind"], "UnknownBinding");
    // The name comes back under a new number: what was held stays without a binding.
    tools.offer(&["gone.away"]).await;
    let again = "const error = await held().catch((error) => error.name); [error, await gone.away()]";
    assert_eq!(wire.value(again).await, json!(["UnknownBinding", "gone.away"]));
}

#[tokio::test]
async fn removal_takes_effect_inside_a_running_eval() {
    let tools = Tools::offering(&["tools.first"]).await;
    let mut wire = Wire::live(&tools.url).await;
    let code = "await tools.wait(); await tools.first().catch((error) => error.name)";
    let running = wire.send("eval", json!({"code": code})).await;
    tools.call_begins().await;
    tools.offer(&[]).await;
    tools.end_call();
    assert_eq!(wire.answer(running).await["result"]["value"], "UnknownBinding");
}

#[tokio::test]
async fn call_in_flight_finishes_after_its_binding_is_removed() {
    let tools = Tools::offering(&[]).await;
    let mut wire = Wire::live(&tools.url).await;
    let script = wire.send("eval", json!({"code": "await tools.wait()"})).await;
    let direct = wire.send("invoke", json!({"binding": "tools.wait", "input": {}})).await;
    tools.call_begins().await;
    tools.call_begins().await;
    assert_eq!(tools.publisher.replace(Vec::new()).await, []);
    tools.end_call();
    tools.end_call();
    let mut answers = [wire.json().await, wire.json().await];
    answers.sort_by_key(|answer| answer["id"].as_u64());
    let values = answers.map(|answer| (answer["id"].as_u64().unwrap(), answer["result"]["value"].clone()));
    assert_eq!(values, [(script, json!("waited")), (direct, json!("waited"))]);
    assert_eq!(wire.value("typeof tools").await, json!("undefined"));
}

#[tokio::test]
async fn session_resumed_after_a_change_has_the_new_set() {
    let tools = Tools::offering(&["tools.first"]).await;
    let (mut wire, welcome) = tools.client(&["bindings.changed"]).await;
    assert_eq!(wire.value("globalThis.kept = 7; typeof tools.first").await, json!("function"));
    drop(wire);
    tools.offer(&["tools.second"]).await;
    let params = json!({"session": ticket(&welcome), "bindings": [{"name": "bindings.changed"}]});
    let (mut wire, welcome) = Wire::live_with(&tools.url, params).await;
    assert_eq!(welcome["metadata"]["session"]["resumed"], json!(true));
    assert_eq!(listed(&welcome), ["tools.wait", "tools.second"]);
    // Its handshake listed the new set, so the next message is the answer and not a notification.
    let id = wire.send("eval", json!({"code": "[kept, typeof tools.first, await tools.second()]"})).await;
    let next = wire.json().await;
    assert_eq!(
        (&next["id"], &next["result"]["value"]),
        (&json!(id), &json!([7, "undefined", "tools.second"]))
    );
}

#[tokio::test]
async fn collision_between_packages_is_refused_and_the_rest_applies() {
    let other = Package::new("other");
    let others = other.publisher();
    let tools = Tools::beside(&["tools.first"], other).await;
    let mut wire = Wire::live(&tools.url).await;
    let set = ["other.get", "tools.first", "tools", "other.set"].map(named);
    let refused = others.replace(set.into()).await;
    let places: Vec<_> =
        refused.iter().map(|problem| (problem.origin.as_str(), problem.path.as_str())).collect();
    assert_eq!(places, [("other", "/bindings/1/name"), ("other", "/bindings/2/name")]);
    let called = "[await other.get(), await other.set(), await tools.first()]";
    assert_eq!(wire.value(called).await, json!(["other.get", "other.set", "tools.first"]));
    let names: Value = wire.value("Object.keys(tools)").await;
    assert_eq!(names, json!(["wait", "first"]));
}

/// The handle of the package that the test below opens.
static OPENED: Mutex<Option<BindingPublisher>> = Mutex::new(None);

async fn open(context: PackageContext) -> Result<PackageInstance, String> {
    *OPENED.lock() = Some(context.bindings.clone());
    Ok(vec![named("lookup.first")].into())
}

#[tokio::test]
async fn package_of_a_folder_publishes_through_its_context() {
    const PACKAGES: &[PackageDef] = &[PackageDef {
        name: "lookup",
        declaration: r#"{"package": "lookup", "rust": "lookup"}"#,
        open: |context| Box::pin(open(context)),
    }];
    let folder = Folder::with(&[("a.json", r#"{"package": "a", "rust": "lookup"}"#)]);
    let loaded = loader::load(folder.path(), &loader::environment(), PACKAGES).await.unwrap();
    let server = Server::builder().shards(1).package(Package::new("before")).loaded(loaded).build().unwrap();
    let url = listen(&server).await;
    let mut wire = Wire::live(&url).await;
    assert_eq!(wire.value("await lookup.first()").await, json!("lookup.first"));
    let publisher = OPENED.lock().take().unwrap();
    assert_eq!(publisher.replace(vec![named("lookup.second")]).await, []);
    assert_eq!(
        wire.value("[typeof lookup.first, await lookup.second()]").await,
        json!(["undefined", "lookup.second"])
    );
}
