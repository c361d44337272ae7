//! Requests to a real server on the loopback interface.

use std::net::SocketAddr;

use axum::Router;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::routing::any;
use serde_json::{Value, json};

use super::super::testing::run;
use super::*;
use crate::rpc::{ErrorObject, Kind};

async fn echo(method: Method, headers: HeaderMap, body: String) -> axum::response::Response<String> {
    let seen = json!({"method": method.as_str(), "authorization": headers.get("authorization").is_some(), "body": body});
    axum::response::Response::new(seen.to_string())
}

async fn start_server() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let redirect =
        |to: String, status: StatusCode| any(move || async move { (status, [(header::LOCATION, to)]) });
    let router = Router::new()
        .route("/echo", any(echo))
        .route("/see-other", redirect("/echo".to_owned(), StatusCode::SEE_OTHER))
        .route("/temporary", redirect("/echo".to_owned(), StatusCode::TEMPORARY_REDIRECT))
        .route(
            "/other-origin",
            redirect(format!("http://localhost:{}/echo", address.port()), StatusCode::FOUND),
        )
        .route("/away", redirect("http://example.com/".to_owned(), StatusCode::FOUND))
        .route("/loop", redirect("/loop".to_owned(), StatusCode::FOUND))
        .route("/bytes", any(|| async { vec![0xff_u8, 0xfe] }))
        .route("/long", any(|| async { "x".repeat(101) }))
        .route("/fits", any(|| async { "x".repeat(100) }))
        .route("/never", any(std::future::pending::<()>));
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

struct Site {
    address: SocketAddr,
    http: Handlers,
}

impl Site {
    async fn new(hosts: &[&str]) -> Self {
        let address = start_server().await;
        let hosts: Vec<String> = hosts.iter().map(|host| format!("{host}:{}", address.port())).collect();
        let config = json!({"hosts": hosts, "methods": ["GET", "POST"], "bytesMax": 100, "timeoutMs": 2000, "redirectsMax": 3});
        Self { address, http: handlers(&config).unwrap() }
    }

    async fn get(&self, host: &str, path: &str, more: Value) -> Result<Value, ErrorObject> {
        let mut input = json!({"url": format!("http://{host}:{}{path}", self.address.port())});
        for (key, value) in more.as_object().into_iter().flatten() {
            input[key] = value.clone();
        }
        run(&self.http, "http.request", input, "ada").await
    }
}

#[tokio::test]
async fn request_to_listed_host_returns_the_response() {
    let site = Site::new(&["127.0.0.1"]).await;
    let answer = site.get("127.0.0.1", "/echo", json!({"method": "post", "body": "hi"})).await.unwrap();
    assert_eq!((&answer["status"], &answer["bodyEncoding"]), (&json!(200), &json!("text")));
    let seen: Value = serde_json::from_str(answer["body"].as_str().unwrap()).unwrap();
    assert_eq!(seen, json!({"method": "POST", "authorization": false, "body": "hi"}));
    let bytes = site.get("127.0.0.1", "/bytes", json!({})).await.unwrap();
    assert_eq!((&bytes["body"], &bytes["bodyEncoding"]), (&json!("//4="), &json!("base64")));
    assert_eq!(site.get("127.0.0.1", "/none", json!({})).await.unwrap()["status"], json!(404));
}

#[tokio::test]
async fn unlisted_host_method_or_address_is_denied() {
    let site = Site::new(&["127.0.0.1"]).await;
    let denied = site.get("localhost", "/echo", json!({})).await.unwrap_err();
    assert!(denied.is(Kind::PermissionDenied) && denied.message.contains("allowed hosts"), "{denied:?}");
    let denied = site.get("127.0.0.1", "/echo", json!({"method": "DELETE"})).await.unwrap_err();
    assert!(denied.is(Kind::PermissionDenied) && denied.message.contains("DELETE"), "{denied:?}");
    let wide = Site::new(&["*"]).await;
    for host in ["localhost", "127.0.0.1", "[::1]"] {
        let denied = wide.get(host, "/echo", json!({})).await.unwrap_err();
        assert!(
            denied.is(Kind::PermissionDenied) && denied.message.contains("not a public address"),
            "{denied:?}"
        );
    }
}

#[tokio::test]
async fn redirects_are_followed_to_listed_hosts_only() {
    let site = Site::new(&["127.0.0.1", "localhost"]).await;
    let body = |answer: &Value| -> Value { serde_json::from_str(answer["body"].as_str().unwrap()).unwrap() };
    let post = json!({"method": "POST", "body": "hi", "headers": {"Authorization": "x"}});
    let other = site.get("127.0.0.1", "/see-other", post.clone()).await.unwrap();
    assert_eq!(body(&other), json!({"method": "GET", "authorization": true, "body": ""}));
    let same = site.get("127.0.0.1", "/temporary", post.clone()).await.unwrap();
    assert_eq!(body(&same), json!({"method": "POST", "authorization": true, "body": "hi"}));
    assert!(same["url"].as_str().unwrap().ends_with("/echo"));
    let cross_origin = site.get("127.0.0.1", "/other-origin", post).await.unwrap();
    assert_eq!(body(&cross_origin)["authorization"], json!(false));
    let away = site.get("127.0.0.1", "/away", json!({})).await.unwrap_err();
    assert!(away.is(Kind::PermissionDenied) && away.message.contains("example.com"), "{away:?}");
    let manual = site.get("127.0.0.1", "/away", json!({"redirect": "manual"})).await.unwrap();
    assert_eq!(
        (&manual["status"], &manual["headers"]["location"]),
        (&json!(302), &json!("http://example.com/"))
    );
    assert!(site.get("127.0.0.1", "/loop", json!({})).await.unwrap_err().message.contains("3 redirects"));
}

#[tokio::test]
async fn request_past_size_or_time_limit_fails() {
    let site = Site::new(&["127.0.0.1"]).await;
    assert!(site.get("127.0.0.1", "/fits", json!({})).await.is_ok());
    assert!(site.get("127.0.0.1", "/long", json!({})).await.unwrap_err().is(Kind::ResultTooLarge));
    let long = json!({"method": "POST", "body": "x".repeat(101)});
    assert!(site.get("127.0.0.1", "/echo", long).await.unwrap_err().is(Kind::InvalidInput));
    assert!(site.get("127.0.0.1", "/never", json!({})).await.unwrap_err().is(Kind::Timeout));
}

#[tokio::test]
async fn reserved_or_invalid_header_is_rejected() {
    let site = Site::new(&["127.0.0.1"]).await;
    for headers in [json!({"Host": "a.com"}), json!({"X-A": "a\r\nX-B: b"}), json!({"a b": "c"})] {
        let error = site.get("127.0.0.1", "/echo", json!({"headers": headers})).await.unwrap_err();
        assert!(error.is(Kind::InvalidInput), "{error:?}");
    }
}
