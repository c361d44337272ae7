//! How many descriptors a connection takes.

use crate::peer::{descriptors, port_of, upgrade};
use crate::program::Program;

#[test]
fn each_connection_takes_one_descriptor() {
    const CONNECTIONS: usize = 50;
    let mut server = Program::new(["--listen", "127.0.0.1:0"]).start();
    let port = port_of(&server.line());
    let sockets = || {
        let open = descriptors(server.pid());
        open.iter().filter(|target| target.to_string_lossy().starts_with("socket:")).count()
    };
    let before = sockets();
    let clients: Vec<_> = (0..CONNECTIONS).map(|_| upgrade(port)).collect();
    assert_eq!(sockets() - before, CONNECTIONS);
    drop(clients);
    server.signal("TERM");
    assert_eq!(server.end().code, 0);
}
