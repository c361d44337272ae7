//! Evals: their order, their limits, their answers and what they print.

use super::*;

#[test]
fn evals_answer_in_the_order_received() {
    let mut f = Fixture::attached();
    for id in 1..=3 {
        f.eval(1, id, &format!("code {id}"));
    }
    for id in 1..=3 {
        assert_eq!(f.begin(), format!("Eval({id}): eval code {id}"));
        f.end_ok(json!(id));
    }
    let answers: Vec<String> = (1..=3).map(|id| format!(r#"1: answer {id} {{"value":{id}}}"#)).collect();
    assert_eq!(f.lines(), answers);
    assert_eq!((f.session.state.evals.done, f.begin().as_str()), (3, "nothing"));
}

#[test]
fn eval_waits_behind_an_eval_that_awaits() {
    let mut f = Fixture::attached();
    f.eval(1, 1, "a");
    f.eval(1, 2, "b");
    f.begin_eval_with_calls(&["tool"]);
    assert_eq!(f.begin(), "nothing");
    f.answer(1, 1, json!("x"));
    assert_eq!(f.begin(), r#"Eval(1): settle 1="x""#);
    f.end_ok(json!(1));
    assert_eq!(f.begin(), "Eval(2): eval b");
}

#[test]
fn queue_past_its_limit_is_full() {
    let mut f = Fixture::attached_with(|limits| limits.queued_evals_max = 2);
    for id in 1..=3 {
        f.eval(1, id, "a");
    }
    assert_eq!(f.lines(), ["1: answer 3 QueueFull"]);
    f.run_eval(json!(1));
    f.eval(1, 4, "a");
    assert_eq!(f.lines(), [r#"1: answer 1 {"value":1}"#]);
}

#[test]
fn queue_past_its_bytes_is_full() {
    let mut f = Fixture::attached_with(|limits| limits.connection_bytes_max = 4);
    f.eval(1, 1, "123456789");
    f.eval(1, 2, "1");
    assert_eq!(f.lines(), ["1: answer 2 QueueFull"]);
}

#[test]
fn wall_clock_over_ends_the_eval() {
    let mut f = Fixture::attached_with(|limits| limits.wall_ms_max = 1_000);
    f.eval(1, 1, "a");
    f.begin_eval_with_calls(&["tool"]);
    assert_eq!(f.session.wake_at(f.now), Some(f.now + Duration::from_secs(1)));
    f.wait(999);
    assert_eq!(f.lines(), ["1: call 1 tool 1"]);
    f.wait(1);
    assert_eq!(f.lines(), ["1: give up 1", "1: answer 1 Timeout"]);
    assert_eq!(f.freed(), [1, 2]);
}

#[test]
fn wall_clock_over_in_a_turn_asks_it_to_stop() {
    let mut f = Fixture::attached_with(|limits| limits.wall_ms_max = 1_000);
    f.eval(1, 1, "a");
    f.begin();
    f.wait(999);
    assert!(f.stops().is_empty());
    f.wait(1);
    assert_eq!(f.stops(), [Stop::Wall]);
    f.end_stopped(Stop::Wall);
    assert_eq!(f.lines(), ["1: answer 1 Timeout"]);
}

#[test]
fn wall_clock_pauses_for_calls_with_their_own_time() {
    for (name, is_paused) in [("slow", true), ("approve", true), ("tool", false)] {
        let mut f = Fixture::attached_with(|limits| limits.wall_ms_max = 1_000);
        f.eval(1, 1, "a");
        f.begin_eval_with_calls(&[name]);
        f.lines();
        f.wait(2_000);
        assert_eq!(f.lines().is_empty(), is_paused, "{name}");
        if is_paused {
            f.answer(1, 1, json!(1));
            f.begin();
            f.end();
            f.wait(999);
            assert!(f.lines().is_empty());
            f.wait(1);
            assert_eq!(f.lines(), ["1: answer 1 Timeout"]);
        }
    }
}

#[test]
fn client_limit_of_an_eval_counts_while_paused() {
    let mut f = Fixture::attached();
    let params = EvalParams { code: "a".into(), timeout_ms: Some(500), ..EvalParams::default() };
    f.eval_with(1, 1, params);
    f.begin_eval_with_calls(&["slow"]);
    f.wait(500);
    assert_eq!(f.lines(), ["1: call 1 slow 1", "1: give up 1", "1: answer 1 Timeout"]);
}

#[test]
fn eval_that_nothing_can_settle_is_deadlocked() {
    let mut f = Fixture::attached();
    f.eval(1, 1, "a");
    f.begin_eval_with_calls(&[]);
    assert!(f.session.end_deadlocked_eval());
    f.collect();
    assert_eq!(f.lines(), ["1: answer 1 Deadlock"]);
    assert!(!f.session.end_deadlocked_eval());
}

#[test]
fn eval_that_something_can_settle_is_not_deadlocked() {
    type Prepare = fn(&mut Fixture);
    let cases: [(&str, Prepare); 6] = [
        ("a call of the client", |f| {
            f.call_client("tool", json!(1));
        }),
        ("a call of the server", |f| {
            f.call_server(0);
        }),
        ("a timer", |f| {
            f.session.state.timers.set(1, f.now, ChargedTo::Eval(1));
        }),
        ("a function of the client's", |f| {
            f.export(RefHolder::Client, 1);
        }),
        ("a function of a handler's", |f| {
            f.export(RefHolder::Handler, 1);
        }),
        ("jobs", |f| {
            f.session.set_context(ContextFacts { has_jobs: true, ..ContextFacts::default() });
        }),
    ];
    for (name, prepare) in cases {
        let mut f = Fixture::attached();
        f.eval(1, 1, "a");
        f.begin();
        prepare(&mut f);
        f.end();
        assert!(!f.session.end_deadlocked_eval(), "{name}");
    }
}

#[test]
fn stopped_turn_answers_with_the_reason() {
    let cases = [(Stop::Cpu, "Timeout"), (Stop::Quota, "Timeout"), (Stop::Cancelled, "Cancelled")];
    for (reason, kind) in cases {
        let mut f = Fixture::attached();
        f.eval(1, 1, "a");
        f.begin();
        f.end_stopped(reason);
        assert_eq!(f.lines(), [format!("1: answer 1 {kind}")]);
    }
}

#[test]
fn eval_that_ends_in_its_stopped_turn_is_stopped() {
    let mut f = Fixture::attached();
    f.eval(1, 1, "a");
    f.begin();
    let exported = vec![f.export(RefHolder::Client, 1)];
    let outcome = Ok(Encoded::Text(raw(&json!(1))));
    let settled = vec![Settled { charged_to: ChargedTo::Eval(1), outcome, exported }];
    f.end_with(TurnReport { settled, stopped: Some(Stop::Cpu), ..TurnReport::default() });
    assert_eq!(f.lines(), ["1: answer 1 Timeout"]);
    assert_eq!(f.session.state.references.held_by(RefHolder::Client), 0);
}

#[test]
fn stats_count_cpu_time_calls_and_wall_time() {
    let mut f = Fixture::attached();
    let params = EvalParams { code: "a".into(), stats: true, ..EvalParams::default() };
    f.eval_with(1, 1, params);
    f.begin();
    f.call_client("tool", json!(1));
    let cpu = Duration::from_millis(3);
    f.end_with(TurnReport { cpu, ..TurnReport::default() });
    f.session.charge_check(Some(ChargedTo::Eval(1)), Duration::from_millis(1));
    f.wait(250);
    f.answer(1, 1, json!(1));
    let begun = f.session.next_turn(f.now).unwrap();
    assert_eq!((begun.spent, begun.budget), (Duration::from_millis(4), Duration::from_secs(5)));
    let outcome = Ok(Encoded::Text(raw(&json!(1))));
    let settled = vec![Settled { charged_to: ChargedTo::Eval(1), outcome, exported: Vec::new() }];
    f.end_with(TurnReport { settled, cpu: begun.spent, ..TurnReport::default() });
    let expected =
        r#"1: answer 1 {"value":1,"stats":{"cpuMs":4.0,"wallMs":250.0,"bindingCalls":1,"memoryBytes":0}}"#;
    assert_eq!(f.lines().last().map(String::as_str), Some(expected));
}

#[test]
fn console_lines_come_with_the_answer() {
    for (outcome, is_error) in [(Ok(json!(1)), false), (Err(Kind::EvalError), true)] {
        let mut f = Fixture::attached();
        f.eval(1, 1, "a");
        f.begin();
        f.print("x");
        f.end_settled(outcome, Vec::new());
        let answered = f.messages().into_iter().find_map(|message| match message {
            FromSession::Client { event: ToClient::Answered { outcome, .. }, .. } => Some(outcome),
            _ => None,
        });
        let outcome = answered.unwrap();
        let console = match &outcome {
            Ok(result) => serde_json::from_str::<Value>(result.get()).unwrap()["console"].clone(),
            Err(error) => error.data.as_ref().unwrap()["console"].clone(),
        };
        assert_eq!((console[0]["text"].clone(), outcome.is_err()), (json!("x"), is_error));
    }
}

#[test]
fn turn_that_could_not_begin_fails_its_eval() {
    let mut f = Fixture::attached();
    f.eval(1, 1, "a");
    f.begin();
    f.session.fail_turn("no stack");
    f.collect();
    assert_eq!((f.lines(), f.session.state.in_turn), (vec!["1: answer 1 Busy".to_owned()], None));
}

#[test]
fn timer_due_runs_for_its_eval_then_for_the_background() {
    let mut f = Fixture::attached();
    f.eval(1, 1, "a");
    f.begin();
    for (timer, ms) in [(1, 10), (2, 20)] {
        let at = f.now + Duration::from_millis(ms);
        f.session.state.timers.set(timer, at, ChargedTo::Eval(1));
    }
    f.end();
    assert_eq!(f.session.wake_at(f.now), Some(f.now + Duration::from_millis(10)));
    f.wait(10);
    assert_eq!(f.begin(), "Eval(1): timer 1");
    f.end_ok(json!(1));
    f.wait(10);
    assert_eq!(f.begin(), "Background: timer 2");
}

#[test]
fn background_budget_used_up_delays_timers_and_jobs() {
    let mut f = Fixture::attached_with(|limits| limits.background_cpu_ms_per_minute = 10);
    f.session.state.timers.set(1, f.now, ChargedTo::Background);
    f.session.state.background.charge(Duration::from_millis(10));
    f.session.set_context(ContextFacts { has_jobs: true, ..ContextFacts::default() });
    assert_eq!(f.begin(), "nothing");
    assert_eq!(f.session.wake_at(f.now), Some(Time::after_start(Duration::from_secs(60))));
    f.wait(60_000);
    assert_eq!(f.begin(), "Background: timer 1");
    f.end();
    assert_eq!(f.begin(), "Background: jobs");
}
