"""How texts travel: a WebSocket, the pipes of a child, or those of this process. One message is one text."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Protocol, cast

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as connect_websocket
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.typing import Subprotocol

from .errors import Closed, ScompError, Unauthorized
from .limits import CLOSE_S_MAX, FRAMES_QUEUED_MAX, MESSAGE_BYTES_MAX

SUBPROTOCOL: Final = "scomp.v0"
_UNAUTHORIZED: Final = 401


@dataclass(frozen=True)
class Ended:
    """How a connection ended: the close code of a WebSocket, or the like."""

    code: int
    reason: str = ""


class TransportClosed(Exception):
    def __init__(self, ended: Ended) -> None:
        super().__init__(f"{ended.code} {ended.reason}")
        self.ended = ended


class Transport(Protocol):
    async def send(self, text: str) -> None: ...

    async def receive(self) -> str:
        """The next text; `TransportClosed` at the end."""
        ...

    async def close(self) -> None:
        """Closes it in order, within `CLOSE_S_MAX`."""
        ...

    def abort(self) -> None:
        """Drops it without waiting for the peer."""
        ...

    async def ping(self) -> None:
        """Returns when the peer has shown that it is there."""
        ...


class Endpoint(Protocol):
    """Where a client connects to. Each connection is opened anew."""

    async def open(self) -> Transport: ...


@dataclass(frozen=True)
class WebSocketEndpoint:
    url: str
    token: str | None = None
    proxy: str | Literal[True] | None = True

    async def open(self) -> Transport:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token is not None else {}
        try:
            socket = await connect_websocket(
                self.url,
                subprotocols=[Subprotocol(SUBPROTOCOL)],
                additional_headers=headers,
                # Messages are small or already compressed values; the server does not offer it either.
                compression=None,
                max_size=MESSAGE_BYTES_MAX,
                max_queue=FRAMES_QUEUED_MAX,
                ping_interval=None,
                close_timeout=CLOSE_S_MAX,
                proxy=self.proxy,
            )
        except (OSError, InvalidHandshake, InvalidURI, TimeoutError, asyncio.TimeoutError, EOFError) as error:
            raise self._failure(error) from error
        return WebSocketTransport(socket)

    def _failure(self, error: Exception) -> ScompError:
        if isinstance(error, InvalidStatus) and error.response.status_code == _UNAUTHORIZED:
            return Unauthorized(f"cannot connect to {self.url}: the server does not accept the token")
        return Closed(f"cannot connect to {self.url}: {error or type(error).__name__}", close_code=1006)


class WebSocketTransport:
    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def send(self, text: str) -> None:
        try:
            await self._socket.send(text)
        except ConnectionClosed as closed:
            raise TransportClosed(_ended(closed)) from closed

    async def receive(self) -> str:
        while True:
            try:
                message = await self._socket.recv()
            except ConnectionClosed as closed:
                raise TransportClosed(_ended(closed)) from closed
            # The protocol has no binary messages; one of them is not worth a connection.
            if isinstance(message, str):
                return message

    async def close(self) -> None:
        await self._socket.close(1000)

    def abort(self) -> None:
        self._socket.transport.abort()

    async def ping(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            await (await self._socket.ping())


def _ended(closed: ConnectionClosed) -> Ended:
    if closed.rcvd is not None:
        return Ended(closed.rcvd.code, closed.rcvd.reason)
    if closed.sent is not None and closed.sent.code != 1000:
        # We refused what came, for example a message over the limit: it would come again.
        return Ended(closed.sent.code, closed.sent.reason)
    return Ended(1006)


class LineTransport:
    """A message a line, over a pair of streams."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, text: str) -> None:
        try:
            self._writer.write(text.encode() + b"\n")
            await self._writer.drain()
        except (ConnectionError, RuntimeError) as error:
            raise TransportClosed(Ended(1006, str(error))) from error

    async def receive(self) -> str:
        while True:
            try:
                line = await self._reader.readline()
            except ValueError as error:
                raise TransportClosed(Ended(1009, "message too long")) from error
            if not line.endswith(b"\n"):
                raise TransportClosed(Ended(1006, "end of input"))
            try:
                return line.decode().rstrip("\r\n")
            except UnicodeDecodeError:
                continue

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    def abort(self) -> None:
        self._writer.transport.abort()

    async def ping(self) -> None:
        """A pipe has no pings: its other end is there, or the pipe is closed."""


class ChildTransport(LineTransport):
    """A child process with a message a line on its pipes. It ends with its connection."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        stdin, stdout = process.stdin, process.stdout
        if stdin is None or stdout is None:
            raise ValueError("the child needs pipes for its input and output")
        super().__init__(stdout, stdin)
        self._process = process

    async def receive(self) -> str:
        try:
            return await super().receive()
        except TransportClosed as closed:
            if closed.ended.code != 1006:
                raise
            code = await self._process.wait()
            raise TransportClosed(Ended(1006, f"the server process ended with code {code}")) from None

    async def close(self) -> None:
        """At the end of its input the child ends by itself."""
        with contextlib.suppress(OSError):
            self._writer.close()
        try:
            await asyncio.wait_for(self._process.wait(), CLOSE_S_MAX)
        except (TimeoutError, asyncio.TimeoutError):
            self.abort()
            await self._process.wait()

    def abort(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()


@dataclass(frozen=True)
class ChildEndpoint:
    command: tuple[str, ...]
    environment: dict[str, str] | None = None
    folder: Path | None = None

    async def open(self) -> Transport:
        try:
            process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=MESSAGE_BYTES_MAX,
                env={**os.environ, **(self.environment or {})},
                cwd=self.folder,
            )
        except OSError as error:
            raise Closed(f"cannot start {self.command[0]}: {error}", close_code=1006) from error
        return ChildTransport(process)


async def own_pipes() -> LineTransport:
    """The input and output of this process. From here on `print` writes to stderr: stdout belongs to the protocol."""
    loop = asyncio.get_running_loop()
    _check_is_stream(sys.stdin.fileno())
    sys.stdout.flush()
    out_file = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    reader = asyncio.StreamReader(limit=MESSAGE_BYTES_MAX)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    protocol: Any = asyncio.StreamReaderProtocol(asyncio.StreamReader())
    pipe = await loop.connect_write_pipe(lambda: protocol, out_file)
    return LineTransport(reader, asyncio.StreamWriter(cast("Any", pipe[0]), protocol, None, loop))


def _check_is_stream(descriptor: int) -> None:
    """A file or /dev/null cannot be waited for: reading it would hang."""
    mode = os.fstat(descriptor).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)):
        raise RuntimeError("stdin is not a pipe: this program is started by scomp-serve, as the command of a package")
