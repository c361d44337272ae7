//! A language model that does what the last message says, over the shapes of both providers.
//!
//! Words in the message choose what it does, as in the vectors. `hold` makes it stop after its first words until the
//! test lets it go on, so that what happens meanwhile needs no clock.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, watch};

use super::shapes::{Shape, Step, steps_for};

/// Between two words of a `slow` answer: long enough that others come in between.
const SLOW_WORD: Duration = Duration::from_millis(40);

/// What the test sees of the model.
#[derive(Clone)]
pub(crate) struct Stub {
    pub(crate) url: String,
    state: Arc<StubState>,
}

struct StubState {
    requests: Mutex<Vec<Value>>,
    /// Lets one answer that waits go on.
    go_on: Semaphore,
    /// Answers that were begun and not ended yet.
    open: watch::Sender<usize>,
}

/// An answer under way; it is counted until it ends, or nobody reads it any more.
struct Open(Arc<StubState>);

impl Open {
    fn new(state: &Arc<StubState>) -> Self {
        state.open.send_modify(|open| *open += 1);
        Self(Arc::clone(state))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.send_modify(|open| *open -= 1);
    }
}

impl Stub {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let open = watch::channel(0).0;
        let state = Arc::new(StubState { requests: Mutex::default(), go_on: Semaphore::new(0), open });
        let answer_as = |shape: Shape| {
            post(move |State(state): State<Arc<StubState>>, body: String| async move {
                answer(&state, shape, serde_json::from_str(&body).unwrap())
            })
        };
        let router = Router::new()
            .route("/v1/messages", answer_as(Shape::Anthropic))
            .route("/v1/chat/completions", answer_as(Shape::OpenAi))
            .with_state(Arc::clone(&state));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, state }
    }

    /// Every request so far.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.state.requests.lock().clone()
    }

    /// Lets one answer that waits go on.
    pub(crate) fn go_on(&self) {
        self.state.go_on.add_permits(1);
    }

    /// Waits until so many answers are under way.
    pub(crate) async fn open_answers(&self, count: usize) {
        let mut open = self.state.open.subscribe();
        let waiting = open.wait_for(|open| *open == count);
        let in_time = tokio::time::timeout(Duration::from_secs(10), waiting).await;
        assert!(
            in_time.is_ok(),
            "expected {count} answers under way, there are {}",
            *self.state.open.borrow()
        );
    }
}

fn answer(state: &Arc<StubState>, shape: Shape, body: Value) -> Response {
    let steps = steps_for(&body);
    state.requests.lock().push(body);
    if let [Step::Status(code, text)] = steps.as_slice() {
        let status = StatusCode::from_u16(*code).unwrap();
        return (status, text.clone()).into_response();
    }
    let (chunks_tx, mut chunks_rx) = mpsc::channel::<Result<String, std::io::Error>>(1);
    let open = Open::new(state);
    let writing = write(Arc::clone(state), shape, steps, chunks_tx);
    tokio::spawn(async move {
        writing.await;
        drop(open);
    });
    let chunks = futures_util::stream::poll_fn(move |cx| chunks_rx.poll_recv(cx));
    Response::builder().header("content-type", "text/event-stream").body(Body::from_stream(chunks)).unwrap()
}

async fn write(
    state: Arc<StubState>,
    shape: Shape,
    steps: Vec<Step>,
    chunks_tx: mpsc::Sender<Result<String, std::io::Error>>,
) {
    for step in steps {
        let chunk = match step {
            Step::Wait => {
                tokio::select! {
                    permit = state.go_on.acquire() => permit.unwrap().forget(),
                    // Nobody reads any more.
                    () = chunks_tx.closed() => return,
                }
                continue;
            }
            Step::Pause => {
                tokio::time::sleep(SLOW_WORD).await;
                continue;
            }
            Step::Break => Err(std::io::Error::other("cut")),
            Step::Raw(text) => Ok(text),
            Step::Status(..) => continue,
            step @ (Step::Start | Step::Text(_) | Step::Tool { .. } | Step::Stop { .. }) => {
                Ok(shape.events(&step))
            }
        };
        if chunks_tx.send(chunk).await.is_err() {
            return;
        }
    }
}
