//! Plays a vector: what is sent on each connection, and what has to come back on it, in order.
//!
//! The language is that of the files in `tests/interop/exoclaw/vectors`: an object is matched by the members that it
//! names unless it is `$exact`, and an object with one `$` member is an instruction. `$sleep` is not waited for: what
//! it gives a server time for must not be needed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::SplitSink;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Map, Value};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

/// How long an expected frame may take. Far beyond what any takes.
const FRAME_WAIT_MAX: Duration = Duration::from_secs(15);

/// How long nothing more may come after the last expected frame.
const QUIET: Duration = Duration::from_millis(20);

const FRAMES_QUEUED_MAX: usize = 1024;

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// What came in; a close is its code.
#[derive(Debug)]
enum Arrival {
    Frame(Value),
    Closed(u16),
}

struct Connection {
    sink: Option<SplitSink<Socket, Message>>,
    reading: JoinHandle<()>,
}

impl Connection {
    async fn open(url: &str) -> (Self, mpsc::Receiver<Arrival>) {
        let (socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
        let (sink, mut stream) = socket.split();
        let (arrivals_tx, arrivals_rx) = mpsc::channel(FRAMES_QUEUED_MAX);
        let reading = tokio::spawn(async move {
            let mut code = 1006;
            while let Some(Ok(message)) = stream.next().await {
                match message {
                    Message::Text(text) => {
                        let frame = serde_json::from_str(&text).unwrap_or_default();
                        if arrivals_tx.send(Arrival::Frame(frame)).await.is_err() {
                            return;
                        }
                    }
                    Message::Close(frame) => code = frame.map_or(1005, |frame| frame.code.into()),
                    _ => {}
                }
            }
            // A test that does not expect it has ended.
            let _ = arrivals_tx.send(Arrival::Closed(code)).await;
        });
        (Self { sink: Some(sink), reading }, arrivals_rx)
    }

    /// A server that closed already does not take it, which shows in what is expected.
    async fn send(&mut self, message: Message) {
        if let Some(sink) = &mut self.sink {
            let _ = sink.send(message).await;
        }
    }

    async fn act(&mut self, item: &Value) {
        match instruction(item) {
            Some(("$raw", text)) => self.send(Message::text(text.as_str().unwrap())).await,
            // What it holds does not matter: no binary frame is ever read.
            Some(("$binary", _)) => self.send(Message::binary(vec![1, 2, 3])).await,
            Some(("$close", _)) => self.send(Message::Close(None)).await,
            Some(("$drop", _)) => {
                self.reading.abort();
                self.sink = None;
            }
            Some(("$sleep", _)) => {}
            Some((other, _)) => panic!("the player does not know `{other}`"),
            None => self.send(Message::text(item.to_string())).await,
        }
    }
}

/// The one member of an object whose name begins with `$`.
fn instruction(item: &Value) -> Option<(&str, &Value)> {
    let fields = item.as_object().filter(|fields| fields.len() == 1)?;
    fields.iter().next().map(|(name, value)| (name.as_str(), value)).filter(|(name, _)| name.starts_with('$'))
}

/// Plays one vector; the error says which frame was not as expected.
pub(crate) async fn play(vector: &Value, url: &str) -> Result<(), String> {
    let run = uuid::Uuid::new_v4().simple().to_string();
    let vector: Value = serde_json::from_str(&vector.to_string().replace("${run}", &run)).unwrap();
    let mut expected: HashMap<String, Vec<Value>> = HashMap::new();
    for item in vector["expect"].as_array().unwrap() {
        let (connection, item) = addressed(item, "expect");
        expected.entry(connection).or_default().push(item);
    }
    let (matched_tx, matched_rx) = watch::channel(0);
    let matched_tx = Arc::new(matched_tx);
    let (mut waiting, mut opening) = (Vec::new(), HashMap::new());
    for (name, items) in expected {
        let (opened_tx, opened_rx) = mpsc::channel(1);
        opening.insert(name.clone(), opened_tx);
        let is_open_ended = vector["extraOk"] == true;
        waiting.push(tokio::spawn(expect_all(
            name,
            items,
            opened_rx,
            Arc::clone(&matched_tx),
            is_open_ended,
        )));
    }
    let sending = send_all(vector["send"].as_array().unwrap().clone(), url.to_owned(), opening, matched_rx);
    let _connections = sending.await;
    for expecting in waiting {
        expecting.await.unwrap()?;
    }
    Ok(())
}

/// The connection an item is for, and the item itself.
fn addressed(item: &Value, member: &str) -> (String, Value) {
    match item.get("$conn").and_then(Value::as_str) {
        Some(connection) => (connection.to_owned(), item.get(member).cloned().unwrap_or_default()),
        None => ("a".to_owned(), item.clone()),
    }
}

async fn send_all(
    items: Vec<Value>,
    url: String,
    mut opening: HashMap<String, mpsc::Sender<mpsc::Receiver<Arrival>>>,
    mut matched_rx: watch::Receiver<u64>,
) -> HashMap<String, Arc<Mutex<Connection>>> {
    let mut connections: HashMap<String, Arc<Mutex<Connection>>> = HashMap::new();
    let first = serde_json::json!({"$conn": "a", "send": {"$sleep": 0}});
    for item in std::iter::once(first).chain(items) {
        if let Some(("$await", count)) = instruction(&item) {
            let enough = matched_rx.wait_for(|matched| *matched >= count.as_u64().unwrap());
            // If it never comes, the expectation that fails says so.
            let _ = tokio::time::timeout(FRAME_WAIT_MAX, enough).await;
            continue;
        }
        let (name, item) = addressed(&item, "send");
        if !connections.contains_key(&name) {
            let (connection, arrivals_rx) = Connection::open(&url).await;
            if let Some(opened_tx) = opening.remove(&name) {
                opened_tx.send(arrivals_rx).await.unwrap();
            }
            connections.insert(name.clone(), Arc::new(Mutex::new(connection)));
        }
        connections[&name].lock().await.act(&item).await;
    }
    connections
}

async fn expect_all(
    name: String,
    items: Vec<Value>,
    mut opened_rx: mpsc::Receiver<mpsc::Receiver<Arrival>>,
    matched_tx: Arc<watch::Sender<u64>>,
    is_open_ended: bool,
) -> Result<(), String> {
    let mut arrivals_rx = opened_rx.recv().await.ok_or("the connection was never opened")?;
    let mut saved = HashMap::new();
    for item in items {
        let arrival = tokio::time::timeout(FRAME_WAIT_MAX, arrivals_rx.recv()).await;
        let arrival = arrival.map_err(|_| format!("[{name}] nothing came, expected {item}"))?;
        let is_as_expected = match (instruction(&item), &arrival) {
            (Some(("$close", codes)), Some(Arrival::Closed(code))) => is_among(codes, *code),
            // `$repeat` stands at the end of an open vector, so the first frame of many is enough.
            (_, Some(Arrival::Frame(frame))) => {
                matches(item.get("$repeat").unwrap_or(&item), frame, &mut saved, false)
            }
            (_, Some(Arrival::Closed(_)) | None) => false,
        };
        if !is_as_expected {
            return Err(format!("[{name}] expected {item}, got {arrival:?}"));
        }
        matched_tx.send_modify(|matched| *matched += 1);
    }
    let quiet = tokio::time::timeout(QUIET, arrivals_rx.recv()).await;
    match quiet {
        Ok(Some(Arrival::Frame(frame))) if !is_open_ended => Err(format!("[{name}] did not expect {frame}")),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn is_among(codes: &Value, code: u16) -> bool {
    match codes {
        Value::Null => true,
        Value::Array(codes) => codes.iter().any(|one| *one == code),
        one => *one == code,
    }
}

fn matches(pattern: &Value, got: &Value, saved: &mut HashMap<String, Value>, is_exact: bool) -> bool {
    if let Some((name, argument)) = instruction(pattern) {
        let text = || got.as_str().unwrap_or_default();
        let wanted = || argument.as_str().unwrap_or_default();
        return match name {
            "$exact" => matches(argument, got, saved, true),
            "$prefix" => got.is_string() && text().starts_with(wanted()),
            "$contains" => got.is_string() && text().contains(wanted()),
            "$type" => argument == "number" && got.is_number() || argument == "string" && got.is_string(),
            "$any" => true,
            "$oneOf" => argument.as_array().unwrap().iter().any(|one| matches(one, got, saved, is_exact)),
            "$save" => saved.insert(wanted().to_owned(), got.clone()).is_none(),
            other => panic!("the player does not know `{other}`"),
        };
    }
    match (pattern, got) {
        (Value::Object(wanted), Value::Object(fields)) => {
            has_all(wanted, fields, saved, is_exact) && (!is_exact || wanted.len() == fields.len())
        }
        (Value::Array(wanted), Value::Array(items)) => {
            wanted.len() == items.len()
                && wanted.iter().zip(items).all(|(one, item)| matches(one, item, saved, is_exact))
        }
        _ => pattern == got,
    }
}

fn has_all(
    wanted: &Map<String, Value>,
    fields: &Map<String, Value>,
    saved: &mut HashMap<String, Value>,
    is_exact: bool,
) -> bool {
    wanted
        .iter()
        .all(|(name, one)| fields.get(name).is_some_and(|field| matches(one, field, saved, is_exact)))
}
