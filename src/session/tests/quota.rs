//! Quotas of the principal, as the host reports them.

use super::*;
use crate::quota::{QuotaExceeded, Resource};

fn exceeded(resource: Resource) -> QuotaExceeded {
    QuotaExceeded { resource, retry_after: Duration::from_secs(2) }
}

fn params() -> EvalParams {
    EvalParams { code: "a".into(), ..EvalParams::default() }
}

#[test]
fn eval_over_a_quota_is_refused() {
    let cpu = || Admission { cpu: Some(exceeded(Resource::Cpu)), ..Admission::default() };
    let queue = || Admission { queue: Some(exceeded(Resource::QueuedEvals)), ..Admission::default() };
    let cases = [
        ("no CPU time", cpu(), false, true),
        ("a full queue and nothing before it", queue(), false, false),
        ("a full queue", queue(), true, true),
    ];
    for (name, admission, is_busy, is_refused) in cases {
        let mut f = Fixture::attached();
        if is_busy {
            f.eval(1, 1, "first");
        }
        let eval = FromClient::Eval { request: Id::from(2), params: params() };
        f.command_with(1, eval, admission);
        let expected: &[&str] = if is_refused { &["1: answer 2 Busy"] } else { &[] };
        assert_eq!(f.lines(), expected, "{name}");
    }
}

#[test]
fn quota_overdrawn_stops_the_running_turn_or_its_last_payer() {
    for in_turn in [true, false] {
        let mut f = Fixture::attached();
        f.eval(1, 1, "a");
        f.begin();
        f.call_client("tool", json!(1));
        if !in_turn {
            f.end();
        }
        f.lines();
        f.send(ToSession::CpuQuota { exceeded: exceeded(Resource::Cpu), is_overdrawn: true });
        if in_turn {
            assert_eq!(f.stops(), [Stop::Quota]);
            f.end_stopped(Stop::Quota);
        }
        let lines = f.lines();
        assert_eq!(lines.last().map(String::as_str), Some("1: answer 1 Timeout"), "{in_turn}");
    }
}

#[test]
fn quota_used_up_defers_work_that_no_eval_waits_for() {
    let mut f = Fixture::attached();
    f.eval(1, 1, "a");
    f.begin();
    f.call_client("tool", json!(1));
    f.end_ok(json!(1));
    f.send(ToSession::CpuQuota { exceeded: exceeded(Resource::Cpu), is_overdrawn: false });
    f.answer(1, 1, json!(5));
    assert_eq!(f.begin(), "nothing");
    assert_eq!(f.session.wake_at(f.now), Some(f.now + Duration::from_secs(2)));
    f.wait(2_000);
    assert_eq!(f.begin(), "Background: settle 1=5");
}

#[test]
fn quota_used_up_refuses_calls_into_the_script() {
    let mut f = Fixture::attached();
    f.export(RefHolder::Client, 1);
    let function = f.export(RefHolder::Handler, 1);
    f.send(ToSession::CpuQuota { exceeded: exceeded(Resource::Cpu), is_overdrawn: false });
    let target = InvokeTarget::Function(FnRef::Script(function));
    f.handler_invoke(1, target.clone(), None);
    let (reference, payload) = (Target::Reference("f1".into()), RawPayload::Args(raw(&json!([]))));
    let invoke = FromClient::Invoke { request: Id::from(2), target: reference, payload };
    let admission = Admission { cpu: Some(exceeded(Resource::Cpu)), ..Admission::default() };
    f.command_with(1, invoke, admission);
    assert_eq!(f.lines(), ["request 1 Busy", "1: answer 2 Busy"]);
    f.wait(2_000);
    f.handler_invoke(3, target, None);
    assert!(f.begin().contains("call root"));
}
