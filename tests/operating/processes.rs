//! Executables behind bindings end with the server, whichever way that ends, and so does what they started.

use std::io::Read as _;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};

use crate::folder::Folder;
use crate::peer::WAIT_MAX;
use crate::program::{Program, Running};

/// A server with a command that does not end by itself, and what says that all of it is gone.
struct Setup {
    server: Running,
    ended_rx: Receiver<()>,
    _folder: Folder,
}

fn setup() -> Setup {
    let declaration = r#"{"package": "child", "command": ["node", "stubborn.mjs"]}"#;
    let files =
        [("child/declaration.json", declaration), ("child/stubborn.mjs", include_str!("stubborn.mjs"))];
    let folder = Folder::with(&files);
    let alive = folder.path().join("child/alive");
    assert!(Command::new("mkfifo").arg(&alive).status().unwrap().success());
    let (ended_tx, ended_rx) = channel();
    std::thread::spawn(move || {
        let mut pipe = std::fs::File::open(alive).unwrap();
        pipe.read_to_end(&mut Vec::new()).unwrap();
        ended_tx.send(())
    });
    let bindings = folder.path().to_str().unwrap();
    let mut server = Program::new(["--listen", "127.0.0.1:0", "--bindings", bindings]).start();
    server.line();
    Setup { server, ended_rx, _folder: folder }
}

fn ends_after(signals: &[&str]) {
    let Setup { server, ended_rx, _folder } = setup();
    assert!(ended_rx.try_recv().is_err());
    for signal in signals {
        server.signal(signal);
    }
    ended_rx.recv_timeout(WAIT_MAX).expect("the command and its child end");
    server.end();
}

#[test]
fn commands_end_when_the_server_is_stopped() {
    ends_after(&["TERM"]);
}

#[test]
fn commands_end_when_the_server_is_interrupted_twice() {
    ends_after(&["INT", "INT"]);
}

#[test]
fn commands_end_when_the_server_is_killed() {
    ends_after(&["KILL"]);
}

#[test]
fn commands_end_when_the_server_aborts() {
    ends_after(&["ABRT"]);
}
