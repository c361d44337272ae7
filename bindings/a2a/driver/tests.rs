//! The thread with a real disk, and connections that are nothing but channels.

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::super::config::Config;
use super::super::outlet::{DELIVERIES_BYTES_MAX, DELIVERIES_QUEUED_MAX, Delivery, outlet};
use super::super::sessions::Durability;
use super::super::testing::Folder;
use super::*;

struct Socket {
    id: ConnectionId,
    deliveries_rx: mpsc::Receiver<Delivery>,
    overrun: CancellationToken,
}

fn start(folder: &Folder) -> GatewayHandle {
    let settings = Config::read(&json!({"messagesBurst": 1e9})).unwrap().settings();
    let sessions = DiskSessions::new(folder.path(), Durability::Always);
    GatewayHandle::start(Gateway::new(settings), sessions, Audit::default()).unwrap()
}

async fn connect(gateway: &GatewayHandle) -> Socket {
    let overrun = CancellationToken::new();
    let (outlet, deliveries_rx) = outlet(overrun.clone());
    let id = gateway.open(Arrival::default(), outlet).await.unwrap();
    Socket { id, deliveries_rx, overrun }
}

async fn frame(socket: &mut Socket) -> Value {
    match socket.deliveries_rx.recv().await.unwrap() {
        Delivery::Frame(frame, _) => frame,
        Delivery::Close { code, .. } => panic!("closed with {code}"),
    }
}

fn message(id: usize) -> String {
    json!({
        "type": "message", "agent": "coder", "sessionId": "s", "id": format!("m{id}"),
        "content": {"role": "user", "content": "x"}
    })
    .to_string()
}

#[tokio::test]
async fn what_is_answered_is_on_the_disk() {
    let folder = Folder::new();
    let gateway = start(&folder);
    let mut socket = connect(&gateway).await;
    for number in 0..10 {
        assert!(gateway.try_text(socket.id, &message(number)));
    }
    for number in 0..10 {
        assert_eq!(frame(&mut socket).await["content"]["code"], 3002);
        let text = std::fs::read_to_string(folder.path().join("agents/coder/session.jsonl")).unwrap();
        assert!(text.contains(&format!("\"m{number}\"")));
    }
}

#[tokio::test]
async fn a_disk_that_cannot_be_written_is_the_agents_error() {
    let folder = Folder::new();
    std::fs::write(folder.path().join("agents"), b"in the way").unwrap();
    let gateway = start(&folder);
    let mut socket = connect(&gateway).await;
    assert!(gateway.try_text(socket.id, &message(1)));
    assert_eq!(frame(&mut socket).await["content"]["code"], 3004);
}

#[tokio::test]
async fn a_reader_that_is_too_far_behind_is_disconnected() {
    let folder = Folder::new();
    let gateway = start(&folder);
    let socket = connect(&gateway).await;
    let ping = || Input::Binary { id: socket.id };
    for _ in 0..DELIVERIES_QUEUED_MAX {
        gateway.send(ping()).await.unwrap();
    }
    gateway.sync().await;
    let mut other = connect(&gateway).await;
    gateway.send(Input::Binary { id: other.id }).await.unwrap();
    frame(&mut other).await;
    assert!(!socket.overrun.is_cancelled(), "the last place was taken");
    gateway.send(ping()).await.unwrap();
    socket.overrun.cancelled().await;
}

#[tokio::test]
async fn a_reader_that_leaves_too_many_bytes_is_disconnected() {
    let folder = Folder::new();
    let gateway = start(&folder);
    let (agent, mut client) = (connect(&gateway).await, connect(&gateway).await);
    let shake = json!({"type": "handshake", "from": "coder", "content": {"action": "advertise"}});
    assert!(gateway.try_text(agent.id, &shake.to_string()));
    let text = "x".repeat(DELIVERIES_BYTES_MAX / 4);
    let long = json!({"type": "broadcast", "content": {"message": text}}).to_string();
    for _ in 0..3 {
        assert!(gateway.try_text(client.id, &long));
        assert_eq!(frame(&mut client).await["content"]["result"]["delivered"], 1);
    }
    assert!(!agent.overrun.is_cancelled(), "there is room for three, and a little more");
    assert!(gateway.try_text(client.id, &long));
    agent.overrun.cancelled().await;
}

#[tokio::test]
async fn text_is_taken_up_to_a_limit() {
    let folder = Folder::new();
    let gateway = start(&folder);
    let mut socket = connect(&gateway).await;
    assert!(!gateway.try_text(socket.id, &"x".repeat(TEXT_BYTES_QUEUED_MAX + 1)));
    assert!(gateway.try_text(socket.id, &"x".repeat(TEXT_BYTES_QUEUED_MAX)));
    assert_eq!(frame(&mut socket).await["content"]["code"], 2001);
}

#[tokio::test]
async fn an_end_leaves_no_ghost() {
    let folder = Folder::new();
    let gateway = start(&folder);
    let agent = connect(&gateway).await;
    let shake = json!({"type": "handshake", "from": "visitor", "content": {"action": "advertise"}});
    assert!(gateway.try_text(agent.id, &shake.to_string()));
    gateway.end(agent.id);
    let mut client = connect(&gateway).await;
    let question = message(1).replace("coder", "visitor");
    assert!(gateway.try_text(client.id, &question));
    assert_eq!(frame(&mut client).await["content"]["code"], 3001);
}
