//! A stub language model with the APIs of both providers.
//!
//! Words in the last message choose its answer, as in the vectors. With `hold` it waits after its
//! first words until the test calls `resume`, so that tests need no timing.

use std::sync::Arc;
use std::task::{Poll, ready};
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

use super::stub_answers::{Api, Step, steps_for};

/// The pause after each word of a `slow` answer, long enough that other requests arrive in between.
const WORD_PAUSE: Duration = Duration::from_millis(40);

/// The test's handle to the stub.
#[derive(Clone)]
pub(crate) struct Stub {
    pub(crate) url: String,
    state: Arc<StubState>,
}

struct StubState {
    requests: Mutex<Vec<Value>>,
    /// A permit for each answer that may continue.
    resume: Semaphore,
    /// The number of unfinished answers.
    open: watch::Sender<usize>,
}

/// Counts as an open answer until it is dropped.
struct OpenAnswer(Arc<StubState>);

impl OpenAnswer {
    fn new(state: &Arc<StubState>) -> Self {
        state.open.send_modify(|open| *open += 1);
        Self(Arc::clone(state))
    }
}

impl Drop for OpenAnswer {
    fn drop(&mut self) {
        self.0.open.send_modify(|open| *open -= 1);
    }
}

impl Stub {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let open = watch::channel(0).0;
        let state = Arc::new(StubState { requests: Mutex::default(), resume: Semaphore::new(0), open });
        let respond_with = |api: Api| {
            post(move |State(state): State<Arc<StubState>>, body: String| async move {
                respond(&state, api, serde_json::from_str(&body).unwrap())
            })
        };
        let router = Router::new()
            .route("/v1/messages", respond_with(Api::Anthropic))
            .route("/v1/chat/completions", respond_with(Api::OpenAi))
            .with_state(Arc::clone(&state));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, state }
    }

    /// The bodies of all requests so far.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.state.requests.lock().clone()
    }

    /// Lets one waiting answer continue.
    pub(crate) fn resume(&self) {
        self.state.resume.add_permits(1);
    }

    /// Waits until that number of answers is open.
    pub(crate) async fn wait_for_open_answers(&self, count: usize) {
        let mut open = self.state.open.subscribe();
        let waiting = open.wait_for(|open| *open == count);
        let in_time = tokio::time::timeout(Duration::from_secs(10), waiting).await;
        assert!(in_time.is_ok(), "expected {count} open answers, got {}", *self.state.open.borrow());
    }
}

fn respond(state: &Arc<StubState>, api: Api, body: Value) -> Response {
    let steps = steps_for(&body);
    state.requests.lock().push(body);
    if let [Step::Status(code, text)] = steps.as_slice() {
        let status = StatusCode::from_u16(*code).unwrap();
        return (status, text.clone()).into_response();
    }
    let (chunks_tx, mut chunks_rx) = mpsc::channel::<Result<String, std::io::Error>>(1);
    let open = OpenAnswer::new(state);
    let write = write_answer(Arc::clone(state), api, steps, chunks_tx);
    tokio::spawn(async move {
        write.await;
        drop(open);
    });
    let mut cut = None;
    let chunks = futures_util::stream::poll_fn(move |cx| {
        if let Some(error) = cut.take() {
            return Poll::Ready(Some(Err(error)));
        }
        match ready!(chunks_rx.poll_recv(cx)) {
            // A body that fails takes along what was not flushed yet; one that is pending is flushed first.
            Some(Err(error)) => {
                cut = Some(error);
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            chunk => Poll::Ready(chunk),
        }
    });
    Response::builder().header("content-type", "text/event-stream").body(Body::from_stream(chunks)).unwrap()
}

async fn write_answer(
    state: Arc<StubState>,
    api: Api,
    steps: Vec<Step>,
    chunks_tx: mpsc::Sender<Result<String, std::io::Error>>,
) {
    for step in steps {
        let chunk = match step {
            Step::Wait => {
                tokio::select! {
                    permit = state.resume.acquire() => permit.unwrap().forget(),
                    // The server has closed the connection.
                    () = chunks_tx.closed() => return,
                }
                continue;
            }
            Step::Pause => {
                tokio::time::sleep(WORD_PAUSE).await;
                continue;
            }
            Step::Abort => Err(std::io::Error::other("cut")),
            Step::Raw(text) => Ok(text),
            Step::Status(..) => continue,
            step @ (Step::Start | Step::Text(_) | Step::Tool { .. } | Step::Stop { .. }) => {
                Ok(api.encode(&step))
            }
        };
        if chunks_tx.send(chunk).await.is_err() {
            return;
        }
    }
}
