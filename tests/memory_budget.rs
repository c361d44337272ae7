//! What a client can make the server hold, measured on the program itself.
//!
//! The bounds are generous: allocators keep freed memory, and a debug build is larger. Each attack took several times
//! as much before there were budgets.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use scomp::limits::Limits;
use serde_json::{Value, json};
use support::wire::Arrival;
use support::{Folder, Running, Wire};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const MIB: usize = 1 << 20;

/// A message just below the longest.
const LARGE_BYTES: usize = 15 * MIB + MIB / 2;

/// How long anything here may take on a busy machine.
const WAIT_MAX: Duration = Duration::from_secs(120);

/// Time limits that a debug build on a busy machine does not meet.
const UNHURRIED: [(&str, &str); 3] = [
    ("SCOMP_LIMITS_CPU_MS_MAX", "100000"),
    ("SCOMP_LIMITS_WALL_MS_MAX", "100000"),
    ("SCOMP_LIMITS_BINDING_MS_MAX", "100000"),
];

/// The program, serving on a port of its own.
struct Program {
    child: Child,
    address: String,
}

impl Program {
    fn start(variables: &[(&str, &str)], arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_scomp-serve"));
        let ours = std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("SCOMP_"));
        ours.for_each(|(name, _)| {
            command.env_remove(name);
        });
        command.args(["--listen", "127.0.0.1:0"]).args(arguments).envs(variables.iter().copied());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on http://").unwrap().to_owned();
        Self { child, address }
    }

    fn url(&self) -> String {
        format!("ws://{}/", self.address)
    }

    /// A figure of its `/proc/<pid>/status`, in bytes.
    fn status(&self, name: &str) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_matches([':', ' ', '\t']).trim_end_matches(" kB").trim().parse::<usize>().unwrap() << 10
    }

    /// The most memory it ever had.
    fn peak_bytes(&self) -> usize {
        self.status("VmHWM")
    }

    /// A number of its metrics.
    async fn gauge(&self, name: &str) -> usize {
        let mut stream = tokio::net::TcpStream::connect(&self.address).await.unwrap();
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address);
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).await.unwrap();
        let line =
            page.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("no {name}"));
        line.trim().parse().unwrap()
    }

    async fn wait_for(&self, name: &str, is_met: impl Fn(usize) -> bool) {
        let start = Instant::now();
        while !is_met(self.gauge(name).await) {
            assert!(start.elapsed() < WAIT_MAX, "{name} is {}", self.gauge(name).await);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A list of many small values: of all texts the one that takes most as values.
fn many_zeros(bytes: usize) -> String {
    format!("[{}0]", "0,".repeat(bytes / 2 - 2))
}

async fn answer_within(wire: &mut Wire, id: u64) -> Value {
    loop {
        match wire.next_within(WAIT_MAX).await {
            Arrival::Text(text) => {
                let message: Value = serde_json::from_str(&text).unwrap();
                if message["id"] == json!(id) && message.get("method").is_none() {
                    return message;
                }
            }
            other => panic!("expected the answer to {id}, got {other:?}"),
        }
    }
}

fn assert_peak(program: &Program, mebibytes: usize) {
    let peak = program.peak_bytes() / MIB;
    eprintln!("peak {peak} MiB, allowed {mebibytes} MiB");
    assert!(peak < mebibytes, "the server had {peak} MiB");
}

#[tokio::test]
async fn waiting_invokes_stay_text() {
    let program = Program::start(&UNHURRIED, &[]);
    let mut wire = Wire::live(&program.url()).await;
    let function = wire.value("x => x.length").await["$fn"].clone();
    wire.send("eval", json!({"code": "for (;;);", "timeoutMs": 2_000})).await;
    let input = many_zeros(LARGE_BYTES);
    for id in 901..905 {
        let params = format!(r#"{{"ref":{function},"input":{input}}}"#);
        wire.text(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"invoke","params":{params}}}"#)).await;
    }
    let mut answers = Vec::new();
    for id in 901..905 {
        answers.push(answer_within(&mut wire, id).await);
    }
    assert_peak(&program, 500);
    for answer in answers {
        assert_eq!(answer["error"]["data"]["kind"], json!("MemoryLimit"), "{answer}");
    }
    assert_eq!(wire.value("1 + 1").await, json!(2));
}

#[tokio::test]
async fn inputs_of_server_bindings_are_charged_as_values() {
    let declaration = include_str!("../bindings/orders/declaration.json");
    let folder = Folder::with(&[("orders/declaration.json", declaration)]);
    let program = Program::start(&[], &["--bindings", folder.path().to_str().unwrap()]);
    let mut wire = Wire::live(&program.url()).await;
    let (huge, large) = (many_zeros(LARGE_BYTES), many_zeros(MIB / 4));
    for id in 901..905 {
        let params = format!(r#"{{"binding":"getOrder","input":{{"id":"x","more":{huge}}}}}"#);
        wire.text(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"invoke","params":{params}}}"#)).await;
        let answer = answer_within(&mut wire, id).await;
        assert_eq!(answer["error"]["data"]["kind"], json!("InvalidParams"));
    }
    let params = format!(r#"{{"binding":"getOrder","input":{{"id":"x","more":{large}}}}}"#);
    wire.text(&format!(r#"{{"jsonrpc":"2.0","id":950,"method":"invoke","params":{params}}}"#)).await;
    assert_eq!(answer_within(&mut wire, 950).await["result"], json!({"value": null}));
    assert_peak(&program, 400);
}

#[tokio::test]
async fn answers_of_the_client_stay_text() {
    let program = Program::start(&UNHURRIED, &[]);
    let bindings = json!({"bindings": [{"name": "ask"}]});
    let (mut wire, _) = Wire::live_with(&program.url(), bindings).await;
    let calls =
        "Promise.allSettled([1, 2, 3, 4].map(() => ask({}))).then(all => all.map(one => one.reason.name))";
    let eval = wire.send("eval", json!({"code": calls})).await;
    let mut ids = Vec::new();
    while ids.len() < 4 {
        ids.push(wire.json().await["id"].clone());
    }
    // An answer and an error are the two ways in.
    let zeros = many_zeros(LARGE_BYTES);
    for (id, body) in ids.iter().zip([
        format!(r#""result":{{"value":{zeros}}}"#),
        format!(r#""error":{{"code":1,"message":"no","data":{zeros}}}"#),
        format!(r#""result":{{"value":{zeros}}}"#),
        format!(r#""error":{{"code":1,"message":"no","data":{{"a":{zeros}}}}}"#),
    ]) {
        wire.text(&format!(r#"{{"jsonrpc":"2.0","id":{id},{body}}}"#)).await;
    }
    let answer = answer_within(&mut wire, eval).await;
    let names = json!(["MemoryLimit", "BindingError", "MemoryLimit", "BindingError"]);
    assert_eq!(answer["result"]["value"], names, "{answer}");
    assert_peak(&program, 500);
}

#[tokio::test]
async fn queued_keyed_evals_are_released_after_a_disconnect() {
    let program = Program::start(&UNHURRIED, &[]);
    let (mut wire, result) = Wire::live_with(&program.url(), json!({})).await;
    let session = json!({"id": result["sessionId"], "token": result["metadata"]["session"]["token"]});
    wire.send("eval", json!({"code": "await new Promise(done => setTimeout(done, 1e8))"})).await;
    let code = format!("/*{}*/ 1", "x".repeat(LARGE_BYTES - 1_000));
    let sending = tokio::spawn(async move {
        for number in 0..60 {
            wire.send("eval", json!({"code": code, "key": format!("key {number}")})).await;
        }
    });
    program.wait_for("scomp_request_bytes_in_flight ", |bytes| bytes > 60 * MIB).await;
    // The client goes away in the middle of sending.
    sending.abort();
    let _ = sending.await;
    assert!(program.gauge("scomp_request_bytes_in_flight ").await < 110 * MIB);
    // They wait for the first one, connection or not, and are released when they are done.
    let (mut wire, _) = Wire::live_with(&program.url(), json!({"session": session})).await;
    assert!(program.gauge("scomp_request_bytes_in_flight ").await > 40 * MIB);
    wire.invoke("session.cancel", json!({})).await;
    program.wait_for("scomp_request_bytes_in_flight ", |bytes| bytes == 0).await;
    assert_peak(&program, 700);
    assert_eq!(Wire::live(&program.url()).await.value("1 + 1").await, json!(2));
}

#[tokio::test]
async fn messages_that_are_still_arriving_are_bounded() {
    let program = Program::start(&[("SCOMP_SERVER_BYTES_IN_FLIGHT_MAX", "67108864")], &[]);
    // Each announces 15 MiB and sends 8 of them.
    let mut streams = Vec::new();
    for _ in 0..40 {
        let mut stream = tokio::net::TcpStream::connect(&program.address).await.unwrap();
        let head = format!(
            "GET / HTTP/1.1\r\nHost: {}\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            program.address
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 101");
        let mut frame = vec![0x81, 0xff];
        frame.extend((15_u64 << 20).to_be_bytes());
        frame.extend([0; 4]);
        frame.resize(8 * MIB, b' ');
        streams.push(tokio::spawn(async move {
            // Held back by the server, or not.
            let _ = stream.write_all(&frame).await;
            std::future::pending::<()>().await;
        }));
    }
    // Four of them have room, and small messages of others still get through.
    program.wait_for("scomp_request_bytes_in_flight ", |bytes| bytes == 64 * MIB).await;
    assert_eq!(Wire::live(&program.url()).await.value("1 + 1").await, json!(2));
    for stream in &streams {
        stream.abort();
    }
    // Room is released when they go, and a large message gets through again.
    program.wait_for("scomp_request_bytes_in_flight ", |bytes| bytes == 0).await;
    let mut wire = Wire::live(&program.url()).await;
    let id = wire.send("eval", json!({"code": format!("/*{}*/ 7", "x".repeat(10 * MIB))})).await;
    assert_eq!(answer_within(&mut wire, id).await["result"]["value"], json!(7));
    assert_peak(&program, 400);
}

#[tokio::test]
async fn sessions_share_one_total_of_memory() {
    let program = Program::start(&[("SCOMP_LIMITS_MEMORY_TOTAL_BYTES_MAX", "268435456")], &[]);
    let fills = [
        "globalThis.kept = []; for (let i = 0; i < 55; i++) kept.push(new Uint8Array(1 << 20).fill(1)); 1",
        "globalThis.kept = []; for (let i = 0; i < 1e6; i++) kept.push({number: i}); 1",
        "globalThis.kept = []; for (let i = 0; i < 2e4; i++) kept.push('x'.repeat(3000) + i); 1",
    ];
    let (mut wires, mut kinds) = (Vec::new(), Vec::new());
    for number in 0..40 {
        let mut wire = Wire::open(&program.url()).await;
        let answer = wire.request("handshake", json!({"protocol": "0.1"})).await;
        if answer["error"]["data"]["kind"] == json!("Busy") {
            assert!(answer["error"]["data"]["retryAfterMs"].as_u64().unwrap() > 0);
            kinds.push("refused".to_owned());
            continue;
        }
        let id = wire.send("eval", json!({"code": fills[number % fills.len()]})).await;
        let answer = answer_within(&mut wire, id).await;
        let kind = answer["error"]["data"]["kind"].as_str().unwrap_or("ok").to_owned();
        assert!(["ok", "MemoryLimit"].contains(&kind.as_str()), "{answer}");
        kinds.push(kind);
        wires.push(wire);
    }
    let count = |wanted: &str| kinds.iter().filter(|kind| *kind == wanted).count();
    assert!(count("ok") >= 2 && count("MemoryLimit") + count("refused") >= 30, "{kinds:?}");
    assert!(program.gauge("scomp_session_memory_bytes ").await < 300 * MIB);
    assert_peak(&program, 700);
    // Those that are full go on with what they have, and room is given back.
    for mut wire in wires {
        assert_eq!(wire.value("1 + 1").await, json!(2));
        wire.invoke("session.close", json!({})).await;
    }
    program.wait_for("scomp_sessions ", |sessions| sessions == 0).await;
    program.wait_for("scomp_session_memory_bytes ", |bytes| bytes < 10 * MIB).await;
    let mut wire = Wire::live(&program.url()).await;
    assert_eq!(wire.value(fills[0]).await, json!(1));
}

#[tokio::test]
async fn script_cannot_pile_up_calls_outside_of_its_heap() {
    let program = Program::start(&UNHURRIED, &[]);
    let (mut wire, _) = Wire::live_with(&program.url(), json!({"bindings": [{"name": "ask"}]})).await;
    let code = "const big = new Array(200_000).fill(0); let refused = '';
        for (let i = 0; i < 100; i++) ask(big).catch(error => { refused = error.name; });
        await null; await null; refused";
    let id = wire.send("eval", json!({"code": code})).await;
    assert_eq!(answer_within(&mut wire, id).await["result"]["value"], json!("TooManyCalls"));
    assert_peak(&program, 500);
}

#[tokio::test]
async fn values_on_their_way_count_towards_the_total_of_memory() {
    let program = Program::start(&[("SCOMP_LIMITS_MEMORY_TOTAL_BYTES_MAX", "167772160")], &[]);
    // A list that is small in the heap and large as a value.
    let code = "const big = new Array(400).fill(new Array(1000).fill(0)); let outcome = 'waits';
        ask(big).catch(error => { outcome = error.name; }); await null; await null; outcome";
    let (mut wires, mut outcomes) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        let (mut wire, _) = Wire::live_with(&program.url(), json!({"bindings": [{"name": "ask"}]})).await;
        let id = wire.send("eval", json!({"code": code})).await;
        outcomes.push(answer_within(&mut wire, id).await["result"]["value"].clone());
        wires.push(wire);
    }
    let count = |wanted: &str| outcomes.iter().filter(|outcome| **outcome == json!(wanted)).count();
    assert!((1..=4).contains(&count("waits")), "{outcomes:?}");
    assert_eq!(count("waits") + count("MemoryLimit"), 20, "{outcomes:?}");
    assert_peak(&program, 500);
}

/// The budget of a connection is full of evals that wait for an answer of its client.
async fn fill_and_answer(first: &str) {
    let limits = Limits { connection_bytes_max: 100 << 10, ..Limits::default() };
    let running = Running::with(limits).await;
    let (mut wire, _) = Wire::live_with(&running.url, json!({"bindings": [{"name": "ask"}]})).await;
    let asking = wire.send("eval", json!({"code": first})).await;
    let code = format!("/*{}*/ 2", "x".repeat(60 << 10));
    let queued: Vec<u64> =
        [wire.send("eval", json!({"code": code})).await, wire.send("eval", json!({"code": code})).await]
            .into();
    let call = loop {
        let message = wire.json().await;
        if message["method"] == json!("invoke") {
            break message["id"].clone();
        }
    };
    // While it has a call to answer it is read, so one request too many is refused and not left unread.
    let refused = wire.send("eval", json!({"code": "3"})).await;
    let refused = wire.answer(refused).await;
    assert_eq!(refused["error"]["data"]["kind"], json!("Busy"), "{refused}");
    assert!(refused["error"]["data"]["retryAfterMs"].as_u64().unwrap() > 0);
    wire.text(&json!({"jsonrpc": "2.0", "id": call, "result": {"value": 41}}).to_string()).await;
    assert_eq!(wire.answer(asking).await["result"]["value"], json!(42));
    for id in queued {
        assert_eq!(wire.answer(id).await["result"]["value"], json!(2));
    }
}

#[tokio::test]
async fn answers_are_read_when_waiting_evals_fill_the_budget() {
    fill_and_answer("await ask({}) + 1").await;
    // The call comes only after the socket is no longer read.
    fill_and_answer("await new Promise(done => setTimeout(done, 300)); await ask({}) + 1").await;
}

#[tokio::test]
async fn requests_past_the_budget_wait_and_none_is_lost() {
    let limits = Limits { connection_bytes_max: 4 << 10, ..Limits::default() };
    let running = Running::with(limits).await;
    let mut wire = Wire::live(&running.url).await;
    let code = |number: usize| format!("/*{}*/ {number}", "x".repeat(3 << 10));
    let mut ids = Vec::new();
    for number in 0..200 {
        ids.push(wire.send("eval", json!({"code": code(number)})).await);
    }
    for (number, id) in ids.into_iter().enumerate() {
        assert_eq!(wire.answer(id).await["result"]["value"], json!(number));
    }
}

#[tokio::test]
async fn message_longer_than_the_budget_is_served_alone() {
    let limits = Limits { connection_bytes_max: 1, ..Limits::default() };
    let running = Running::with(limits).await;
    let mut wire = Wire::live(&running.url).await;
    let code = format!("/*{}*/ 5", "x".repeat(200 << 10));
    assert_eq!(wire.value(&code).await, json!(5));
    assert_eq!(wire.value(&code).await, json!(5));
}
