//! Every message survives its way through JSON.
//!
//! The generators stand in the same list as the variants, and a match over that list has no other arm: a new variant
//! without a generator does not compile.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::*;
use crate::protocol::methods::{EvalParams, Target};
use crate::quota::Resource;
use crate::rpc::{Id, Kind};
use crate::session::tests::support::catalog;

/// Defines the strategies of an enum by variant, and a function that names the variant of a value.
macro_rules! variants {
    ($strategies:ident, $name_of:ident, $type:ident { $($variant:ident => $strategy:expr,)* }) => {
        fn $strategies() -> Vec<(&'static str, BoxedStrategy<$type>)> {
            vec![$((stringify!($variant), $strategy.boxed()),)*]
        }

        fn $name_of(value: &$type) -> &'static str {
            match value { $($type::$variant { .. } => stringify!($variant),)* }
        }
    };
}

/// One of all variants.
fn any_of<T: std::fmt::Debug + 'static>(strategies: Vec<(&str, BoxedStrategy<T>)>) -> BoxedStrategy<T> {
    proptest::strategy::Union::new(strategies.into_iter().map(|(_, strategy)| strategy)).boxed()
}

fn text() -> BoxedStrategy<String> {
    prop_oneof![Just(String::new()), "[a-z]{1,8}", Just("\"\\\u{0}\u{2028}𝄞".to_owned())].boxed()
}

fn value() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        Just(json!(0.5)),
        Just(json!({"$fn": "f7"})),
        text().prop_map(Value::from),
    ];
    let nested = leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            vec((text(), inner), 0..3).prop_map(|fields| fields.into_iter().collect::<Value>()),
        ]
    });
    nested.boxed()
}

fn raw() -> BoxedStrategy<Box<RawValue>> {
    let spaced = Just(RawValue::from_string(r#"{"a": [1,  2.50, 1e400]}"#.to_owned()).unwrap());
    prop_oneof![value().prop_map(|value| to_raw_value(&value).unwrap()), spaced].boxed()
}

fn error() -> BoxedStrategy<ErrorObject> {
    let own = text().prop_map(|message| ErrorObject::new(Kind::Timeout, message).with("quota", "cpu"));
    let foreign = (any::<i64>(), text(), option::of(value())).prop_map(|(code, message, data)| {
        // `null` stands for no data, as in every answer of a client.
        ErrorObject { code, message, data: data.filter(|data| !data.is_null()) }
    });
    prop_oneof![own, foreign].boxed()
}

fn outcome<T: std::fmt::Debug + Clone + 'static>(
    ok: BoxedStrategy<T>,
) -> BoxedStrategy<Result<T, ErrorObject>> {
    prop_oneof![ok.prop_map(Ok), error().prop_map(Err)].boxed()
}

fn id() -> BoxedStrategy<Id> {
    prop_oneof![
        any::<u64>().prop_map(Id::Number),
        Just(Id::Digits("-5".into())),
        Just(Id::Digits("123456789012345678901234567890".into())),
        text().prop_map(|text| Id::Text(text.into())),
    ]
    .boxed()
}

fn duration() -> BoxedStrategy<Duration> {
    (any::<u64>(), 0..1_000_000_000_u32).prop_map(|(seconds, nanos)| Duration::new(seconds, nanos)).boxed()
}

fn quota() -> BoxedStrategy<QuotaExceeded> {
    let resource = prop_oneof![
        Just(Resource::Sessions),
        Just(Resource::QueuedEvals),
        Just(Resource::Cpu),
        Just(Resource::Memory),
        Just(Resource::Messages),
    ];
    (resource, duration()).prop_map(|(resource, retry_after)| QuotaExceeded { resource, retry_after }).boxed()
}

fn bindings() -> BoxedStrategy<Arc<Catalog>> {
    let names: [&[&str]; 4] = [&[], &["tool"], &["count#", "slow:5000"], &["a.b", "approve"]];
    (0..names.len()).prop_map(move |at| catalog(0, names[at])).boxed()
}

fn server_bindings() -> BoxedStrategy<Arc<Catalog>> {
    (1..9_u64).prop_map(|version| catalog(version, &["echo", "kv.get#", "kv.set:10"])).boxed()
}

fn eval_params() -> BoxedStrategy<EvalParams> {
    let flags = (any::<bool>(), any::<bool>());
    (text(), option::of(any::<u64>()), option::of(text()), option::of(text()), flags)
        .prop_map(|(code, timeout_ms, name, key, (fresh, stats))| EvalParams {
            code,
            timeout_ms,
            name,
            fresh,
            stats,
            key,
        })
        .boxed()
}

fn admission() -> BoxedStrategy<Admission> {
    (option::of(quota()), option::of(quota()), any::<bool>())
        .prop_map(|(cpu, queue, has_slot)| Admission { cpu, queue, has_slot })
        .boxed()
}

variants!(targets, target_name, Target {
    Binding => text().prop_map(Target::Binding),
    Reference => text().prop_map(Target::Reference),
});

variants!(payloads, payload_name, Payload {
    Input => value().prop_map(Payload::Input),
    Args => vec(value(), 0..3).prop_map(Payload::Args),
});

variants!(raw_payloads, raw_payload_name, RawPayload {
    Input => raw().prop_map(RawPayload::Input),
    Args => raw().prop_map(RawPayload::Args),
});

variants!(functions, function_name, FnRef {
    Script => any::<u64>().prop_map(FnRef::Script),
    Handler => any::<u64>().prop_map(FnRef::Handler),
    Client => (any::<u64>(), text()).prop_map(|(connection, id)| FnRef::Client { connection, id }),
});

variants!(closings, closing_name, Closing {
    ByClient => Just(Closing::ByClient),
    TakenOver => Just(Closing::TakenOver),
    GoingAway => Just(Closing::GoingAway),
    Fault => Just(Closing::Fault),
});

variants!(invoke_targets, invoke_target_name, InvokeTarget {
    Binding => text().prop_map(InvokeTarget::Binding),
    Function => any_of(functions()).prop_map(InvokeTarget::Function),
});

variants!(commands, command_name, FromClient {
    Eval => (id(), eval_params()).prop_map(|(request, params)| FromClient::Eval { request, params }),
    Invoke => (id(), any_of(targets()), any_of(raw_payloads()))
        .prop_map(|(request, target, payload)| FromClient::Invoke { request, target, payload }),
    Answer => (any::<u64>(), outcome(raw()))
        .prop_map(|(call, outcome)| FromClient::Answer { call, outcome }),
    Release => (text(), any::<u64>())
        .prop_map(|(reference, count)| FromClient::Release { reference, count }),
});

variants!(events, event_name, ToClient {
    Answered => (id(), outcome(raw()))
        .prop_map(|(request, outcome)| ToClient::Answered { request, outcome }),
    Call => (any::<u64>(), any_of(targets()), any_of(payloads()))
        .prop_map(|(call, target, payload)| ToClient::Call { call, target, payload }),
    GiveUp => any::<u64>().prop_map(|call| ToClient::GiveUp { call }),
    Release => (text(), any::<u64>()).prop_map(|(reference, count)| ToClient::Release { reference, count }),
    Close => any_of(closings()).prop_map(ToClient::Close),
});

variants!(handler_targets, handler_target_name, HandlerTarget {
    Binding => any::<u32>().prop_map(HandlerTarget::Binding),
    Function => any::<u64>().prop_map(HandlerTarget::Function),
    Describe => (server_bindings(), bindings(), option::of(text()))
        .prop_map(|(server, client, query)| HandlerTarget::Describe { server, client, query }),
    DescribeNames => (server_bindings(), bindings(), vec(text(), 0..3), any::<bool>()).prop_map(
        |(server, client, names, is_brief)| HandlerTarget::DescribeNames { server, client, names, is_brief }
    ),
});

variants!(handler_inputs, handler_input_name, HandlerInput {
    Value => (value(), vec(any_of(functions()), 0..3))
        .prop_map(|(value, functions)| HandlerInput::Value { value, functions }),
    Text => (any_of(raw_payloads()), any::<u64>(), any::<u64>())
        .prop_map(|(payload, connection, charge)| HandlerInput::Text { payload, connection, charge }),
});

fn handler_call() -> BoxedStrategy<HandlerCall> {
    let of_eval = (option::of(any::<u64>()), option::of(value()), option::of(any::<u64>()));
    (any::<u64>(), any_of(handler_targets()), any_of(handler_inputs()), any::<u32>(), of_eval)
        .prop_map(|(number, target, input, depth, (eval, eval_id, script_call))| {
            // `null` stands for no eval.
            let eval_id = eval_id.filter(|id| !id.is_null());
            HandlerCall { number, target, input, depth, eval, eval_id, script_call }
        })
        .boxed()
}

variants!(observations, observation_name, Observation {
    EvalFinished => (any::<u64>(), option::of(error()), duration())
        .prop_map(|(number, error, took)| Observation::EvalFinished { number, error, took }),
    ClientCalled => option::of(error()).prop_map(|error| Observation::ClientCalled { error }),
    Levels => any::<[usize; 2]>()
        .prop_map(|[references, evals_queued]| Observation::Levels { references, evals_queued }),
    Refused => text().prop_map(|reason| Observation::Refused { reason }),
    Hibernated => any::<u64>().prop_map(|bytes| Observation::Hibernated { bytes }),
    Woken => option::of(duration()).prop_map(|took| Observation::Woken { took }),
});

fn info() -> BoxedStrategy<SessionInfo> {
    (any::<bool>(), any::<[u64; 3]>(), any::<[usize; 5]>())
        .prop_map(|(running, [evals_done, memory_bytes, cpu_ms], counts)| {
            let [evals_queued, calls_in_flight, timers, functions_held, functions_imported] = counts;
            SessionInfo {
                running,
                evals_queued,
                evals_done,
                memory_bytes,
                cpu_ms,
                calls_in_flight,
                timers,
                functions_held,
                functions_imported,
            }
        })
        .boxed()
}

variants!(to_session, to_session_name, ToSession {
    Attach => (any::<u64>(), bindings(), server_bindings(), any::<usize>()).prop_map(
        |(connection, bindings, listed, schema_bytes)| {
            ToSession::Attach { connection, bindings, listed, schema_bytes }
        }
    ),
    Stalled => any::<u64>().prop_map(|connection| ToSession::Stalled { connection }),
    Detach => any::<u64>().prop_map(|connection| ToSession::Detach { connection }),
    Client => (any::<u64>(), any_of(commands()), any::<u64>(), admission()).prop_map(
        |(connection, command, charge, admission)| ToSession::Client { connection, command, charge, admission }
    ),
    HandlerDone => (any::<u64>(), outcome(value()))
        .prop_map(|(number, outcome)| ToSession::HandlerDone { number, outcome }),
    HandlerInvoke => (
        any::<u64>(), any_of(invoke_targets()), any_of(payloads()), any::<u32>(), option::of(any::<u64>())
    ).prop_map(|(request, target, payload, depth, script_call)| {
        ToSession::HandlerInvoke { request, target, payload, depth, script_call }
    }),
    HandlerCancel => any::<u64>().prop_map(|request| ToSession::HandlerCancel { request }),
    HandlerRelease => (any_of(functions()), any::<u64>())
        .prop_map(|(function, count)| ToSession::HandlerRelease { function, count }),
    Catalog => server_bindings().prop_map(ToSession::Catalog),
    CpuQuota => (quota(), any::<bool>())
        .prop_map(|(exceeded, is_overdrawn)| ToSession::CpuQuota { exceeded, is_overdrawn }),
    Inspect => any::<u64>().prop_map(|request| ToSession::Inspect { request }),
    Forked => (any::<u64>(), outcome(value()))
        .prop_map(|(request, outcome)| ToSession::Forked { request, outcome }),
    Suspend => Just(ToSession::Suspend),
    End => any_of(closings()).prop_map(ToSession::End),
});

variants!(from_session, from_session_name, FromSession {
    Attached => (any::<u64>(), any::<usize>())
        .prop_map(|(connection, evals_queued)| FromSession::Attached { connection, evals_queued }),
    Client => (any::<u64>(), any_of(events()))
        .prop_map(|(connection, event)| FromSession::Client { connection, event }),
    CallHandler => handler_call().prop_map(FromSession::CallHandler),
    CancelHandler => any::<u64>().prop_map(|number| FromSession::CancelHandler { number }),
    HandlerAnswered => (any::<u64>(), outcome(value()))
        .prop_map(|(request, outcome)| FromSession::HandlerAnswered { request, outcome }),
    ReleaseFunctions => vec(any::<u64>(), 0..4).prop_map(FromSession::ReleaseFunctions),
    Discharge => (any::<u64>(), any::<bool>())
        .prop_map(|(charge, is_open)| FromSession::Discharge { charge, is_open }),
    Dequeued => any::<u64>().prop_map(|charge| FromSession::Dequeued { charge }),
    Used => (duration(), any::<u32>()).prop_map(|(cpu, slices)| FromSession::Used { cpu, slices }),
    Observed => any_of(observations()).prop_map(FromSession::Observed),
    Info => (any::<u64>(), info()).prop_map(|(request, info)| FromSession::Info { request, info }),
    Suspended => option::of(any::<u64>()).prop_map(|connection| FromSession::Suspended { connection }),
    Ended => (option::of(any::<u64>()), any_of(closings()))
        .prop_map(|(connection, closing)| FromSession::Ended { connection, closing }),
});

/// The message after its way through JSON, which must not have changed it.
fn round_trip<T: Serialize + DeserializeOwned + std::fmt::Debug>(message: &T) -> T {
    let text = serde_json::to_string(message).unwrap();
    let read: T = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
    let (before, after) = (format!("{message:?}"), format!("{read:?}"));
    // The text of a catalog is all that it is made from; what is compiled has no order.
    assert!(before == after || before.contains("Catalog {"), "{before} became {after}");
    read
}

/// Runs `check` on values of every variant.
fn for_every_variant<T: std::fmt::Debug>(
    strategies: Vec<(&'static str, BoxedStrategy<T>)>,
    check: impl Fn(&'static str, &T),
) {
    for (name, strategy) in strategies {
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(64));
        let checked = runner.run(&strategy, |value| {
            check(name, &value);
            Ok(())
        });
        checked.unwrap_or_else(|failure| panic!("{name}: {failure}"));
    }
}

#[test]
fn to_session_of_every_variant_round_trips() {
    for_every_variant(to_session(), |name, message| {
        assert_eq!(to_session_name(message), name);
        round_trip(message);
    });
}

#[test]
fn from_session_of_every_variant_round_trips() {
    for_every_variant(from_session(), |name, message| {
        assert_eq!(from_session_name(message), name);
        round_trip(message);
    });
}

#[test]
fn parts_of_every_variant_round_trip() {
    /// Checks one enum that is part of a message.
    macro_rules! check {
        ($($strategies:ident, $name_of:ident;)*) => {$(
            for_every_variant($strategies(), |name, part| {
                assert_eq!($name_of(part), name);
                round_trip(part);
            });
        )*};
    }
    check! {
        targets, target_name;
        payloads, payload_name;
        raw_payloads, raw_payload_name;
        functions, function_name;
        closings, closing_name;
        invoke_targets, invoke_target_name;
        commands, command_name;
        events, event_name;
        handler_targets, handler_target_name;
        handler_inputs, handler_input_name;
        observations, observation_name;
    }
}

#[test]
fn catalog_in_a_message_keeps_its_schemas_and_times() {
    let (bindings, listed) = (catalog(0, &["count#", "slow:5000", "approve"]), catalog(1, &["echo"]));
    let ToSession::Attach { bindings, .. } =
        round_trip(&ToSession::Attach { connection: 1, bindings, listed, schema_bytes: 0 })
    else {
        panic!("another variant")
    };
    let count = bindings.get("count").unwrap();
    assert!(count.input.is_some() && count.output.is_some());
    assert_eq!(bindings.get("slow").unwrap().timeout, Some(Duration::from_secs(5)));
    assert!(bindings.contains("approve") && !bindings.names().contains("approve"));
}
