//! Sessions are opened, resumed and taken over.

use super::*;

#[tokio::test(flavor = "local")]
async fn session_of_another_host_is_opened_and_evaluates() {
    let directory = directory(SessionSettings::default());
    let mut client = Client::open(&directory, &principal("ann")).await;
    assert_eq!(client.eval(&directory, "1+1").await, "1+1");
    assert_eq!(client.result["metadata"]["session"]["resumed"], json!(false));
    assert_eq!(client.result["metadata"]["server"]["name"], json!("test"));
    assert!(client.result["metadata"].get("warnings").is_none());
    assert_eq!(recorded(&directory).await, [client.id()]);
    assert!(directory.is_idle().await);
}

#[tokio::test(flavor = "local")]
async fn record_of_a_session_names_its_owner_and_no_token() {
    let directory = directory(SessionSettings::default());
    let client = Client::open(&directory, &principal("ann")).await;
    let record = directory.table.find(client.id()).await.unwrap().unwrap();
    assert_eq!((&*record.principal, &*record.owner), ("ann", &*directory.owner));
    let text = serde_json::to_string(&record).unwrap();
    assert!(!text.contains(client.ticket()["token"].as_str().unwrap()), "{text}");
}

#[tokio::test(flavor = "local")]
async fn resume_takes_the_session_over_and_rotates_the_token() {
    let (directory, ann) = (directory(SessionSettings::default()), principal("ann"));
    let mut first = Client::open(&directory, &ann).await;
    let mut second = Client::connect(&directory, &ann, Some(first.ticket())).await.unwrap();
    assert_eq!(first.closing().await, Some(Closing::TakenOver));
    assert_eq!(second.result["metadata"]["session"]["resumed"], json!(true));
    assert_ne!(second.ticket(), first.ticket());
    // The first token is good until the client of the second connection has sent something.
    let mut third = Client::connect(&directory, &ann, Some(first.ticket())).await.unwrap();
    assert_eq!(second.closing().await, Some(Closing::TakenOver));
    assert_eq!(third.eval(&directory, "1").await, "1");
    for void in [&first, &second] {
        let refused = Client::connect(&directory, &ann, Some(void.ticket())).await;
        assert_eq!(kind(refused), "SessionRefused");
    }
    assert_eq!((directory.len(), third.lease.connection), (1, 3));
}

#[tokio::test(flavor = "local")]
async fn resume_needs_the_principal_and_a_good_token() {
    let (directory, ann) = (directory(SessionSettings::default()), principal("ann"));
    let client = Client::open(&directory, &ann).await;
    let wrong = [
        (principal("bob"), client.ticket()),
        (Arc::clone(&ann), json!({"id": client.id(), "token": ""})),
        (Arc::clone(&ann), json!({"id": "sess_1", "token": client.ticket()["token"]})),
    ];
    for (principal, ticket) in wrong {
        assert_eq!(kind(Client::connect(&directory, &principal, Some(ticket)).await), "SessionRefused");
    }
    assert!(Client::connect(&directory, &ann, Some(client.ticket())).await.is_ok());
}

#[tokio::test(flavor = "local")]
async fn release_by_an_old_connection_detaches_nothing() {
    let (directory, ann) = (directory(SessionSettings::default()), principal("ann"));
    let mut first = Client::open(&directory, &ann).await;
    first.eval(&directory, "1").await;
    let mut second = Client::connect(&directory, &ann, Some(first.ticket())).await.unwrap();
    directory.release(&first.lease).await;
    assert_eq!(second.eval(&directory, "2").await, "2");
    let listed = directory.list(usize::MAX).await;
    assert!(listed.len() == 1 && listed[0].connected, "{listed:?}");
    directory.release(&second.lease).await;
    let listed = directory.list(usize::MAX).await;
    assert!(listed.len() == 1 && !listed[0].connected && listed[0].info.is_some(), "{listed:?}");
}

#[tokio::test(flavor = "local")]
async fn new_session_past_a_limit_is_refused() {
    let settings = SessionSettings { sessions_max: 1, ..SessionSettings::default() };
    let (directory, ann) = (directory(settings), principal("ann"));
    let client = Client::open(&directory, &ann).await;
    assert_eq!(kind(Client::connect(&directory, &ann, None).await), "Busy");
    directory.release(&client.lease).await;
    let client = Client::open(&directory, &ann).await;
    directory.drain();
    assert!(Client::connect(&directory, &ann, Some(client.ticket())).await.is_ok());
    directory.release(&client.lease).await;
    assert_eq!(kind(Client::connect(&directory, &ann, None).await), "Busy");
}
