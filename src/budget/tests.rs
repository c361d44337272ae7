//! Tests of the budgets.

use super::*;
use futures_util::FutureExt as _;

const KIB: usize = 1 << 10;

fn budgets(server: usize, connection: usize) -> (Arc<ServerBudget>, Arc<ConnectionBudget>) {
    let server = ServerBudget::new(server);
    let connection = ConnectionBudget::new(&server, connection, 100 * KIB);
    (server, connection)
}

#[test]
fn connection_is_read_up_to_its_budget() {
    let (_, connection) = budgets(1 << 30, 10 * KIB);
    assert!(connection.may_read());
    let first = connection.charge(Purpose::Request, 10 * KIB - MESSAGE_OVERHEAD_BYTES - 1);
    assert!(connection.may_read(), "one byte is left");
    let second = connection.charge(Purpose::Request, 0);
    assert!(!connection.may_read());
    assert!(connection.wait_for_room().now_or_never().is_none());
    drop(first);
    assert!(connection.wait_for_room().now_or_never().is_some());
    drop(second);
    assert_eq!(connection.used(Purpose::Request), 0);
}

#[tokio::test]
async fn waiting_reader_is_woken_by_a_release() {
    let (_, connection) = budgets(1 << 30, KIB);
    let charge = connection.charge(Purpose::Request, 4 * KIB);
    let waiting = tokio::spawn({
        let connection = Arc::clone(&connection);
        async move { connection.wait_for_room().await }
    });
    tokio::task::yield_now().await;
    drop(charge);
    waiting.await.unwrap();
}

#[tokio::test]
async fn full_server_holds_back_only_large_connections() {
    let (server, big) = budgets(200 * KIB, 1 << 30);
    let (small, middle) = (
        ConnectionBudget::new(&server, 1 << 30, 100 * KIB),
        ConnectionBudget::new(&server, 1 << 30, 100 * KIB),
    );
    let charge = big.charge(Purpose::Request, 300 * KIB);
    let _small = small.charge(Purpose::Request, 10 * KIB);
    let _middle = middle.charge(Purpose::Request, 70 * KIB);
    assert!(!big.may_read() && !middle.may_read() && small.may_read());
    let waiting = tokio::spawn({
        let middle = Arc::clone(&middle);
        async move { middle.wait_for_room().await }
    });
    tokio::task::yield_now().await;
    drop(charge);
    waiting.await.unwrap();
    assert_eq!(server.used(Purpose::Request), 70 * KIB + MESSAGE_OVERHEAD_BYTES - UNCOUNTED_BYTES_MAX);
}

#[test]
fn answers_are_read_when_requests_use_up_their_budget() {
    let (_, connection) = budgets(1 << 30, 10 * KIB);
    let _requests = connection.charge(Purpose::Request, 20 * KIB);
    assert!(!connection.may_read());
    connection.set_awaits_answers(true);
    assert!(connection.may_read() && connection.is_over(Purpose::Request));
    let answer = connection.charge(Purpose::Answer, 20 * KIB);
    assert!(!connection.may_read(), "answers have a budget too");
    drop(answer);
    assert!(connection.may_read());
}

#[test]
fn server_counts_only_bytes_past_the_uncounted_part() {
    let (server, connection) = budgets(1 << 30, 1 << 30);
    let mut charges: Vec<Charge> = (0..20).map(|_| connection.charge(Purpose::Request, 10 * KIB)).collect();
    let used = 20 * (10 * KIB + MESSAGE_OVERHEAD_BYTES);
    assert_eq!(server.used(Purpose::Request), used - UNCOUNTED_BYTES_MAX);
    charges[0].release_text();
    assert_eq!(connection.used(Purpose::Request), used - 10 * KIB);
    charges.clear();
    assert_eq!((server.used(Purpose::Request), connection.used(Purpose::Request)), (0, 0));
}

#[test]
fn charge_outlives_its_connection() {
    let (server, connection) = budgets(1 << 30, 1 << 30);
    let charge = connection.charge(Purpose::Request, 100 * KIB);
    drop(connection);
    assert!(server.used(Purpose::Request) > 0);
    drop(charge);
    assert_eq!(server.used(Purpose::Request), 0);
}

#[test]
fn charge_grows_within_the_budget_or_when_alone() {
    let (_, connection) = budgets(1 << 30, 10 * KIB);
    let mut charge = connection.charge(Purpose::Request, KIB);
    assert!(charge.try_grow(20 * KIB), "alone");
    let mut second = connection.charge(Purpose::Request, 0);
    assert!(!second.try_grow(KIB));
    drop(charge);
    assert!(second.try_grow(KIB));
    drop(second);
    assert_eq!(connection.used(Purpose::Request), 0);
}

#[test]
fn large_message_needs_room_before_it_is_read_on() {
    let (server, first) = budgets(150 * KIB, 1 << 30);
    let second = ConnectionBudget::new(&server, 1 << 30, 100 * KIB);
    for connection in [&first, &second] {
        connection.add_partial(UNCOUNTED_BYTES_MAX);
        assert_eq!(connection.try_reserve(), Ok(()));
        connection.add_partial(1);
    }
    assert_eq!(first.try_reserve(), Ok(()));
    assert_eq!(server.used(Purpose::Request), 100 * KIB);
    assert_eq!(second.try_reserve(), Err(ReserveError::Full));
    assert!(second.is_held_back() && !first.is_held_back());
    second.set_awaits_answers(true);
    assert_eq!(second.try_reserve(), Ok(()), "what may be an answer has room of its own");
    first.end_partial();
    assert_eq!((server.used(Purpose::Request), server.used(Purpose::Answer)), (0, 100 * KIB));
    drop(second);
    assert_eq!(server.used(Purpose::Answer), 0);
}

#[test]
fn message_longer_than_the_budget_is_read_alone() {
    let (server, connection) = budgets(KIB, KIB);
    connection.add_partial(UNCOUNTED_BYTES_MAX + 1);
    assert_eq!(connection.try_reserve(), Ok(()));
    connection.end_partial();
    assert_eq!(server.used(Purpose::Request), 0);
}
