//! An audit log behind a pipe that is not read.

use std::process::Command;

use crate::folder::Folder;
use crate::peer::{get_page, port_of, upgrade};
use crate::program::Program;

#[test]
fn stalled_audit_pipe_does_not_hold_up_the_server() {
    let folder = Folder::with(&[]);
    let pipe = folder.path().join("audit.pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // More calls than the pipe and the queue hold.
    folder.write("orders/declaration.json", r#"{"package": "orders", "rust": "orders"}"#);
    let script = "setInterval(async () => { for (let n = 0; n < 500; n++) await getOrder({ id: 'x' }) }, 1)";
    folder.write("services/busy.js", script);
    let bindings = folder.path().to_str().unwrap();
    let mut server = Program::new(["--listen", "127.0.0.1:0", "--bindings", bindings])
        .variable(("SCOMP_AUDIT_PATH", pipe.to_str().unwrap()))
        .variable(("SCOMP_LIMITS_CALLS_PER_EVAL_MAX", "100000000"))
        .start();
    let port = port_of(&server.line());
    while !get_page(port, "/metrics").contains("scomp_audit_dropped_total{log=\"principals\"}") {}
    drop((0..50).map(|_| upgrade(port)).collect::<Vec<_>>());
    server.signal("TERM");
    assert_eq!(server.end().code, 0);
}
