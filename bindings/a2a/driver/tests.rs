//! The gateway thread with a real disk, and connections that are channels.

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::super::config::Config;
use super::super::delivery::{DELIVERIES_BYTES_MAX, DELIVERIES_QUEUED_MAX, Delivery, delivery_channel};
use super::super::sessions::Durability;
use super::super::testing::Folder;
use super::*;
use crate::concurrency::ByteReceiver;

struct Socket {
    id: ConnectionId,
    deliveries_rx: ByteReceiver<Delivery>,
    overflow: CancellationToken,
}

fn start(folder: &Folder) -> GatewayHandle {
    let settings = Config::read(&json!({"messagesBurst": 1e9})).unwrap().to_settings();
    let sessions = DiskSessionStore::new(folder.path(), Durability::Always);
    GatewayHandle::start(Gateway::new(settings), sessions, Audit::default()).unwrap()
}

async fn connect(gateway: &GatewayHandle) -> Socket {
    let overflow = CancellationToken::new();
    let (deliveries, deliveries_rx) = delivery_channel(overflow.clone());
    let id = gateway.open(ClientInfo::default(), deliveries).await.unwrap();
    Socket { id, deliveries_rx, overflow }
}

async fn receive(socket: &mut Socket) -> Value {
    match socket.deliveries_rx.recv().await.unwrap() {
        Delivery::Frame(frame) => frame,
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
async fn acknowledged_message_is_on_disk() {
    let folder = Folder::new();
    let gateway = start(&folder);
    let mut socket = connect(&gateway).await;
    for number in 0..10 {
        assert!(gateway.try_send_text(socket.id, &message(number)));
    }
    for number in 0..10 {
        assert_eq!(receive(&mut socket).await["content"]["code"], 3002);
        let text = std::fs::read_to_string(folder.path().join("agents/coder/session.jsonl")).unwrap();
        assert!(text.contains(&format!("\"m{number}\"")));
    }
}

#[tokio::test]
async fn write_failure_is_an_agent_error() {
    let folder = Folder::new();
    std::fs::write(folder.path().join("agents"), b"not a folder").unwrap();
    let gateway = start(&folder);
    let mut socket = connect(&gateway).await;
    assert!(gateway.try_send_text(socket.id, &message(1)));
    assert_eq!(receive(&mut socket).await["content"]["code"], 3004);
}

#[tokio::test]
async fn reader_past_the_frame_limit_is_disconnected() {
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
    receive(&mut other).await;
    assert!(!socket.overflow.is_cancelled(), "exactly at the limit");
    gateway.send(ping()).await.unwrap();
    socket.overflow.cancelled().await;
}

#[tokio::test]
async fn reader_past_the_byte_limit_is_disconnected() {
    let folder = Folder::new();
    let gateway = start(&folder);
    let (agent, mut client) = (connect(&gateway).await, connect(&gateway).await);
    let handshake = json!({"type": "handshake", "from": "coder", "content": {"action": "advertise"}});
    assert!(gateway.try_send_text(agent.id, &handshake.to_string()));
    let text = "x".repeat(DELIVERIES_BYTES_MAX / 4);
    let long = json!({"type": "broadcast", "content": {"message": text}}).to_string();
    for _ in 0..4 {
        assert!(gateway.try_send_text(client.id, &long));
        assert_eq!(receive(&mut client).await["content"]["result"]["delivered"], 1);
    }
    assert!(
        !agent.overflow.is_cancelled(),
        "three and a little more are below the limit, so a fourth is queued"
    );
    assert!(gateway.try_send_text(client.id, &long));
    agent.overflow.cancelled().await;
}

/// A gateway thread that is blocked from its first input on.
struct BlockedThread {
    started_tx: std::sync::mpsc::Sender<()>,
    resume_rx: std::sync::mpsc::Receiver<()>,
}

impl Worker for BlockedThread {
    type Job = Input;

    fn on_job(&mut self, _: Input) {
        // Both ends of the test may be gone when it is over.
        let _ = self.started_tx.send(());
        let _ = self.resume_rx.recv();
    }
}

#[tokio::test]
async fn text_past_the_queue_limit_is_refused() {
    let (started_tx, started_rx) = std::sync::mpsc::channel();
    let (resume_tx, resume_rx) = std::sync::mpsc::channel();
    let gateway = GatewayHandle::start_thread(BlockedThread { started_tx, resume_rx }).unwrap();
    let id = ConnectionId(1);
    gateway.send(Input::Binary { id }).await.unwrap();
    started_rx.recv().unwrap();
    assert!(gateway.try_send_text(id, &"x".repeat(TEXT_BYTES_QUEUED_MAX)));
    assert!(gateway.try_send_text(id, "y"), "exactly at the limit");
    assert!(!gateway.try_send_text(id, "z"));
    assert!(gateway.try_send(Input::Close { id }).is_ok(), "only text counts");
    // The thread takes the long text.
    resume_tx.send(()).unwrap();
    started_rx.recv().unwrap();
    assert!(gateway.try_send_text(id, "z"));
}

#[tokio::test]
async fn close_unregisters_the_agent() {
    let folder = Folder::new();
    let gateway = start(&folder);
    let agent = connect(&gateway).await;
    let handshake = json!({"type": "handshake", "from": "visitor", "content": {"action": "advertise"}});
    assert!(gateway.try_send_text(agent.id, &handshake.to_string()));
    gateway.close(agent.id);
    let mut client = connect(&gateway).await;
    let message = message(1).replace("coder", "visitor");
    assert!(gateway.try_send_text(client.id, &message));
    assert_eq!(receive(&mut client).await["content"]["code"], 3001);
}
