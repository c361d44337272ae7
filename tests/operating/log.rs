//! A log whose reader stalls: the server serves on, counts what it drops, says so later, and ends.

use std::io::{BufRead as _, BufReader};
use std::path::Path;

use crate::folder::Folder;
use crate::peer::{get_page, port_of, upgrade};
use crate::program::Program;

/// Services that print more than the pipe and the queue hold: 8 times 0.9 MB.
fn chatty_services() -> Folder {
    let folder = Folder::with(&[]);
    for number in 0..8 {
        let script = "for (let n = 0; n < 900; n++) console.log('x'.repeat(1000)); 0";
        folder.write(&format!("services/chatty{number}.js"), script);
    }
    folder
}

fn program(bindings: &Path) -> Program {
    Program::new(["--listen", "127.0.0.1:0", "--bindings", bindings.to_str().unwrap()])
}

fn dropped(port: u16) -> f64 {
    let page = get_page(port, "/metrics");
    let line = page.lines().find_map(|line| line.strip_prefix("scomp_log_dropped_total "));
    line.unwrap_or("0").parse().unwrap()
}

#[test]
fn stalled_stderr_does_not_hold_up_the_server() {
    let folder = chatty_services();
    let (mut server, _unread) = program(folder.path()).start_with_unread_stderr();
    let port = port_of(&server.line());
    while dropped(port) == 0.0 {}
    let clients: Vec<_> = (0..400).map(|_| upgrade(port)).collect();
    drop(clients);
    server.signal("TERM");
    assert_eq!(server.end().code, 0);
}

#[test]
fn stderr_read_again_says_how_many_lines_are_missing() {
    let folder = chatty_services();
    let (mut server, stderr) = program(folder.path()).start_with_unread_stderr();
    let port = port_of(&server.line());
    while dropped(port) == 0.0 {}
    let mut lines = BufReader::new(stderr).lines().map(Result::unwrap);
    let announced = lines.find(|line| line.contains("log lines were dropped")).unwrap();
    let count: f64 = announced.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(count >= 1.0, "{announced}");
    server.signal("TERM");
    // Read on, so that the log of the stop can be written.
    let last = lines.last();
    assert_eq!(server.end().code, 0);
    assert!(last.is_some());
}

#[test]
fn second_signal_ends_the_server_behind_a_stalled_stderr() {
    let folder = chatty_services();
    folder.write("services/busy.js", "setInterval(() => {}, 1000); await new Promise(() => {})");
    let (mut server, _unread) = program(folder.path()).start_with_unread_stderr();
    server.line();
    server.signal("TERM");
    server.signal("TERM");
    server.signal("INT");
    let code = server.end().code;
    assert!(code == 0 || code == 1, "{code}");
}

#[test]
fn closed_stderr_does_not_end_the_server() {
    let folder = chatty_services();
    let (mut server, stderr) = program(folder.path()).start_with_unread_stderr();
    drop(stderr);
    let port = port_of(&server.line());
    drop(upgrade(port));
    server.signal("TERM");
    assert_eq!(server.end().code, 0);
}
