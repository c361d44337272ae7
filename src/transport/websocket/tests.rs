//! A dialled WebSocket against a bare one, over a real loopback socket.

use super::*;
use futures_util::{SinkExt, StreamExt};
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::protocol::frame::Frame as RawFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::{accept_async, accept_hdr_async};

const MESSAGE_MAX: usize = 1 << 10;

type Bare = WebSocketStream<TcpStream>;

async fn listening() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/scomp", listener.local_addr().unwrap());
    (listener, url)
}

#[allow(clippy::result_large_err)] // the library's own type
fn echo_subprotocol(request: &Request, mut response: Response) -> Result<Response, ErrorResponse> {
    let offered = request.headers()["sec-websocket-protocol"].clone();
    assert_eq!(request.headers()["authorization"], "Bearer t0");
    response.headers_mut().insert("sec-websocket-protocol", offered);
    Ok(response)
}

fn to(url: &str, token: Option<&str>) -> Dial {
    Dial {
        url: url.to_owned(),
        subprotocol: Some(SUBPROTOCOL.to_owned()),
        token: token.map(str::to_owned),
        message_bytes_max: MESSAGE_MAX,
    }
}

/// A dialled transport, and the bare socket on the other side of the loopback.
async fn connected() -> (WebSocketClient, Bare) {
    let (listener, url) = listening().await;
    let accepting = async { accept_hdr_async(listener.accept().await.unwrap().0, echo_subprotocol).await };
    let to = to(&url, Some("t0"));
    let (client, bare) = tokio::join!(dial(&to), accepting);
    (client.unwrap(), bare.unwrap())
}

#[tokio::test]
async fn text_goes_both_ways_and_pings_are_reported() {
    let (mut client, mut bare) = connected().await;
    client.feed(Outgoing::Text("1".into())).await.unwrap();
    client.send(Outgoing::Ping).await.unwrap();
    assert_eq!(bare.next().await.unwrap().unwrap(), Message::text("1"));
    assert_eq!(bare.next().await.unwrap().unwrap(), Message::Ping(Default::default()));
    bare.flush().await.unwrap();
    bare.send(Message::text("2")).await.unwrap();
    bare.send(Message::binary("3")).await.unwrap();
    assert!(matches!(client.next().await, Some(Ok(Frame::Alive))));
    assert!(matches!(client.next().await, Some(Ok(Frame::Text(text))) if &*text == "2"));
    assert!(matches!(client.next().await, Some(Ok(Frame::Binary(_)))));
}

#[tokio::test]
async fn message_at_the_limit_is_read() {
    let (mut client, mut bare) = connected().await;
    bare.send(Message::text("x".repeat(MESSAGE_MAX))).await.unwrap();
    assert!(matches!(client.next().await, Some(Ok(Frame::Text(text))) if text.len() == MESSAGE_MAX));
}

#[tokio::test]
async fn message_past_the_limit_is_too_long_and_the_close_arrives() {
    let (mut client, mut bare) = connected().await;
    let sending = async {
        // More than the buffers of the loopback hold: it ends only if the client goes on reading.
        bare.send(Message::text("x".repeat(8 << 20))).await.unwrap();
        let closed = bare.next().await.unwrap().unwrap();
        drop(bare);
        closed
    };
    let refusing = async {
        assert!(matches!(client.next().await, Some(Ok(Frame::TooLong))));
        client.send(Outgoing::Close { code: close_code::TOO_LONG, reason: String::new() }).await.unwrap();
        assert!(client.next().await.is_none());
    };
    let (closed, ()) = tokio::join!(sending, refusing);
    assert!(matches!(closed, Message::Close(Some(frame)) if u16::from(frame.code) == 1009));
}

#[tokio::test]
async fn one_byte_past_the_limit_is_too_long_in_one_frame_or_two() {
    for first in [MESSAGE_MAX + 1, MESSAGE_MAX / 2] {
        let (mut client, mut bare) = connected().await;
        let rest = MESSAGE_MAX + 1 - first;
        send_fragments(&mut bare, first, rest).await;
        assert!(matches!(client.next().await, Some(Ok(Frame::TooLong))), "{first} + {rest}");
    }
}

async fn send_fragments(bare: &mut Bare, first: usize, rest: usize) {
    for (opcode, length, last) in [(Data::Text, first, rest == 0), (Data::Continue, rest, true)] {
        if length > 0 {
            let payload = vec![b'x'; length];
            let frame = RawFrame::message(payload, OpCode::Data(opcode), last);
            bare.send(Message::Frame(frame)).await.unwrap();
        }
    }
}

#[tokio::test]
async fn text_that_is_not_utf8_closes_with_1007() {
    let (mut client, mut bare) = connected().await;
    let frame = RawFrame::message(vec![0xff], OpCode::Data(Data::Text), true);
    bare.send(Message::Frame(frame)).await.unwrap();
    let error = client.next().await.unwrap().unwrap_err();
    assert_eq!(error.close_code(), Some(1007));
    assert!(client.next().await.is_none());
    client.send(Outgoing::Close { code: 1007, reason: String::new() }).await.unwrap();
    assert!(matches!(bare.next().await, Some(Ok(Message::Close(Some(_))))));
}

#[tokio::test]
async fn close_codes_travel_both_ways() {
    let (mut client, mut bare) = connected().await;
    let frame = CloseFrame { code: 4001.into(), reason: "taken over".into() };
    bare.close(Some(frame.clone())).await.unwrap();
    let closed = client.next().await;
    assert!(matches!(closed, Some(Ok(Frame::Closed { code: 4001, ref reason })) if reason == "taken over"));
    client.flush().await.unwrap();
    assert_eq!(bare.next().await.unwrap().unwrap(), Message::Close(Some(frame)));
    drop(bare);
    assert!(client.next().await.is_none());
}

#[tokio::test]
async fn broken_connection_is_the_end_of_the_stream() {
    let (mut client, bare) = connected().await;
    drop(bare);
    assert!(client.next().await.is_none());
}

#[tokio::test]
async fn server_without_subprotocols_is_dialled_again() {
    let (listener, url) = listening().await;
    let accepting = async {
        let (first, _) = listener.accept().await.unwrap();
        let (refused, second) = tokio::join!(accept_async(first), listener.accept());
        drop(refused);
        accept_async(second.unwrap().0).await
    };
    let to = to(&url, None);
    let (client, bare) = tokio::join!(dial(&to), accepting);
    assert!(client.is_ok() && bare.is_ok());
}

#[tokio::test]
async fn bad_address_is_named_in_the_error() {
    for url in ["ftp://localhost:1", "no address", "ws://"] {
        let error = dial(&to(url, None)).await.err().unwrap();
        assert!(error.to_string().contains(url), "{error}");
    }
}
