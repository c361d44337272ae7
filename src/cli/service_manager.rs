//! What systemd and its like ask of a service: when it is ready, that it is alive, and sockets that were opened for it.
//!
//! The protocol is a datagram of `KEY=value` lines to the socket in `NOTIFY_SOCKET`; without that variable nothing is sent.
//!
//! One of the modules with `unsafe`: a descriptor that was passed at start has no owner yet.
#![cfg_attr(unix, allow(unsafe_code))]

use std::time::Duration;

use super::Failure;

/// The first descriptor that is passed at start.
#[cfg(unix)]
const FIRST_DESCRIPTOR: i32 = 3;

/// Shortest time between two signs of life, whatever the manager asks for.
const WATCHDOG_EVERY_MIN: Duration = Duration::from_millis(10);

/// A state of the program.
#[derive(Debug, Clone, Copy)]
pub(super) enum State {
    Ready,
    Reloading,
    Stopping,
    Alive,
}

/// Reports a state. A manager that cannot be reached is not an error: the service goes on.
pub(super) fn report(state: State) {
    let text = match state {
        State::Ready => "READY=1\nSTATUS=serving",
        State::Reloading => "RELOADING=1",
        State::Stopping => "STOPPING=1\nSTATUS=draining",
        State::Alive => "WATCHDOG=1",
    };
    if let Err(error) = send(text) {
        tracing::debug!(%error, "the service manager cannot be reached");
    }
}

/// Reports signs of life from this event loop for as long as it turns, if the manager asks for them.
pub(super) fn start_watchdog() {
    let variable = |name: &str| std::env::var(name).ok();
    let is_ours = variable("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
    let within = variable("WATCHDOG_USEC").and_then(|text| text.parse().ok()).map(Duration::from_micros);
    let Some(within) = within.filter(|_| is_ours) else { return };
    tokio::spawn(async move {
        let mut due = tokio::time::interval((within / 2).max(WATCHDOG_EVERY_MIN));
        loop {
            due.tick().await;
            report(State::Alive);
        }
    });
}

#[cfg(unix)]
fn send(text: &str) -> std::io::Result<()> {
    use std::os::unix::net::UnixDatagram;
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let socket = UnixDatagram::unbound()?;
    // A manager that reads too slowly must not hold up the server.
    socket.set_nonblocking(true)?;
    #[cfg(target_os = "linux")]
    if let Some(name) = path.to_str().and_then(|path| path.strip_prefix('@')) {
        use std::os::linux::net::SocketAddrExt as _;
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
        return socket.send_to_addr(text.as_bytes(), &address).map(drop);
    }
    socket.send_to(text.as_bytes(), path).map(drop)
}

#[cfg(not(unix))]
fn send(_text: &str) -> std::io::Result<()> {
    Ok(())
}

/// The listening socket that the manager opened for this process, if it did.
#[cfg(unix)]
pub(super) fn inherited_listener() -> Result<Option<std::net::TcpListener>, Failure> {
    use std::os::fd::FromRawFd as _;
    let variable = |name: &str| std::env::var(name).ok();
    if variable("LISTEN_PID") != Some(std::process::id().to_string()) {
        return Ok(None);
    }
    match variable("LISTEN_FDS").and_then(|count| count.parse::<u32>().ok()) {
        None | Some(0) => return Ok(None),
        Some(1) => {}
        Some(count) => {
            return Err(Failure::Usage(format!(
                "LISTEN_FDS: expected one socket, got {count}; list one ListenStream in the socket unit"
            )));
        }
    }
    // The flag keeps it from the executables that are started later.
    // SAFETY: a call with plain numbers.
    if unsafe { libc::fcntl(FIRST_DESCRIPTOR, libc::F_SETFD, libc::FD_CLOEXEC) } == -1 {
        let message = format!(
            "LISTEN_FDS: descriptor {FIRST_DESCRIPTOR} is not open; expected a TCP socket that listens"
        );
        return Err(Failure::Usage(message));
    }
    // SAFETY: the manager opened it for this process, and it is taken once, before anything else could own it.
    let listener = unsafe { std::net::TcpListener::from_raw_fd(FIRST_DESCRIPTOR) };
    let wrong = |error: std::io::Error| {
        Failure::Usage(format!(
            "the socket of the service manager: {error}; expected a TCP socket that listens"
        ))
    };
    listener.local_addr().map_err(wrong)?;
    listener.set_nonblocking(true).map_err(wrong)?;
    Ok(Some(listener))
}

#[cfg(not(unix))]
pub(super) fn inherited_listener() -> Result<Option<std::net::TcpListener>, Failure> {
    Ok(None)
}
