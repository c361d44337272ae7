//! The sockets of connections by the shard they are on, so that those of a stuck shard can be shut from outside.
//!
//! A connection owns its socket, and the table has only the number of its descriptor: one descriptor per connection. A
//! number is in the table only while its socket is open. [`Socket`] takes it out before it closes, under the lock
//! under which [`OpenSockets::shut_down`] uses it, so a number that the system has reused is never touched.

use std::collections::{HashMap, HashSet};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The number of a descriptor.
type Descriptor = std::ffi::c_int;

/// The open sockets of connections, by shard.
#[derive(Debug, Default)]
pub(crate) struct OpenSockets {
    by_shard: Mutex<HashMap<usize, HashSet<Descriptor>>>,
}

impl OpenSockets {
    /// Enters the socket of a connection that goes to `shard`.
    pub(crate) fn enter(self: &Arc<Self>, shard: usize, stream: std::net::TcpStream) -> AcceptedSocket {
        let entry = Entry::new(Arc::clone(self), shard, descriptor_of(&stream));
        AcceptedSocket { entry, stream }
    }

    /// Shuts every socket on a shard, both ways: its clients see the end of their connections. Returns how many.
    pub(crate) fn shut_down(&self, shard: usize) -> usize {
        let mut by_shard = self.by_shard.lock();
        let sockets = by_shard.remove(&shard).unwrap_or_default();
        // Still under the lock: an owner that closes its socket now waits for it first.
        for socket in &sockets {
            shut_both_ways(*socket);
        }
        sockets.len()
    }
}

/// A socket's entry in the table, until dropped.
#[derive(Debug)]
struct Entry {
    table: Arc<OpenSockets>,
    shard: usize,
    descriptor: Descriptor,
}

impl Entry {
    fn new(table: Arc<OpenSockets>, shard: usize, descriptor: Descriptor) -> Self {
        table.by_shard.lock().entry(shard).or_default().insert(descriptor);
        Self { table, shard, descriptor }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut by_shard = self.table.by_shard.lock();
        if let Some(sockets) = by_shard.get_mut(&self.shard) {
            sockets.remove(&self.descriptor);
            if sockets.is_empty() {
                by_shard.remove(&self.shard);
            }
        }
    }
}

/// A socket on its way to a shard.
#[derive(Debug)]
pub(crate) struct AcceptedSocket {
    // Fields are dropped in this order: the number leaves the table before the socket closes.
    entry: Entry,
    stream: std::net::TcpStream,
}

impl AcceptedSocket {
    /// Registers the socket with the event loop of the shard that this runs on.
    pub(crate) fn register(self) -> io::Result<Socket> {
        let Self { entry, stream } = self;
        let (table, shard) = (Arc::clone(&entry.table), entry.shard);
        // A failure closes the socket, so its number must not be in the table meanwhile.
        drop(entry);
        let stream = TcpStream::from_std(stream)?;
        let entry = Entry::new(table, shard, descriptor_of(&stream));
        Ok(Socket { _entry: entry, stream })
    }
}

/// The socket of a connection.
#[derive(Debug)]
pub(crate) struct Socket {
    // Fields are dropped in this order: the number leaves the table before the socket closes.
    _entry: Entry,
    stream: TcpStream,
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(unix)]
fn descriptor_of(stream: &impl std::os::fd::AsRawFd) -> Descriptor {
    stream.as_raw_fd()
}

#[cfg(unix)]
#[allow(unsafe_code)]
fn shut_both_ways(descriptor: Descriptor) {
    // SAFETY: a call with plain numbers; the table's lock keeps the descriptor open. A socket whose peer is gone
    // already fails it, which is as good.
    let _ = unsafe { libc::shutdown(descriptor, libc::SHUT_RDWR) };
}

// Elsewhere the sockets of a stuck shard stay open until the process ends.
#[cfg(not(unix))]
fn descriptor_of<T>(_stream: &T) -> Descriptor {
    0
}

#[cfg(not(unix))]
fn shut_both_ways(_descriptor: Descriptor) {}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::{TcpListener, TcpStream as StdStream};

    use super::*;

    /// Both ends of a connection; the second is the server's.
    fn pair() -> (StdStream, StdStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = StdStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        server.set_nonblocking(true).unwrap();
        (client, server)
    }

    #[tokio::test]
    async fn only_sockets_of_the_given_shard_are_shut() {
        let table = Arc::<OpenSockets>::default();
        let ((mut stuck, server_stuck), (healthy, server_healthy)) = (pair(), pair());
        let _on_stuck = table.enter(1, server_stuck).register().unwrap();
        let _on_healthy = table.enter(2, server_healthy).register().unwrap();
        assert_eq!(table.shut_down(1), 1);
        assert_eq!(stuck.read(&mut [0]).unwrap(), 0);
        healthy.set_nonblocking(true).unwrap();
        let open = (&healthy).read(&mut [0]).unwrap_err();
        assert_eq!(open.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(table.shut_down(1), 0);
    }

    #[tokio::test]
    async fn socket_leaves_the_table_when_it_closes() {
        let table = Arc::<OpenSockets>::default();
        let (_client, server) = pair();
        let accepted = table.enter(7, server);
        assert_eq!(table.by_shard.lock()[&7].len(), 1);
        let socket = accepted.register().unwrap();
        assert_eq!(table.by_shard.lock()[&7].len(), 1);
        drop(socket);
        assert!(table.by_shard.lock().is_empty());
    }

    #[test]
    fn socket_that_never_reached_its_shard_is_removed() {
        let table = Arc::<OpenSockets>::default();
        let (mut client, server) = pair();
        let accepted = table.enter(7, server);
        assert_eq!(table.shut_down(7), 1);
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
        drop(accepted);
        assert!(table.by_shard.lock().is_empty());
    }
}
