//! Calls of a server that answers in its own ways.

use serde_json::json;

use crate::servers::Session;
use crate::support::Wire;

#[tokio::test]
async fn garbage_and_floods_do_not_lose_the_answer() {
    let mut session = Session::hostile("plain", 0).await;
    assert_eq!(session.value("await hostile.garbage({})").await, json!("after garbage"));
    assert_eq!(session.value("await hostile.flood({})").await, json!("flooded"));
}

#[tokio::test]
async fn malformed_answer_fails_its_call() {
    let mut session = Session::hostile("plain", 0).await;
    let (kind, message) = session.thrown("hostile.malformed({})").await;
    assert_eq!(
        (kind.as_str(), message.as_str()),
        ("BindingError", "the server sent an answer that is not valid")
    );
    assert_eq!(session.value("await hostile.echo({text: 'still here'})").await, json!("still here"));
}

#[tokio::test]
async fn unknown_content_is_passed_on() {
    let mut session = Session::hostile("plain", 0).await;
    assert_eq!(session.value("await hostile.odd({})").await, json!({"type": "hologram", "depth": 3}));
}

#[tokio::test]
async fn progress_comes_in_order() {
    let mut session = Session::hostile("plain", 0).await;
    let code =
        "const seen = []; await hostile.progress({onProgress: (at) => { seen.push(at.progress) }}); seen";
    assert_eq!(session.value(code).await, json!([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]));
}

#[tokio::test]
async fn flood_of_progress_is_thinned_and_stays_in_order() {
    let mut session = Session::hostile("plain", 0).await;
    let code = "const all = []; const done = await hostile.many({onProgress: (at) => { all.push(at.progress) }});
        [done, all.length > 0 && all.length <= 1000, all.every((at, index) => index === 0 || at > all[index - 1])]";
    assert_eq!(session.value(code).await, json!(["done", true, true]));
}

#[tokio::test]
async fn function_that_throws_does_not_lose_the_result() {
    let mut session = Session::hostile("plain", 0).await;
    let code = "await hostile.progress({onProgress: () => { throw new Error('mine') }})";
    assert_eq!(session.value(code).await, json!("done"));
}

#[tokio::test]
async fn questions_are_declined_without_a_client_binding() {
    let mut session = Session::hostile("plain", 0).await;
    assert_eq!(session.value("await hostile.ask({})").await, json!("{\"action\":\"decline\"}"));
}

#[tokio::test]
async fn sampling_is_refused() {
    let mut session = Session::hostile("plain", 0).await;
    assert_eq!(session.value("await hostile.sample({})").await, json!("refused"));
}

/// Both ways to ask: a request of the server, and a result that is not complete.
#[tokio::test]
async fn questions_go_to_the_client_of_the_session() {
    let session = Session::hostile("plain", 0).await;
    for (tool, expected) in [
        ("ask", json!({"action": "accept", "content": {"name": "Ada"}})),
        ("rounds", json!([{"who": {"action": "accept", "content": {"name": "Ada"}}}, "round 1"])),
    ] {
        let elicit = json!({"bindings": [{"name": "elicit"}]});
        let (mut wire, _) = Wire::live_with(&session.running.url, elicit).await;
        let id = wire.send("eval", json!({"code": format!("JSON.parse(await hostile.{tool}({{}}))")})).await;
        let question = wire.json().await;
        assert_eq!(question["params"]["binding"], json!("elicit"), "{question}");
        assert_eq!(question["params"]["input"]["message"], json!("Who?"));
        let reply = json!({"action": "accept", "content": {"name": "Ada"}});
        let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"value": reply}});
        wire.text(&answer.to_string()).await;
        assert_eq!(wire.answer(id).await["result"]["value"], expected, "{tool}");
    }
}

#[tokio::test]
async fn timed_out_call_is_cancelled_at_the_server() {
    let mut config = crate::servers::hostile_config("plain", 0);
    config["timeoutMs"] = json!(300);
    let mut session = Session::start("hostile", config, &[("hostile.mjs", crate::servers::HOSTILE)]).await;
    assert_eq!(session.thrown("hostile.slow({})").await.0, "Timeout");
    assert_eq!(session.value("await hostile.cancelled({})").await, json!("1"));
}

#[tokio::test]
async fn names_that_are_not_identifiers_are_mapped() {
    let mut session = Session::hostile("names", 0).await;
    let names = session.value("Object.keys(hostile).sort()").await;
    let names: Vec<&str> = names.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    let plain = ["_1st", "constructor_", "resources_", "sa_me", "same", "x_y"];
    assert_eq!(names.iter().copied().filter(|name| !name.starts_with("a_b")).collect::<Vec<_>>(), plain);
    let hashed: Vec<&&str> = names.iter().filter(|name| name.starts_with("a_b_")).collect();
    assert_eq!((names.len(), hashed.len()), (8, 2), "{names:?}");
    for (name, tool) in [("_1st", "1st"), ("x_y", "x y"), ("constructor_", "constructor")] {
        assert_eq!(session.value(&format!("await hostile.{name}({{}})")).await, json!(tool));
    }
    let code = format!("[await hostile.{}({{}}), await hostile.{}({{}})].sort()", hashed[0], hashed[1]);
    assert_eq!(session.value(&code).await, json!(["a-b", "a.b"]));
}
