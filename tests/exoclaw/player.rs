//! Plays a vector: sends its frames, and checks the frames received on each connection, in order.
//!
//! The format is that of the files in `tests/interop/exoclaw/vectors`: an object matches by the
//! members that it has unless it is `$exact`, and an object with a single `$` member is an
//! instruction. `$sleep` is ignored: no vector may depend on timing.

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

/// How long to wait for an expected frame, far longer than any takes.
const FRAME_TIMEOUT: Duration = Duration::from_secs(15);

/// How long to wait for unexpected frames after the last expected one.
const QUIET_PERIOD: Duration = Duration::from_millis(20);

const FRAMES_QUEUED_MAX: usize = 1024;

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// A received frame, or the code of a close.
#[derive(Debug)]
enum Arrival {
    Frame(Value),
    Closed(u16),
}

struct Connection {
    sink: Option<SplitSink<Socket, Message>>,
    reader: JoinHandle<()>,
}

impl Connection {
    async fn open(url: &str) -> (Self, mpsc::Receiver<Arrival>) {
        let (socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
        let (sink, mut stream) = socket.split();
        let (arrivals_tx, arrivals_rx) = mpsc::channel(FRAMES_QUEUED_MAX);
        let reader = tokio::spawn(async move {
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
            // Fails if the test has ended.
            let _ = arrivals_tx.send(Arrival::Closed(code)).await;
        });
        (Self { sink: Some(sink), reader }, arrivals_rx)
    }

    /// Ignores errors: if the server has closed, the expectations show it.
    async fn send(&mut self, message: Message) {
        if let Some(sink) = &mut self.sink {
            let _ = sink.send(message).await;
        }
    }

    async fn perform(&mut self, item: &Value) {
        match instruction(item) {
            Some(("$raw", text)) => self.send(Message::text(text.as_str().unwrap())).await,
            // The content does not matter: the gateway never reads binary frames.
            Some(("$binary", _)) => self.send(Message::binary(vec![1, 2, 3])).await,
            Some(("$close", _)) => self.send(Message::Close(None)).await,
            Some(("$drop", _)) => {
                self.reader.abort();
                self.sink = None;
            }
            Some(("$sleep", _)) => {}
            Some((other, _)) => panic!("unknown instruction `{other}`"),
            None => self.send(Message::text(item.to_string())).await,
        }
    }
}

/// The member of an object that has only one, if its name starts with `$`.
fn instruction(item: &Value) -> Option<(&str, &Value)> {
    let fields = item.as_object().filter(|fields| fields.len() == 1)?;
    fields.iter().next().map(|(name, value)| (name.as_str(), value)).filter(|(name, _)| name.starts_with('$'))
}

/// Plays one vector. The error names the first unexpected frame.
pub(crate) async fn play(vector: &Value, url: &str) -> Result<(), String> {
    let run = uuid::Uuid::new_v4().simple().to_string();
    let vector: Value = serde_json::from_str(&vector.to_string().replace("${run}", &run)).unwrap();
    let mut expected: HashMap<String, Vec<Value>> = HashMap::new();
    for item in vector["expect"].as_array().unwrap() {
        let (connection, item) = split_address(item, "expect");
        expected.entry(connection).or_default().push(item);
    }
    let (matched_tx, matched_rx) = watch::channel(0);
    let matched_tx = Arc::new(matched_tx);
    let (mut checks, mut opening) = (Vec::new(), HashMap::new());
    for (name, items) in expected {
        let (opened_tx, opened_rx) = mpsc::channel(1);
        opening.insert(name.clone(), opened_tx);
        let allows_extra = vector["extraOk"] == true;
        checks.push(tokio::spawn(expect_all(name, items, opened_rx, Arc::clone(&matched_tx), allows_extra)));
    }
    let send = send_all(vector["send"].as_array().unwrap().clone(), url.to_owned(), opening, matched_rx);
    // The connections stay open until the checks are done.
    let _connections = send.await;
    for check in checks {
        check.await.unwrap()?;
    }
    Ok(())
}

/// Returns the connection of an item, and the item itself.
fn split_address(item: &Value, member: &str) -> (String, Value) {
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
            // After a timeout, the expectation that fails reports it.
            let _ = tokio::time::timeout(FRAME_TIMEOUT, enough).await;
            continue;
        }
        let (name, item) = split_address(&item, "send");
        if !connections.contains_key(&name) {
            let (connection, arrivals_rx) = Connection::open(&url).await;
            if let Some(opened_tx) = opening.remove(&name) {
                opened_tx.send(arrivals_rx).await.unwrap();
            }
            connections.insert(name.clone(), Arc::new(Mutex::new(connection)));
        }
        connections[&name].lock().await.perform(&item).await;
    }
    connections
}

async fn expect_all(
    name: String,
    items: Vec<Value>,
    mut opened_rx: mpsc::Receiver<mpsc::Receiver<Arrival>>,
    matched_tx: Arc<watch::Sender<u64>>,
    allows_extra: bool,
) -> Result<(), String> {
    let mut arrivals_rx = opened_rx.recv().await.ok_or("the connection was not opened")?;
    let mut saved = HashMap::new();
    for item in items {
        let arrival = tokio::time::timeout(FRAME_TIMEOUT, arrivals_rx.recv()).await;
        let arrival = arrival.map_err(|_| format!("[{name}] expected {item}, got nothing"))?;
        let is_match = match (instruction(&item), &arrival) {
            (Some(("$close", codes)), Some(Arrival::Closed(code))) => contains_code(codes, *code),
            // `$repeat` is the last item of a vector that allows extra frames, so one frame is
            // enough.
            (_, Some(Arrival::Frame(frame))) => {
                matches(item.get("$repeat").unwrap_or(&item), frame, &mut saved, false)
            }
            (_, Some(Arrival::Closed(_)) | None) => false,
        };
        if !is_match {
            return Err(format!("[{name}] expected {item}, got {arrival:?}"));
        }
        matched_tx.send_modify(|matched| *matched += 1);
    }
    let extra = tokio::time::timeout(QUIET_PERIOD, arrivals_rx.recv()).await;
    match extra {
        Ok(Some(Arrival::Frame(frame))) if !allows_extra => {
            Err(format!("[{name}] expected no more frames, got {frame}"))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

fn contains_code(codes: &Value, code: u16) -> bool {
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
            other => panic!("unknown instruction `{other}`"),
        };
    }
    match (pattern, got) {
        (Value::Object(wanted), Value::Object(fields)) => {
            match_members(wanted, fields, saved, is_exact) && (!is_exact || wanted.len() == fields.len())
        }
        (Value::Array(wanted), Value::Array(items)) => {
            wanted.len() == items.len()
                && wanted.iter().zip(items).all(|(one, item)| matches(one, item, saved, is_exact))
        }
        _ => pattern == got,
    }
}

fn match_members(
    wanted: &Map<String, Value>,
    fields: &Map<String, Value>,
    saved: &mut HashMap<String, Value>,
    is_exact: bool,
) -> bool {
    wanted
        .iter()
        .all(|(name, one)| fields.get(name).is_some_and(|field| matches(one, field, saved, is_exact)))
}
