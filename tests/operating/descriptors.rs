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
    // Every shard has served connections by then, and so has the sockets of its own event loop.
    let mut clients: Vec<_> = (0..CONNECTIONS).map(|_| upgrade(port)).collect();
    let before = sockets();
    clients.extend((0..CONNECTIONS).map(|_| upgrade(port)));
    assert_eq!(sockets() - before, CONNECTIONS);
    drop(clients);
    server.signal("TERM");
    assert_eq!(server.end().code, 0);
}
