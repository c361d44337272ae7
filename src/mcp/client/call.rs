//! One call of a tool: the request, progress on the way, questions of the server, the value.
//!
//! The newest revision answers a question with another round of the same request; older ones send it as a request of
//! their own. Either way it is asked here, because only the call knows its session.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::content::value_of_call;
use super::package::{McpPackage, session_of};
use super::routes::{CALL_EVENTS_MAX, CallEvent, CallTag};
use super::schemas::ON_PROGRESS;
use super::tools::MappedTool;
use crate::binding::{BindingError, Call, FunctionRef};
use crate::package::Secrets;
use crate::protocol::plain::{from_plain, to_plain};
use crate::rpc::Kind;

/// The client binding that is asked where a server wants to know something from a person.
const ELICIT: &str = "elicit";

/// How often a server may ask before one call has its result. Past it: the call fails.
pub(super) const ROUNDS_MAX: usize = 10;

/// Calls a tool.
pub(super) async fn call_tool(
    package: &Arc<McpPackage>,
    tool: &MappedTool,
    mut input: Value,
    call: Call,
) -> Result<Value, BindingError> {
    let on_progress = take_progress(&mut input, tool, &call);
    let arguments = match to_plain(input) {
        Ok(Value::Object(fields)) => fields,
        Ok(Value::Null) => Map::new(),
        Ok(_) => return Err(BindingError::of_kind(Kind::InvalidInput, "expected an object of arguments")),
        Err(error) => return Err(BindingError::of_kind(Kind::InvalidInput, error.to_string())),
    };
    let params = json!({"name": tool.tool, "arguments": arguments});
    let result = request(package, "tools/call", params, on_progress, call).await?;
    value_of_call(&result, tool.is_structured)
}

/// The function that progress goes to; it is not sent to the server.
fn take_progress(input: &mut Value, tool: &MappedTool, call: &Call) -> Option<FunctionRef> {
    if !tool.takes_progress {
        return None;
    }
    let value = input.as_object_mut()?.shift_remove(ON_PROGRESS)?;
    call.function(&value)
}

/// Sends a request for a call, as often as the server asks back.
pub(super) async fn request(
    package: &Arc<McpPackage>,
    method: &str,
    mut params: Value,
    on_progress: Option<FunctionRef>,
    call: Call,
) -> Result<Value, BindingError> {
    let mut in_flight = package.begin()?;
    let (events_tx, events_rx) = mpsc::channel(CALL_EVENTS_MAX);
    let session = session_of(&call);
    let connection = Arc::clone(&in_flight.connection);
    let asking = async {
        for _ in 0..ROUNDS_MAX {
            let tag = CallTag { session: Arc::clone(&session), events_tx: events_tx.clone() };
            let result = connection.request(method, params.clone(), Some(tag)).await;
            let result = result.map_err(|error| package.error(&error, &connection))?;
            match result.get("resultType").and_then(Value::as_str) {
                Some("input_required") => answer_inputs(&mut params, &result, &call).await,
                Some("task") => {
                    return Err(BindingError::of_kind(
                        Kind::InvalidOutput,
                        "the server answered with a task",
                    ));
                }
                _ => return Ok(result),
            }
        }
        Err(BindingError::of_kind(
            Kind::InvalidOutput,
            format!("the server asked {ROUNDS_MAX} times for input"),
        ))
    };
    let listener = EventListener { on_progress, call: &call, secrets: &package.secrets };
    let result = with_events(asking, events_rx, &listener).await;
    in_flight.is_answered = true;
    result
}

/// Waits for the result while events of the call are served. Progress that came before the result is reported first.
async fn with_events<T>(
    asking: impl Future<Output = T>,
    mut events_rx: mpsc::Receiver<CallEvent>,
    listener: &EventListener<'_>,
) -> T {
    let mut asking = std::pin::pin!(asking);
    let mut result = None;
    while result.is_none() {
        let event = tokio::select! {
            biased;
            done = &mut asking => { result = Some(done); None }
            event = events_rx.recv() => event,
        };
        let Some(event) = event else { continue };
        let mut serving = std::pin::pin!(listener.serve(event));
        // The result may come while a script or a person takes its time; it is kept until they are done.
        tokio::select! {
            () = &mut serving => {}
            done = &mut asking, if result.is_none() => {
                result = Some(done);
                serving.await;
            }
        }
    }
    while let Ok(event) = events_rx.try_recv() {
        listener.serve(event).await;
    }
    match result {
        Some(result) => result,
        // The loop ends with a result only.
        None => asking.await,
    }
}

/// Where the events of one call go.
struct EventListener<'a> {
    on_progress: Option<FunctionRef>,
    call: &'a Call,
    secrets: &'a Secrets,
}

impl EventListener<'_> {
    async fn serve(&self, event: CallEvent) {
        match (event, &self.on_progress) {
            (CallEvent::Progress(progress), Some(function)) => {
                let mut progress = reported(&progress);
                self.secrets.redact_value(&mut progress);
                // What the script's function throws is the script's concern, and no reason to lose the result.
                let _ = function.call(vec![from_plain(progress)], self.call.depth).await;
            }
            (CallEvent::Progress(_), None) => {}
            (CallEvent::Elicit { mut params, reply_tx }, _) => {
                self.secrets.redact_value(&mut params);
                // The server may have withdrawn its question.
                let _ = reply_tx.send(elicit(params, self.call).await);
            }
        }
    }
}

/// The members of a progress notification that are for the script.
fn reported(progress: &Value) -> Value {
    let fields = ["progress", "total", "message"].into_iter();
    let stated = fields.filter_map(|name| Some((name.to_owned(), progress.get(name)?.clone())));
    stated.collect::<Map<_, _>>().into()
}

/// Asks the client. One that has no such binding, or fails, declines.
async fn elicit(mut params: Value, call: &Call) -> Value {
    if let Some(fields) = params.as_object_mut() {
        fields.remove("_meta");
    }
    let answer = call.invoke(ELICIT, from_plain(params)).await;
    let answer = answer.ok().and_then(|answer| to_plain(answer).ok()).unwrap_or_default();
    let is_action = |action: &str| ["accept", "decline", "cancel"].contains(&action);
    match answer.get("action").and_then(Value::as_str).filter(|action| is_action(action)) {
        Some(action) => match answer.get("content") {
            Some(content) if action == "accept" => json!({"action": action, "content": content}),
            Some(_) | None => json!({"action": action}),
        },
        None => json!({"action": "decline"}),
    }
}

/// Answers the questions of a result that is not complete, for the next round.
async fn answer_inputs(params: &mut Value, result: &Value, call: &Call) {
    let mut answers = Map::new();
    for (key, request) in result.get("inputRequests").and_then(Value::as_object).into_iter().flatten() {
        let method = request.get("method").and_then(Value::as_str);
        let asked = request.get("params").cloned().unwrap_or_default();
        match method {
            Some("elicitation/create") => {
                answers.insert(key.clone(), elicit(asked, call).await);
            }
            Some("roots/list") => {
                answers.insert(key.clone(), json!({"roots": []}));
            }
            // Sampling is refused: the next round goes without it.
            Some(_) | None => {}
        }
    }
    if let Some(params) = params.as_object_mut() {
        params.insert("inputResponses".to_owned(), Value::Object(answers));
        match result.get("requestState") {
            Some(state) => params.insert("requestState".to_owned(), state.clone()),
            None => params.shift_remove("requestState"),
        };
    }
}
