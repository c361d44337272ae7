//! A client made by hand, and what the system says of a process.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

/// Longer than anything here takes on a busy machine.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(60);

/// The port in the first line that the program prints.
pub(crate) fn port_of(line: &str) -> u16 {
    line.rsplit(':').next().unwrap().parse().unwrap()
}

/// Sends `GET path`, with these header lines: the connection, and the head of the answer.
pub(crate) fn get(port: u16, path: &str, lines: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(WAIT_MAX)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n").unwrap();
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
        head.push(byte[0]);
    }
    (stream, String::from_utf8(head).unwrap())
}

/// The whole answer to `GET path`.
pub(crate) fn get_page(port: u16, path: &str) -> String {
    let (mut stream, mut answer) = get(port, path, "Connection: close\r\n");
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A WebSocket that is open, and on which nothing was said yet.
pub(crate) fn upgrade(port: u16) -> TcpStream {
    let lines = "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                 Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let (stream, head) = get(port, "/", lines);
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    stream
}

/// What the descriptors of a process stand for.
pub(crate) fn descriptors(pid: u32) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    // One may be closed between the two looks.
    entries.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok()).collect()
}
