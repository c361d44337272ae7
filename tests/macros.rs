//! Functions with `#[scomp::binding]`, called by scripts: what is declared of them, what they get, and how they fail.
#![allow(clippy::unwrap_used)]

use std::sync::Mutex;

use scomp::binding::{BindingError, BindingFn as _, Call, Function, Input, State};
use scomp::package::Package;
use scomp::server::Server;
use scomp::testing::TestServer;
use scomp::values::{BigInt, Bytes, Date};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Serialize, schemars::JsonSchema)]
struct Page {
    keys: Vec<String>,
    limit: u32,
}

fn default_limit() -> u32 {
    10
}

/// Lists keys.
///
/// In the order of their bytes.
#[scomp::binding(name = "store.list", effects = ["read", "audit"], timeout_ms = 2_000, concurrency = 3)]
async fn list_keys(
    /// Which keys.
    key_prefix: Option<String>,
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 100))]
    limit: u32,
) -> Page {
    Page { keys: key_prefix.into_iter().collect(), limit }
}

#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[allow(dead_code)]
struct Point {
    x: f64,
    y: f64,
}

/// The distance from the origin, of a function that is not async.
#[scomp::binding]
fn distance(Input(point): Input<Point>) -> f64 {
    point.x.hypot(point.y)
}

type Log = Mutex<Vec<String>>;

/// Writes to the log under the name of the caller's principal.
#[scomp::binding(name = "log.write")]
async fn write_log(log: State<Log>, text: String, call: Call) {
    log.lock().unwrap().push(format!("{}: {text}", call.session.principal.name));
}

/// Reads the log.
#[scomp::binding(name = "log.read")]
async fn read_log(log: State<Log>) -> Vec<String> {
    log.lock().unwrap().clone()
}

#[derive(Debug, thiserror::Error, scomp::ErrorKind)]
enum StockError {
    #[error("{item_name}: only {left} left")]
    #[kind("OutOfStock", code = 409)]
    OutOfStock {
        #[data]
        item_name: String,
        #[data]
        left: u32,
    },
    #[error("closed")]
    #[kind("ShopClosed")]
    Closed,
    #[error(transparent)]
    Parse(#[from] std::num::ParseIntError),
}

/// Takes items from the stock.
#[scomp::binding(name = "stock.take", effects = ["write"])]
async fn take_stock(item_name: String, count: String) -> Result<u32, StockError> {
    match count.parse()? {
        0 => Err(StockError::Closed),
        1 => Ok(4),
        _ => Err(StockError::OutOfStock { item_name, left: 5 }),
    }
}

/// Fails with an error of the standard library.
#[scomp::binding(name = "plain.fail")]
async fn fail_plainly() -> Result<(), std::fmt::Error> {
    Err(std::fmt::Error)
}

/// Fails as handlers of the builder do.
#[scomp::binding(name = "plain.refuse")]
async fn refuse() -> Result<Value, BindingError> {
    Err(BindingError::with_code(7, "refused"))
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Steps {
    each: Vec<Function<(u32, String), Option<u32>>>,
    done: Option<Function<(Vec<u32>,), ()>>,
}

/// Calls functions in a list, and one at the end.
#[scomp::binding(name = "steps.run")]
async fn run_steps(Input(steps): Input<Steps>) -> Result<u32, BindingError> {
    let mut results = Vec::new();
    for (number, step) in (1..).zip(&steps.each) {
        results.extend(step.call((number, "step".to_owned())).await?);
    }
    let sum = results.iter().sum();
    if let Some(done) = steps.done {
        done.call((results,)).await?;
    }
    Ok(sum)
}

/// Returns a function that takes a function.
#[scomp::binding(name = "steps.twice")]
async fn twice() -> Function<(Function<(f64,), f64>, f64), f64> {
    type Applied = (Function<(f64,), f64>, f64);
    Function::new("twice", |(function, start): Applied| async move {
        let once = function.call((start,)).await?;
        function.call((once,)).await
    })
}

/// Sends typed values back as they came.
#[scomp::binding(name = "values.echo")]
async fn echo_values(bytes: Bytes, number: BigInt, at: Date) -> (Bytes, BigInt, Date) {
    (bytes, number, at)
}

fn package() -> Package {
    Package::new("test")
        .add::<list_keys>()
        .add::<distance>()
        .add::<write_log>()
        .add::<read_log>()
        .add::<take_stock>()
        .add::<fail_plainly>()
        .add::<refuse>()
        .add::<run_steps>()
        .add::<twice>()
        .add::<echo_values>()
        .state(Log::default())
}

async fn start() -> TestServer {
    TestServer::start(package()).await.unwrap()
}

/// The kind of the binding's error that code ends with.
async fn failure(server: &TestServer, code: &str) -> String {
    let caught = format!("try {{ {code}; 'no error' }} catch (e) {{ e.name }}");
    server.eval_as(&caught).await.unwrap()
}

#[test]
fn declaration_is_made_of_the_signature() {
    let declaration = list_keys::declaration();
    assert_eq!(list_keys::NAME, "store.list");
    assert_eq!(distance::NAME, "distance");
    assert_eq!(declaration.description.as_deref(), Some("Lists keys.\n\nIn the order of their bytes."));
    assert_eq!(declaration.effects, ["read", "audit"]);
    assert_eq!((list_keys::limits().timeout_ms, list_keys::limits().concurrency), (Some(2_000), Some(3)));
    let input = declaration.input.unwrap();
    assert_eq!(input["title"], "ListKeysInput");
    assert_eq!(input.get("required"), None);
    assert_eq!(input["additionalProperties"], false);
    assert_eq!(input["properties"]["keyPrefix"]["description"], "Which keys.");
    assert_eq!(input["properties"]["limit"]["maximum"], 100);
    assert_eq!(input["properties"]["limit"]["default"], 10);
    assert_eq!(declaration.output.unwrap()["properties"]["keys"]["type"], "array");
    assert_eq!(write_log::declaration().output, Some(json!({"title": "null", "type": "null"})));
    assert_eq!(run_steps::limits(), scomp::binding::BindingLimits::default());
}

#[tokio::test]
async fn arguments_are_fields_of_the_input() {
    let server = start().await;
    assert_eq!(server.eval("await store.list()").await.unwrap(), json!({"keys": [], "limit": 10}));
    let page = server.eval("await store.list({ keyPrefix: 'a', limit: 3 })").await.unwrap();
    assert_eq!(page, json!({"keys": ["a"], "limit": 3}));
    assert_eq!(server.eval("await distance({ x: 3, y: 4 })").await.unwrap(), 5.0);
    for input in ["{ limit: 0 }", "{ prefix: 'a' }", "{ keyPrefix: 1 }"] {
        assert_eq!(failure(&server, &format!("await store.list({input})")).await, "InvalidInput", "{input}");
    }
    assert_eq!(list_keys(None, 1).await.limit, 1);
}

#[tokio::test]
async fn state_and_call_are_passed_by_type() {
    let server = start().await;
    server.eval("await log.write({ text: 'a' }); await log.write({ text: 'b' })").await.unwrap();
    assert_eq!(server.eval("await log.read()").await.unwrap(), json!(["anonymous: a", "anonymous: b"]));
}

#[test]
fn missing_state_is_a_problem_at_start() {
    let problems = |built: Result<Server, _>| match built {
        Ok(_) => panic!("the server started"),
        Err(scomp::server::StartError::Bindings(error)) => error.0,
        Err(other) => panic!("{other}"),
    };
    let found = problems(Server::builder().add::<distance>().add::<write_log>().add::<read_log>().build());
    let places: Vec<&str> = found.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(places, ["/bindings/1", "/bindings/2"]);
    assert!(found[0].message.starts_with("log.write: no state of type `std::sync"), "{}", found[0].message);
    let found = problems(Server::builder().add::<distance>().add::<distance>().build());
    assert_eq!(found.len(), 1);
    let server = Server::builder().add::<write_log>().state(Log::default()).build().unwrap();
    assert!(server.catalog().contains("log.write"));
}

#[tokio::test]
async fn error_kind_code_and_data_reach_the_client() {
    let server = start().await;
    let error = server.invoke("stock.take", json!({"itemName": "lamp", "count": "9"})).await.unwrap_err();
    let error = error.rpc().unwrap();
    assert_eq!((error.code, error.message.as_str()), (409, "lamp: only 5 left"));
    assert_eq!(error.data, Some(json!({"kind": "OutOfStock", "itemName": "lamp", "left": 5})));
    let caught = "try { await stock.take({ itemName: 'lamp', count: '9' }) } catch (e) { [e.name, e.code, e.data.left] }";
    assert_eq!(server.eval(caught).await.unwrap(), json!(["OutOfStock", 409, 5]));
    assert_eq!(failure(&server, "await stock.take({ itemName: '', count: '0' })").await, "ShopClosed");
    assert_eq!(failure(&server, "await stock.take({ itemName: '', count: 'x' })").await, "BindingError");
    assert_eq!(server.eval("await stock.take({ itemName: '', count: '1' })").await.unwrap(), 4);
}

#[tokio::test]
async fn errors_without_kinds_are_as_in_the_builder() {
    let server = start().await;
    assert_eq!(failure(&server, "await plain.fail()").await, "BindingError");
    let code = "try { await plain.refuse() } catch (e) { e.code }";
    assert_eq!(server.eval(code).await.unwrap(), 7);
}

#[tokio::test]
async fn functions_are_called_both_ways() {
    let server = start().await;
    let code = "let seen; const sum = await steps.run({
        each: [(n, text) => text.length * n, () => {}, async n => n],
        done: results => { seen = results },
    }); [sum, seen]";
    assert_eq!(server.eval(code).await.unwrap(), json!([7, [4, 3]]));
    assert_eq!(server.eval("await steps.run({ each: [] })").await.unwrap(), 0);
    let code = "const f = await steps.twice(); await f(n => n * 3, 2)";
    assert_eq!(server.eval(code).await.unwrap(), 18.0);
}

#[tokio::test]
async fn function_with_wrong_result_fails_the_call() {
    let server = start().await;
    assert_eq!(failure(&server, "await steps.run({ each: [() => 'x'] })").await, "InvalidOutput");
    let thrown = "await steps.run({ each: [() => { throw new Error('no') }] })";
    assert_eq!(failure(&server, thrown).await, "EvalError");
    assert_eq!(failure(&server, "await steps.run({ each: [5] })").await, "InvalidInput");
}

#[tokio::test]
async fn typed_values_keep_their_classes() {
    let server = start().await;
    let code = "const [b, n, d] = await values.echo({
        bytes: new Uint8Array([1, 255]), number: -12345678901234567890123n, at: new Date(5) });
        [b instanceof Uint8Array && b[1], n === -12345678901234567890123n, d instanceof Date && d.getTime()]";
    assert_eq!(server.eval(code).await.unwrap(), json!([255, true, 5]));
    let text = "await values.echo({ bytes: 'AAE=', number: 1n, at: new Date(5) })";
    assert_eq!(failure(&server, text).await, "InvalidInput");
}

#[tokio::test]
async fn typescript_names_the_classes_and_functions() {
    let server = start().await;
    let types = server.client().invoke("bindings.types", json!({})).await.unwrap();
    let types = types.as_str().map(str::to_owned).unwrap_or_else(|| types.to_string());
    for part in ["at: Date", "bytes: Uint8Array", "number: bigint"] {
        assert!(types.contains(part), "{part} is not in\n{types}");
    }
}
