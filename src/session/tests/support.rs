//! What tests of the machine have in common: catalogs from a few words, and messages as short lines of text.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::catalog::Catalog;
use crate::protocol::client_messages::ToClient;
use crate::protocol::methods::{Payload, Target};
use crate::rpc::ErrorObject;
use crate::session::boundary::{FromSession, HandlerInput, HandlerTarget, Observation};
use crate::session::{BeginTurn, CallValue, Settlement, Work};

/// A catalog of bindings: `name`, `name:ms` for one with a time of its own, `name#` for one that takes and returns
/// integers. Version 0 is for clients.
pub(in crate::session) fn catalog(version: u64, bindings: &[&str]) -> Arc<Catalog> {
    thread_local! {
        // Compiled once: thousands of simulated clients declare the same.
        static MADE: RefCell<BTreeMap<(u64, String), Arc<Catalog>>> = RefCell::default();
    }
    let made = |made: &RefCell<BTreeMap<_, _>>| {
        let mut made = made.borrow_mut();
        Arc::clone(
            made.entry((version, bindings.join(" "))).or_insert_with(|| make_catalog(version, bindings)),
        )
    };
    MADE.with(made)
}

fn make_catalog(version: u64, bindings: &[&str]) -> Arc<Catalog> {
    let entry = |(number, text): (usize, &&str)| {
        let (name, timeout_ms) = match text.split_once(':') {
            Some((name, ms)) => (name, ms.parse::<u64>().ok()),
            None => (*text, None),
        };
        let timeout = timeout_ms.map(|ms| json!({"secs": ms / 1_000, "nanos": ms % 1_000 * 1_000_000}));
        let mut declaration = json!({"name": name.trim_end_matches('#')});
        if name.ends_with('#') {
            declaration["input"] = json!({"type": "integer"});
            declaration["output"] = json!({"type": "integer"});
        }
        json!({"number": number, "declaration": declaration, "timeout": timeout})
    };
    let entries: Vec<Value> = bindings.iter().enumerate().map(entry).collect();
    serde_json::from_value(json!({"version": version, "entries": entries})).map(Arc::new).unwrap()
}

fn kind_of(error: &ErrorObject) -> &str {
    error.kind().unwrap_or("unnamed")
}

fn outcome_of<T>(outcome: &Result<T, ErrorObject>, value: impl Fn(&T) -> String) -> String {
    match outcome {
        Ok(result) => value(result),
        Err(error) => kind_of(error).to_owned(),
    }
}

fn event(event: &ToClient) -> String {
    match event {
        ToClient::Answered { request, outcome } => {
            format!("answer {request} {}", outcome_of(outcome, |text| text.get().to_owned()))
        }
        ToClient::Call { call, target, payload } => {
            let (Target::Binding(name) | Target::Reference(name)) = target;
            let payload = match payload {
                Payload::Input(input) => input.to_string(),
                Payload::Args(arguments) => json!(arguments).to_string(),
            };
            format!("call {call} {name} {payload}")
        }
        ToClient::GiveUp { call } => format!("give up {call}"),
        ToClient::Release { reference, count } => format!("release {reference} {count}"),
        ToClient::Close(closing) => format!("close {closing:?}"),
    }
}

/// One line for a message of the session.
pub(in crate::session) fn line(message: &FromSession) -> String {
    match message {
        FromSession::Attached { connection, evals_queued } => format!("attached {connection} {evals_queued}"),
        FromSession::Client { connection, event: sent } => format!("{connection}: {}", event(sent)),
        FromSession::CallHandler(call) => {
            let target = match &call.target {
                HandlerTarget::Binding(number) => format!("binding {number}"),
                HandlerTarget::Function(number) => format!("function {number}"),
                HandlerTarget::Describe { query, .. } => format!("describe {query:?}"),
                HandlerTarget::DescribeNames { names, .. } => format!("describe {names:?}"),
            };
            let input = match &call.input {
                HandlerInput::Value { value, .. } => value.to_string(),
                HandlerInput::Text { payload, .. } => payload.text().to_owned(),
            };
            format!("handler {} {target} {input}", call.number)
        }
        FromSession::CancelHandler { number } => format!("cancel handler {number}"),
        FromSession::HandlerAnswered { request, outcome } => {
            format!("request {request} {}", outcome_of(outcome, Value::to_string))
        }
        FromSession::Suspended { connection } => format!("suspended {connection:?}"),
        FromSession::ReleaseFunctions(numbers) => format!("release functions {numbers:?}"),
        FromSession::Discharge { charge, is_open: true } => format!("drop text {charge}"),
        FromSession::Discharge { charge, is_open: false } => format!("discharge {charge}"),
        FromSession::Dequeued { charge } => format!("dequeued {charge}"),
        FromSession::Used { cpu, slices } => format!("used {} ms in {slices} slices", cpu.as_millis()),
        FromSession::Observed(observation) => match observation {
            Observation::EvalFinished { number, error, .. } => {
                format!("eval {number} {}", error.as_ref().map_or("done", kind_of))
            }
            Observation::ClientCalled { error } => {
                format!("called {}", error.as_ref().map_or("done", kind_of))
            }
            Observation::Levels { references, evals_queued } => {
                format!("levels {references} {evals_queued}")
            }
            Observation::Refused { reason } => format!("refused {reason}"),
            Observation::Hibernated { bytes } => format!("hibernated {bytes}"),
            Observation::Woken { .. } => "woken".to_owned(),
        },
        FromSession::Info { request, .. } => format!("info {request}"),
        FromSession::Ended { connection, closing } => format!("ended {closing:?} {connection:?}"),
    }
}

fn settlement(Settlement { call, outcome, .. }: &Settlement) -> String {
    let value = |value: &CallValue| match value {
        CallValue::Tree(value) => value.to_string(),
        CallValue::Text(text) => text.get().to_owned(),
    };
    format!("{call}={}", outcome_of(outcome, value))
}

/// One line for a turn.
pub(in crate::session) fn turn_line(begin: &BeginTurn) -> String {
    let work = match &begin.turn.work {
        Work::Eval(source) => format!("eval {}", source.code),
        Work::Call { function, .. } => format!("call root {}", function.0),
        Work::Settle(settlements) => {
            format!("settle {}", settlements.iter().map(settlement).collect::<Vec<_>>().join(" "))
        }
        Work::Timer(timer) => format!("timer {timer}"),
        Work::Jobs => "jobs".to_owned(),
        Work::Bindings => "bindings".to_owned(),
        Work::Recover(_) => "recover".to_owned(),
    };
    format!("{:?}: {work}", begin.turn.charged_to)
}
