"""Opens a connection and shakes hands; then carries texts between the transport and its peer until either ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

from .errors import BadAnswer, Closed, ConnectionLost, ScompError, SessionRefused
from .hooks import call_hook
from .limits import CLOSE_S_MAX, OPENING_S_MAX, OUTBOX_CHARS_MAX
from .peer import Peer, Services
from .rpc import as_list, as_record
from .transport import Ended, Endpoint, Transport, TransportClosed

OnFrame = Callable[[Literal["in", "out"], str], None]

PROTOCOL = "0.1"


@dataclass(frozen=True)
class Session:
    """Proof of a session, to resume it. The token changes at every handshake."""

    id: str
    token: str
    ttl: float = 0.0
    """Seconds for which the server keeps the session without a connection."""


@dataclass(frozen=True)
class Handshake:
    """The server's answer to the handshake."""

    session: Session
    is_resumed: bool
    bindings: list[dict[str, Any]]
    metadata: dict[str, Any]


@dataclass(frozen=True)
class Dial:
    """What stays the same over all connections of a client."""

    endpoint: Endpoint
    declarations: list[dict[str, Any]]
    services: Services
    on_frame: OnFrame | None = None


class Outbox:
    """Texts that wait to be written."""

    def __init__(self) -> None:
        self._texts: deque[str] = deque()
        self._chars = 0
        self._filled = asyncio.Event()
        self._empty = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()

    def put(self, text: str) -> None:
        self._texts.append(text)
        self._chars += len(text)
        self._filled.set()
        if self._chars > OUTBOX_CHARS_MAX:
            self._has_room.clear()

    async def take(self) -> str:
        while not self._texts:
            self._filled.clear()
            await self._filled.wait()
        return self._texts.popleft()

    def written(self, text: str) -> None:
        self._chars -= len(text)
        if self._chars == 0:
            self._empty.set()
        if self._chars <= OUTBOX_CHARS_MAX:
            self._has_room.set()

    async def drained(self) -> None:
        """Waits until everything is written."""
        while self._chars > 0:
            self._empty.clear()
            await self._empty.wait()

    async def room(self) -> None:
        """Waits until no more than the limit waits."""
        await self._has_room.wait()


class Connection:
    def __init__(self, transport: Transport, services: Services, on_frame: OnFrame | None = None) -> None:
        loop = asyncio.get_running_loop()
        self._transport = transport
        self._on_frame = on_frame
        self._outbox = Outbox()
        self._heartbeat: asyncio.Task[None] | None = None
        self.peer = Peer(self._write, services)
        self.ended: asyncio.Future[Ended] = loop.create_future()
        """Done when the connection is gone, however that comes."""
        self._tasks = [loop.create_task(self._read()), loop.create_task(self._write_all())]
        self._heard = False

    @classmethod
    async def open(cls, dial: Dial, session: Session | None, *, anew: bool) -> tuple[Connection, Handshake]:
        """Connects and performs the handshake. With `anew`, a session that is gone is replaced by a new one."""
        try:
            return await asyncio.wait_for(cls._open(dial, session, anew=anew), OPENING_S_MAX)
        except (TimeoutError, asyncio.TimeoutError) as error:
            if isinstance(error, ScompError):
                raise
            raise Closed("handshake timed out", close_code=1006) from error

    @classmethod
    async def _open(cls, dial: Dial, session: Session | None, *, anew: bool) -> tuple[Connection, Handshake]:
        connection = cls(await dial.endpoint.open(), dial.services, dial.on_frame)
        try:
            return connection, await connection._handshake(dial.declarations, session, anew=anew)
        except BaseException:
            connection.abandon(Ended(1006, "handshake failed"))
            raise

    async def _handshake(self, declarations: list[dict[str, Any]], session: Session | None, *, anew: bool) -> Handshake:
        params: dict[str, Any] = {
            "protocol": PROTOCOL,
            "bindings": declarations,
            "metadata": {"client": {"name": "scomp-python", "version": _version()}},
            "notifications": ["cancel_invoke"],
        }
        if session is not None:
            params["session"] = {"id": session.id, "token": session.token}
        try:
            return _read_handshake(await self.peer.request("handshake", params).answer)
        except SessionRefused:
            if session is None or not anew:
                raise
            return await self._handshake(declarations, None, anew=False)

    def start_heartbeat(self, every: float) -> None:
        """A peer that vanished leaves a socket that looks alive: pings it when it is idle, and abandons it."""
        self._heartbeat = asyncio.get_running_loop().create_task(self._beat(every))

    async def _beat(self, every: float) -> None:
        while True:
            self._heard = False
            await asyncio.sleep(every)
            if self._heard:
                continue
            try:
                await asyncio.wait_for(self._transport.ping(), every)
            except (TimeoutError, asyncio.TimeoutError):
                self.abandon(Ended(1006, "ping timed out"))
                return

    async def close(self, *, ends_session: bool) -> None:
        """Ends the session if it is to end, then closes; without an answer if none comes."""
        with contextlib.suppress(ScompError, TimeoutError, asyncio.TimeoutError):
            if ends_session and not self.ended.done():
                # Abandoned with the connection if the answer does not come: the server closes after it.
                await asyncio.wait_for(self.peer.control("session.close", {}), CLOSE_S_MAX)
        with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
            await asyncio.wait_for(self._transport.close(), CLOSE_S_MAX)
        self.abandon(Ended(1000, "closed"))

    def abandon(self, ended: Ended) -> None:
        """Gives a connection up that may never report its end."""
        self._transport.abort()
        self._finish(ended)

    def _finish(self, ended: Ended) -> None:
        if self.ended.done():
            return
        self.ended.set_result(ended)
        why = f": {ended.reason}" if ended.reason else ""
        self.peer.end(ConnectionLost(f"the connection ended ({ended.code}){why}", close_code=ended.code))
        current = asyncio.current_task()
        for task in [*self._tasks, self._heartbeat]:
            if task is not None and task is not current:
                task.cancel()

    def _write(self, text: str) -> None:
        call_hook(self._on_frame, "out", text)
        self._outbox.put(text)

    async def _write_all(self) -> None:
        try:
            while True:
                text = await self._outbox.take()
                await self._transport.send(text)
                self._outbox.written(text)
        except TransportClosed:
            # The reader learns the code of the close.
            return

    async def _read(self) -> None:
        try:
            while True:
                await self._outbox.room()
                text = await self._transport.receive()
                self._heard = True
                call_hook(self._on_frame, "in", text)
                self.peer.on_text(text)
        except TransportClosed as closed:
            self._finish(closed.ended)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            # A defect of this library must not leave its users waiting for ever.
            self.abandon(Ended(1006, f"{type(error).__name__}: {error}"))
            raise


def _read_handshake(result: object) -> Handshake:
    record = as_record(result) or {}
    metadata = as_record(record.get("metadata")) or {}
    identifier = record.get("sessionId")
    if not isinstance(identifier, str):
        raise BadAnswer("the answer to the handshake is malformed")
    session = as_record(metadata.get("session")) or {}
    ttl = session.get("ttlMs")
    return Handshake(
        session=Session(identifier, str(session.get("token", "")), ttl / 1000 if isinstance(ttl, int | float) else 0.0),
        is_resumed=session.get("resumed") is True,
        bindings=[one for one in map(as_record, as_list(record.get("bindings")) or []) if one is not None],
        metadata=metadata,
    )


def _version() -> str:
    try:
        return version("scomp")
    except PackageNotFoundError:
        return "0"
