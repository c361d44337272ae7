//! A turn that is abandoned at each of its requests for memory: the session goes on with a fresh context, its neighbour on
//! the same thread notices nothing, and nothing of the turn is left.

use std::cell::Cell;

use serde_json::json;
use serde_json::value::to_raw_value;

use super::super::super::heap::injected;
use super::super::super::host::{CALLED, HOST_FUNCTIONS};
use super::super::super::kept::KEPT;
use super::super::super::slice;
use super::*;
use crate::catalog::{CatalogBuilder, CompiledSchemas};
use crate::protocol::client_messages::ToClient;
use crate::protocol::declaration::Declaration;
use crate::schema::SchemaSource;
use crate::session::boundary::HandlerInput;

/// Scripts that have every host function work with blocks that QuickJS asks for one by one. Each ends by itself; `wide` is
/// a text of such a block.
const SCRIPTS: &[(&str, &str)] = &[
    (
        "compile",
        "function f0(a, b) { return a + b } class C { m() { return 'text' } }; [1, 2, 3].map((x) => f0(x, 1))",
    ),
    ("typescript", "interface O { id: string }\nconst o: O = { id: wide }; enum E { A, B }\no.id + E.B"),
    (
        "data",
        "[{\"a\": \"a text that is long enough to be data, and a bit longer than that\"}, [1, 2.5, null, true]]",
    ),
    (
        "values",
        "0, [wide, { a: wide, ['k' + wide]: new Map([[wide, new Set([wide])]]) }, 10n ** 600n, new Date(0), \
                new Error(wide, { cause: new TypeError(wide) }), new Uint8Array(3000), '\\ud800' + wide, [{ a: 1 }, { a: 2 }]]",
    ),
    (
        "getters",
        "({ get a() { return wide + 1 }, toJSON() { return { b: wide + 2, f: () => 1, g: { get c() { return wide } } } } })",
    ),
    ("getter throws", "({ a: { get b() { throw new Error(wide) } } })"),
    ("thrown", "throw new Error(wide, { cause: new RangeError(wide, { cause: { a: wide } }) })"),
    ("rejections", "Promise.reject(new Error(wide)); Promise.reject(wide).catch(() => {}); await null; 1"),
    ("syntax", "let a = ; // refused"),
    (
        "console",
        "console.log(wide, { a: [wide] }, Promise.resolve(wide), new Proxy({}, {})); console.table([{ a: wide }]); 1",
    ),
    (
        "encoding",
        "new TextDecoder('utf-16le').decode(new TextEncoder().encode(wide)) + new TextDecoder().decode(new Uint8Array(3000))",
    ),
    (
        "url",
        "const u = new URL('https://example.com/?q=' + wide); u.search = '?a=' + wide; \
             const s = new URLSearchParams('a=' + wide + '&b=%20' + wide); s.append('c', wide); u.href + s.toString()",
    ),
    (
        "random",
        "crypto.getRandomValues(new Uint8Array(3000)); crypto.randomUUID() + performance.now() + performance.timeOrigin",
    ),
    (
        "timers",
        "const t = setTimeout(() => {}, 1e6); clearTimeout(t); \
                await new Promise((done) => setTimeout(() => { done(wide + 1) }, 0))",
    ),
    (
        "timer throws",
        "await new Promise((done) => { setTimeout(() => { done(1); throw new Error(wide) }, 0) })",
    ),
    (
        "events",
        "const e = new EventTarget(); e.addEventListener('x', () => { throw new Error(wide) }); \
                e.dispatchEvent(new Event('x')); structuredClone({ wide })",
    ),
    (
        "ready binding",
        "const given = await echo({ a: wide, f: () => 1, list: [wide] }); given.a + (await echo([wide, 1])).length",
    ),
    (
        "refused binding",
        "try { await echo(1, 2) } catch {} try { await echo({ a: Symbol() }) } catch {} await echo({ fail: wide })",
    ),
    (
        "client binding",
        "await (async () => { let given = await ask({ a: wide, f: () => 1 }); given.text + await given.f(wide, 2); given = 0 })(); \
         for (let i = 0; i < 5; i++) await null; 1",
    ),
    ("shadow", "echo = 1; echo"),
    (
        "room",
        "'x'.repeat(200000).length + new Uint8Array(200000).length + new Array(20000).fill(1).slice().length",
    ),
    (
        "collection",
        "var ring = []; for (let i = 0; i < 3000; i++) { const a = { i }; a.self = a; ring[i % 10] = a } \
                    const r = new FinalizationRegistry(() => {}); r.register({}, wide); ring.length",
    ),
    ("functions", "var wideName = { [wide]: () => 1 }[wide]; [wideName, (() => wide)]"),
];

/// Every eval begins with this.
const BEGINNING: &str = "var wide = 'w'.repeat(2000);";

/// A host that answers what a script asks for.
struct Host(mpsc::UnboundedSender<FromSession>);

impl Port for Host {
    fn send(&self, message: FromSession) -> Option<ToSession> {
        let _ = self.0.send(message);
        None
    }

    fn call(&self, call: HandlerCall) -> Option<Result<Value, ErrorObject>> {
        let HandlerInput::Value { value, .. } = call.input else { return None };
        let error = |_: &Value| ErrorObject::new(crate::rpc::Kind::BindingError, "w".repeat(3000));
        Some(value.get("fail").map(error).map_or(Ok(value.clone()), Err))
    }

    fn is_closed(&self) -> bool {
        false
    }
}

/// A session with a binding of the server and one of its client.
struct Client {
    inbox_tx: mpsc::Sender<ToSession>,
    sent_rx: mpsc::UnboundedReceiver<FromSession>,
    evals: Cell<u64>,
}

fn catalog(name: &str) -> Arc<Catalog> {
    let declaration = Declaration::named(name);
    let schemas = CompiledSchemas::compile(&declaration, SchemaSource::Operator).unwrap();
    let mut builder = CatalogBuilder::default();
    builder.push(schemas.into_entry(declaration, None));
    Arc::new(builder.build())
}

impl Client {
    async fn connect(limits: &Arc<Limits>, memory: &Arc<MemoryTotal>) -> (Self, Driver) {
        let (sent_tx, sent_rx) = mpsc::unbounded_channel();
        let (inbox_tx, inbox_rx) = mpsc::channel(16);
        let state = SessionState::new("id".into(), "alice".into(), catalog("echo"), limits, Time::default());
        let driver = Driver::new(DriverParts {
            start: SessionStart::Fresh(Box::new(state)),
            limits: Arc::clone(limits),
            memory: Arc::clone(memory),
            hibernation: Hibernation::default(),
            store: None,
            account: Arc::new(Account::new(Quotas::default(), Instant::now())),
            shard: None,
            port: Rc::new(Host(sent_tx)),
            inbox: (inbox_tx.downgrade(), inbox_rx),
        });
        let (bindings, listed) = (catalog("ask"), Arc::default());
        let attach = ToSession::Attach { connection: 1, bindings, listed, schema_bytes: 0 };
        inbox_tx.send(attach).await.unwrap();
        (Self { inbox_tx, sent_rx, evals: Cell::new(0) }, driver.unwrap())
    }

    /// The outcome of an eval. Calls of the client's are answered meanwhile.
    async fn eval(&mut self, code: &str) -> Result<String, ErrorObject> {
        self.evals.set(self.evals.get() + 1);
        let id = Id::from(self.evals.get());
        self.inbox_tx.send(eval(self.evals.get(), code)).await.unwrap();
        loop {
            let sent = tokio::time::timeout(SENT_WITHIN_MAX, self.sent_rx.recv()).await;
            match sent.expect("the session is silent").expect("the session has ended") {
                FromSession::Client { event: ToClient::Answered { request, outcome }, .. }
                    if request == id =>
                {
                    return outcome.map(|text| text.get().to_owned());
                }
                FromSession::Client { event: ToClient::Call { call, .. }, .. } => {
                    let text = format!("{}\n", "w".repeat(3000));
                    let value = json!({"text": text, "f": {"$fn": "c1"}, "e": {"$error": {"message": text}}});
                    let outcome = Ok(to_raw_value(&value).unwrap());
                    let command = FromClient::Answer { call, outcome };
                    let admission = Admission::default();
                    self.inbox_tx
                        .send(ToSession::Client { connection: 1, command, charge: 0, admission })
                        .await
                        .unwrap();
                }
                _ => {}
            }
        }
    }

    async fn end(&mut self) {
        self.inbox_tx.send(ToSession::End(Closing::GoingAway)).await.unwrap();
        while !matches!(self.sent_rx.recv().await, Some(FromSession::Ended { .. }) | None) {}
    }
}

/// Abandons a script at one request after the other, until there is none left. Returns how often it was.
async fn abandon_everywhere(name: &str, code: &str, session: &mut Client, neighbour: &mut Client) -> u64 {
    // Code is read as data only where it is nothing else.
    let code = if code.starts_with('[') { code.to_owned() } else { format!("{BEGINNING} {code}") };
    for requests in 0.. {
        injected::after(Some(requests));
        let outcome = session.eval(&code).await;
        let is_abandoned = injected::after(None).is_none();
        if !is_abandoned {
            return requests;
        }
        // One that was abandoned after its answer, in what it left to be done, shows in the next eval at most.
        if let Err(error) = &outcome
            && error.data.as_ref().is_some_and(|data| data.get("sessionLost").is_some())
        {
            assert_eq!(error.kind(), Some("MemoryLimit"), "{name} {requests}: {error:?}");
        }
        assert_eq!(neighbour.eval("kept.n++").await.unwrap(), format!(r#"{{"value":{requests}}}"#), "{name}");
        assert_eq!(session.eval("1 + 1").await.unwrap(), r#"{"value":2}"#, "{name} {requests}");
        assert_eq!((KEPT.get(), slice::suspended()), (0, 0), "{name} {requests}");
    }
    0
}

async fn abandon_all() -> u64 {
    let (limits, memory) = (Arc::new(Limits::default()), MemoryTotal::new(usize::MAX));
    let mut abandoned = 0;
    let (mut session, driver) = Client::connect(&limits, &memory).await;
    let (mut neighbour, other) = Client::connect(&limits, &memory).await;
    let host = async {
        assert_eq!(session.eval("1 + 1").await.unwrap(), r#"{"value":2}"#);
        for (name, code) in SCRIPTS {
            neighbour.eval("globalThis.kept = { n: 0 }; 1").await.unwrap();
            abandoned += abandon_everywhere(name, code, &mut session, &mut neighbour).await;
        }
        session.end().await;
        neighbour.end().await;
    };
    tokio::join!(driver.run(), other.run(), host);
    assert_eq!(memory.drawn(), 0);
    abandoned
}

#[tokio::test]
async fn turn_abandoned_at_every_request_leaves_nothing() {
    CALLED.take();
    let abandoned = abandon_all().await;
    assert!(abandoned > SCRIPTS.len() as u64 * 3, "{abandoned}");
    let called = CALLED.take();
    let missed = HOST_FUNCTIONS.iter().enumerate().filter(|(number, _)| !called.contains(number));
    let missed: Vec<&str> = missed.map(|(_, function)| function.name()).collect();
    assert_eq!(missed, [] as [&str; 0], "not called by any script");
    assert_eq!((KEPT.get(), slice::suspended()), (0, 0));
    assert!(slice::pooled_stacks() > 0);
}
