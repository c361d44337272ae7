//! Every charge is discharged once, and every place in the queue of the principal is free again once.

use super::*;

/// How often each charge was discharged and dequeued, after the session has ended.
fn balance(mut f: Fixture) -> Vec<(usize, usize)> {
    f.send(ToSession::End(Closing::ByClient));
    f.session.finish(f.now);
    f.collect();
    let count = |wanted: &FromSession| f.sent.iter().filter(|sent| line(sent) == line(wanted)).count();
    (1..=f.last_charge)
        .map(|charge| {
            let discharged = count(&FromSession::Discharge { charge, is_open: false });
            (discharged, count(&FromSession::Dequeued { charge }))
        })
        .collect()
}

fn eval_with_slot(f: &mut Fixture, id: u64, key: Option<&str>) {
    let key = key.map(str::to_owned);
    let params = EvalParams { code: "a".into(), key, ..EvalParams::default() };
    let admission = Admission { has_slot: true, ..Admission::default() };
    f.command_with(1, FromClient::Eval { request: Id::from(id), params }, admission);
}

#[test]
fn slot_of_an_eval_is_free_once_whatever_becomes_of_it() {
    type Play = fn(&mut Fixture);
    let cases: [(&str, usize, Play); 7] = [
        ("it runs", 1, |f| f.run_eval(json!(1))),
        ("it waits", 1, |_| {}),
        ("it is cancelled", 1, |f| {
            f.invoke(1, 9, "session.cancel", json!({"evalId": 1}));
        }),
        ("the session is reset", 1, |f| {
            f.invoke(1, 9, "session.reset", json!({}));
        }),
        ("it is joined", 2, |f| eval_with_slot(f, 2, Some("k"))),
        ("it is sent again after its end", 2, |f| {
            f.run_eval(json!(1));
            eval_with_slot(f, 2, Some("k"));
        }),
        ("its connection is gone", 2, |f| {
            f.send(ToSession::Detach { connection: 1 });
            eval_with_slot(f, 2, Some("k"));
        }),
    ];
    for (name, evals, play) in cases {
        let mut f = Fixture::attached();
        eval_with_slot(&mut f, 1, Some("k"));
        play(&mut f);
        assert_eq!(balance(f)[..evals], vec![(1, 1); evals], "{name}");
    }
}

#[test]
fn refused_eval_with_a_slot_is_balanced() {
    let mut f = Fixture::attached_with(|limits| limits.queued_evals_max = 0);
    eval_with_slot(&mut f, 1, None);
    assert_eq!(balance(f), [(1, 1)]);
}

#[test]
fn answer_of_the_client_is_discharged_exactly_once() {
    type Play = fn(&mut Fixture);
    let cases: [(&str, Play); 6] = [
        ("it is settled", |f| {
            f.begin();
            f.end();
        }),
        ("it waits", |_| {}),
        ("it is being settled", |f| {
            f.begin();
        }),
        ("the session is reset", |f| {
            f.invoke(1, 9, "session.reset", json!({}));
            f.replace_context(true);
        }),
        ("it is the second one", |f| {
            f.answer(1, 1, json!(2));
        }),
        ("its turn fails", |f| {
            f.begin();
            f.session.fail_turn("no stack");
        }),
    ];
    for (name, play) in cases {
        let mut f = Fixture::attached();
        f.eval(1, 1, "a");
        f.begin_eval_with_calls(&["tool"]);
        f.answer(1, 1, json!(1));
        play(&mut f);
        let balance = balance(f);
        assert!(balance.iter().all(|discharged| *discharged == (1, 0)), "{name}: {balance:?}");
    }
}

#[test]
fn invokes_and_releases_are_discharged_once() {
    let mut f = Fixture::attached();
    f.invoke(1, 1, "echo", json!(1));
    f.invoke(1, 2, "echo", json!(1));
    f.send(ToSession::HandlerDone { number: 1, outcome: Ok(json!(1)) });
    f.invoke(1, 3, "nothing", json!(1));
    f.invoke(1, 4, "session.info", json!({}));
    f.export(RefHolder::Client, 1);
    f.invoke_function(1, 5, "f1");
    f.invoke_function(1, 6, "f9");
    f.command(1, FromClient::Release { reference: "f1".into(), count: 1 });
    assert_eq!(balance(f), [(1, 0); 7]);
}
