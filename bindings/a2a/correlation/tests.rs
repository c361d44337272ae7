//! Matching replies to waiters.

use proptest::prelude::*;

use super::*;

const AGENT: ConnectionId = ConnectionId(1);

fn waiter(requester: u64, message_id: &str, correlation_id: &str) -> ReplyWaiter {
    ReplyWaiter {
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
fn messages_with_one_correlation_are_matched_in_order() {
    let mut correlations = Correlations::default();
    correlations.add(AGENT, waiter(2, "m1", "same"));
    correlations.add(AGENT, waiter(3, "m2", "same"));
    let mut take = || correlations.take(AGENT, "same", None, None).map(|found| found.message_id);
    assert_eq!(take().as_deref(), Some("m1"));
    assert_eq!(take().as_deref(), Some("m2"));
    assert_eq!(take(), None);
    assert!(correlations.is_empty());
}

#[test]
fn reply_with_parent_or_address_is_matched_by_it() {
    let mut correlations = Correlations::default();
    for (requester, id) in [(2, "m1"), (3, "m2"), (4, "m3")] {
        correlations.add(AGENT, waiter(requester, id, "same"));
    }
    let by_parent = correlations.take(AGENT, "same", Some("m2"), None).unwrap();
    assert_eq!(by_parent.message_id, "m2");
    let mut take = |name, connection| {
        let to = Some(ReplyAddress { name, connection });
        correlations.take(AGENT, "same", Some("unknown"), to).map(|found| found.message_id)
    };
    assert_eq!(take("client-4", Some(ConnectionId(5))), None, "another connection has the name now");
    assert_eq!(take("client-4", Some(ConnectionId(4))).as_deref(), Some("m3"));
    assert_eq!(take("unknown", None), None);
    assert_eq!(take("client-2", None).as_deref(), Some("m1"));
}

#[test]
fn reply_of_another_connection_is_not_matched() {
    let mut correlations = Correlations::default();
    correlations.add(AGENT, waiter(2, "m1", "c"));
    assert_eq!(correlations.take(ConnectionId(5), "c", None, None), None);
    assert_eq!(correlations.take(AGENT, "other", None, None), None);
}

#[test]
fn waiters_are_taken_by_time_agent_and_requester() {
    let mut correlations = Correlations::default();
    correlations.add(AGENT, waiter(2, "m1", "a"));
    correlations.add(AGENT, ReplyWaiter { expires_ms: 5, ..waiter(3, "m2", "b") });
    correlations.add(AGENT, ReplyWaiter { agent: "dreamer".to_owned(), ..waiter(4, "m3", "c") });
    let ids = |found: Vec<ReplyWaiter>| found.into_iter().map(|found| found.message_id).collect::<Vec<_>>();
    assert_eq!(ids(correlations.take_expired(5)), ["m2"]);
    assert_eq!(ids(correlations.take_for_agent(AGENT, "dreamer")), ["m3"]);
    correlations.remove_requester(ConnectionId(2));
    assert!(correlations.is_empty());
}

#[test]
fn waiters_are_taken_in_the_order_of_their_ids() {
    let ids: Vec<String> = (10..26).map(|number| number.to_string()).collect();
    let mut correlations = Correlations::default();
    for id in ids.iter().rev() {
        correlations.add(AGENT, waiter(2, id, id));
    }
    let taken: Vec<_> = correlations.take_expired(1000).into_iter().map(|taken| taken.message_id).collect();
    assert_eq!(taken, ids);
}

#[test]
fn room_at_limit_returns_after_a_reply() {
    let mut correlations = Correlations::default();
    for number in 0..REPLIES_PER_AGENT_MAX {
        assert!(correlations.has_room(AGENT));
        correlations.add(AGENT, waiter(2, &number.to_string(), &number.to_string()));
    }
    assert!(!correlations.has_room(AGENT));
    correlations.take(AGENT, "0", None, None);
    assert!(correlations.has_room(AGENT));
}

proptest! {
    /// Compared with a plain list: each waiter is taken once, in order.
    #[test]
    fn each_waiter_is_taken_once(steps in proptest::collection::vec((0..2_u64, 0..3_u64, 0..3_u64, any::<bool>()), 0..60)) {
        let mut correlations = Correlations::default();
        let mut list: Vec<(u64, ReplyWaiter)> = Vec::new();
        for (number, (at, correlation, requester, is_request)) in steps.into_iter().enumerate() {
            let id = correlation.to_string();
            if is_request {
                let pending = waiter(requester, &number.to_string(), &id);
                correlations.add(ConnectionId(at), pending.clone());
                list.push((at, pending));
            } else {
                let position = list.iter().position(|(here, waiter)| *here == at && waiter.correlation_id == id);
                let expected = position.map(|position| list.remove(position).1);
                prop_assert_eq!(correlations.take(ConnectionId(at), &id, None, None), expected);
            }
        }
        prop_assert_eq!(correlations.is_empty(), list.is_empty());
    }
}
