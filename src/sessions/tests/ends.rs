//! Sessions are released, expire, are evicted, lost and ended.

use super::host::{CLOSE, CRASH};
use super::*;

#[tokio::test(flavor = "local")]
async fn session_without_eval_ends_with_its_connection() {
    let (directory, ann) = (directory(SessionSettings::default()), principal("ann"));
    let client = Client::open(&directory, &ann).await;
    directory.release(&client.lease).await;
    assert!(directory.len() == 0 && recorded(&directory).await.is_empty());
    assert_eq!(kind(Client::connect(&directory, &ann, Some(client.ticket())).await), "SessionRefused");
    client.lease.link.inspect().await;
    assert!(client.lease.link.has_ended());
}

#[tokio::test(flavor = "local")]
async fn detached_session_is_resumed_in_time() {
    let (directory, ann) = (directory(SessionSettings::default()), principal("ann"));
    let ticket = leave_session(&directory, &ann).await;
    directory.expire().await;
    let mut client = Client::connect(&directory, &ann, Some(ticket)).await.unwrap();
    assert_eq!(client.eval(&directory, "2").await, "2");
}

#[tokio::test(flavor = "local")]
async fn detached_session_expires() {
    let settings = SessionSettings { ttl_ms: 0, ..SessionSettings::default() };
    let (directory, ann) = (directory(settings), principal("ann"));
    let attached = Client::open(&directory, &ann).await;
    let ticket = leave_session(&directory, &ann).await;
    assert_eq!(directory.len(), 2);
    assert_eq!(kind(Client::connect(&directory, &ann, Some(ticket)).await), "SessionRefused");
    directory.expire().await;
    assert_eq!(recorded(&directory).await, [attached.id()]);
    assert_eq!(directory.len(), 1);
}

#[tokio::test(flavor = "local")]
async fn oldest_detached_session_of_the_principal_is_evicted() {
    let settings = SessionSettings { detached_max: 4, ..SessionSettings::default() };
    let directory = directory(settings).shared_by(2);
    let (ann, bob) = (principal("ann"), principal("bob"));
    let bobs = leave_session(&directory, &bob).await;
    let mut anns = Vec::new();
    for _ in 0..3 {
        anns.push(leave_session(&directory, &ann).await);
    }
    assert_eq!(directory.len(), 3);
    assert_eq!(kind(Client::connect(&directory, &ann, Some(anns[0].clone())).await), "SessionRefused");
    for (principal, ticket) in [(&bob, bobs), (&ann, anns[1].clone()), (&ann, anns[2].clone())] {
        assert!(Client::connect(&directory, principal, Some(ticket)).await.is_ok());
    }
}

#[tokio::test(flavor = "local")]
async fn full_quota_ends_the_longest_detached_session_first() {
    let quotas = Quotas { sessions_max: Some(2), ..Quotas::default() };
    let ann = Arc::new(Principal::new("ann", Policy::default(), quotas));
    let (directory, bob) = (directory(SessionSettings::default()), principal("bob"));
    let bobs = leave_session(&directory, &bob).await;
    let (first, second) = (leave_session(&directory, &ann).await, leave_session(&directory, &ann).await);
    let _third = Client::open(&directory, &ann).await;
    assert_eq!(kind(Client::connect(&directory, &ann, Some(first)).await), "SessionRefused");
    let _second = Client::connect(&directory, &ann, Some(second)).await.unwrap();
    // Sessions that are in use do not give way, nor do those of others.
    assert_eq!(kind(Client::connect(&directory, &ann, None).await), "Busy");
    assert!(Client::connect(&directory, &bob, Some(bobs)).await.is_ok());
}

#[tokio::test(flavor = "local")]
async fn session_that_ended_is_gone_before_its_connection_knows() {
    let (directory, ann) = (directory(SessionSettings::default()), principal("ann"));
    let mut client = Client::open(&directory, &ann).await;
    client.send(&directory, CLOSE).await;
    assert_eq!(client.closing().await, Some(Closing::ByClient));
    assert_eq!(kind(Client::connect(&directory, &ann, Some(client.ticket())).await), "SessionRefused");
    directory.release(&client.lease).await;
    assert!(directory.len() == 0 && recorded(&directory).await.is_empty());
}

#[tokio::test(flavor = "local")]
async fn lost_session_is_over_for_its_connection() {
    let (directory, ann) = (directory(SessionSettings::default()), principal("ann"));
    let mut client = Client::open(&directory, &ann).await;
    client.eval(&directory, "1").await;
    client.send(&directory, CRASH).await;
    assert_eq!(client.closing().await, Some(Closing::Fault));
    assert_eq!(kind(Client::connect(&directory, &ann, Some(client.ticket())).await), "SessionRefused");
    directory.expire().await;
    assert!(directory.len() == 0 && recorded(&directory).await.is_empty());
}

#[tokio::test(flavor = "local")]
async fn sessions_of_a_lost_shard_keep_their_quota_slots() {
    let quotas = Quotas { sessions_max: Some(1), ..Quotas::default() };
    let ann = Arc::new(Principal::new("ann", Policy::default(), quotas));
    let directory = directory(SessionSettings::default());
    let ticket = leave_session(&directory, &ann).await;
    assert!(directory.forget_shard(SHARD + 1).is_empty());
    let slots = directory.forget_shard(SHARD);
    assert_eq!((slots.len(), directory.len()), (1, 0));
    assert_eq!(kind(Client::connect(&directory, &ann, Some(ticket)).await), "SessionRefused");
    assert!(directory.list(usize::MAX).await.is_empty());
    assert_eq!(kind(Client::connect(&directory, &ann, None).await), "Busy");
    drop(slots);
    directory.expire().await;
    assert!(recorded(&directory).await.is_empty());
    assert!(Client::connect(&directory, &ann, None).await.is_ok());
}

#[tokio::test(flavor = "local")]
async fn all_sessions_end_with_the_server() {
    let (directory, ann) = (directory(SessionSettings::default()), principal("ann"));
    let mut client = Client::open(&directory, &ann).await;
    leave_session(&directory, &ann).await;
    directory.end_all().await;
    assert_eq!(client.closing().await, Some(Closing::GoingAway));
    assert!(directory.len() == 0 && recorded(&directory).await.is_empty());
}
