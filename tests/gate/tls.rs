//! TLS on the listener, with a certificate made for the occasion.

use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use scomp::client::Client;
use scomp::server::settings::TlsSettings;
use scomp::server::{Tls, TlsError};
use scomp::transport::{MessageSizes, WebSocket, config};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::harness::{builder, exchange, start, status};

#[tokio::test]
async fn scomp_is_spoken_over_tls_and_plain_text_is_not() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let folder = std::env::temp_dir().join(format!("scomp-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let settings = TlsSettings { cert: folder.join("cert.pem"), key: folder.join("key.pem") };
    std::fs::write(&settings.cert, made.cert.pem()).unwrap();
    std::fs::write(&settings.key, made.signing_key.serialize_pem()).unwrap();
    let tls = Tls::load(&settings).unwrap();
    std::fs::remove_file(&settings.key).unwrap();
    assert!(matches!(Tls::load(&settings), Err(TlsError::File { .. })));
    std::fs::remove_dir_all(&folder).unwrap();

    let (_server, address) = start(builder().tls(tls)).await;
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client_config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(client_config));
    let dial = async || {
        let stream = TcpStream::connect(address).await.unwrap();
        connector.connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap()
    };
    let answer = exchange(dial().await, "/healthz", "Host: localhost\r\n").await;
    assert_eq!(status(&answer), "200");

    let request = "wss://localhost/";
    let (socket, _) = tokio_tungstenite::client_async_with_config(
        request,
        dial().await,
        Some(config(MessageSizes::both(1 << 20))),
    )
    .await
    .unwrap();
    let client = Client::builder().connect_transport(WebSocket::new(socket)).await.unwrap();
    assert_eq!(client.eval("6 * 7").await.unwrap().value, 42);

    let plain = TcpStream::connect(address).await.unwrap();
    assert_ne!(status(&exchange(plain, "/healthz", "Host: localhost\r\n").await), "200");
}
