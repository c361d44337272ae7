//! Which answer goes to whom.

use proptest::prelude::*;

use super::*;

const AGENT: ConnectionId = ConnectionId(1);

fn waiting(requester: u64, message_id: &str, correlation_id: &str) -> Waiting {
    Waiting {
        requester: ConnectionId(requester),
        sender: format!("client-{requester}"),
        agent: "coder".to_owned(),
        message_id: message_id.to_owned(),
        session_id: None,
        correlation_id: correlation_id.to_owned(),
        expires_ms: 1000,
    }
}

#[test]
fn questions_with_one_id_are_answered_in_their_order() {
    let mut correlations = Correlations::default();
    correlations.open(AGENT, waiting(2, "m1", "same"));
    correlations.open(AGENT, waiting(3, "m2", "same"));
    let mut settle = || correlations.settle(AGENT, "same", None, None).map(|found| found.message_id);
    assert_eq!(settle().as_deref(), Some("m1"));
    assert_eq!(settle().as_deref(), Some("m2"));
    assert_eq!(settle(), None);
    assert!(correlations.is_empty());
}

#[test]
fn an_answer_that_says_what_it_answers_is_matched_by_that() {
    let mut correlations = Correlations::default();
    for (requester, id) in [(2, "m1"), (3, "m2"), (4, "m3")] {
        correlations.open(AGENT, waiting(requester, id, "same"));
    }
    let by_parent = correlations.settle(AGENT, "same", Some("m2"), None).unwrap();
    assert_eq!(by_parent.message_id, "m2");
    let mut settle = |name, holder| {
        let to = Some(Address { name, holder });
        correlations.settle(AGENT, "same", Some("unknown"), to).map(|found| found.message_id)
    };
    assert_eq!(settle("client-4", Some(ConnectionId(5))), None, "another one's name by now");
    assert_eq!(settle("client-4", Some(ConnectionId(4))).as_deref(), Some("m3"));
    assert_eq!(settle("somebody", None), None);
    assert_eq!(settle("client-2", None).as_deref(), Some("m1"));
}

#[test]
fn only_the_agent_that_was_asked_answers() {
    let mut correlations = Correlations::default();
    correlations.open(AGENT, waiting(2, "m1", "c"));
    assert_eq!(correlations.settle(ConnectionId(5), "c", None, None), None);
    assert_eq!(correlations.settle(AGENT, "other", None, None), None);
}

#[test]
fn those_who_wait_are_told_apart_by_time_agent_and_requester() {
    let mut correlations = Correlations::default();
    correlations.open(AGENT, waiting(2, "m1", "a"));
    correlations.open(AGENT, Waiting { expires_ms: 5, ..waiting(3, "m2", "b") });
    correlations.open(AGENT, Waiting { agent: "dreamer".to_owned(), ..waiting(4, "m3", "c") });
    let ids = |found: Vec<Waiting>| found.into_iter().map(|found| found.message_id).collect::<Vec<_>>();
    assert_eq!(ids(correlations.expire(5)), ["m2"]);
    assert_eq!(ids(correlations.abandon(AGENT, "dreamer")), ["m3"]);
    correlations.forget(ConnectionId(2));
    assert!(correlations.is_empty());
}

#[test]
fn an_agent_that_owes_too_much_is_asked_no_more() {
    let mut correlations = Correlations::default();
    for number in 0..ANSWERS_OWED_MAX {
        assert!(correlations.has_room(AGENT));
        correlations.open(AGENT, waiting(2, &number.to_string(), &number.to_string()));
    }
    assert!(!correlations.has_room(AGENT));
    correlations.settle(AGENT, "0", None, None);
    assert!(correlations.has_room(AGENT));
}

proptest! {
    /// Against a plain list: nobody is answered twice, nobody in another's place.
    #[test]
    fn nobody_is_answered_twice(steps in proptest::collection::vec((0..2_u64, 0..3_u64, 0..3_u64, any::<bool>()), 0..60)) {
        let mut correlations = Correlations::default();
        let mut list: Vec<(u64, Waiting)> = Vec::new();
        for (number, (at, correlation, requester, asks)) in steps.into_iter().enumerate() {
            let id = correlation.to_string();
            if asks {
                let asked = waiting(requester, &number.to_string(), &id);
                correlations.open(ConnectionId(at), asked.clone());
                list.push((at, asked));
            } else {
                let place = list.iter().position(|(here, waiting)| *here == at && waiting.correlation_id == id);
                let expected = place.map(|place| list.remove(place).1);
                prop_assert_eq!(correlations.settle(ConnectionId(at), &id, None, None), expected);
            }
        }
        prop_assert_eq!(correlations.is_empty(), list.is_empty());
    }
}
