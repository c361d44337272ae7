"""A session on a server, held over as many connections as it takes."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from types import TracebackType
from typing import Any, Literal, TypeVar

from .bindings import Binding, Bindings, collect
from .calls import Call
from .connection import Connection, Dial, Handshake, OnFrame, Session
from .console import ConsoleLine
from .controls import Controls
from .errors import Busy, Closed, ConnectionLost, ScompError, SessionLost
from .evals import EvalOutput, Evals, OnConsole
from .hooks import call_hook
from .limits import CALLS_WAITING_MAX
from .namespace import Namespace
from .peer import CONSOLE_WRITE, Peer, Services
from .reconnect import Reconnect, is_unexpected
from .rpc import as_list, as_record
from .server import Server
from .threads import HandlerThreads
from .transport import Ended, Endpoint, WebSocketEndpoint
from .values import AnyFunction

State = Literal["new", "connected", "reconnecting", "closed"]
ClientType = TypeVar("ClientType", bound="Client")

HEARTBEAT_S_DEFAULT = 30.0


@dataclass(frozen=True)
class ApprovalRequest:
    """What the server asks before a binding runs whose effects need approval."""

    binding: str
    input: Any
    effects: list[str]
    eval_id: int | str | None
    call: Call
    """Cancelled when the answer is not awaited any more."""


@dataclass(frozen=True)
class Approval:
    allow: bool
    reason: str | None = None


Approve = Callable[[ApprovalRequest], "bool | Approval | Awaitable[bool | Approval]"]

_CONSOLE_DECLARATION: dict[str, Any] = {
    "name": CONSOLE_WRITE,
    # Declares that lines may also come in batches; a server that does not know of them sends one at a time.
    "input": {"type": "object", "properties": {"entries": {"type": "array"}}},
}


class Client(Controls):
    """The asyncio client. Declare bindings first, then connect: `async with client`, or `await client.connect()`."""

    def __init__(
        self,
        target: str | Server,
        *,
        token: str | None = None,
        bindings: Bindings | Mapping[str, AnyFunction] | Sequence[AnyFunction] | None = None,
        session: Session | None = None,
        on_console: OnConsole | None = None,
        stream_console: bool = True,
        approve: Approve | None = None,
        reconnect: Reconnect | None = Reconnect(),  # noqa: B008
        on_reconnect: Callable[[bool], object] | None = None,
        on_state: Callable[[State], object] | None = None,
        on_frame: OnFrame | None = None,
        heartbeat: float | None = HEARTBEAT_S_DEFAULT,
        proxy: str | Literal[True] | None = True,
        _facade: Any = None,
    ) -> None:
        self._endpoint: Endpoint = target if isinstance(target, Server) else WebSocketEndpoint(target, token, proxy)
        self._own = collect(bindings)
        self._approve = approve
        self._resume = session
        self._on_console_hook = on_console
        self._streams_console = stream_console
        self._policy = reconnect
        self._on_reconnect = on_reconnect
        self._on_state = on_state
        self._on_frame = on_frame
        self._heartbeat = heartbeat
        self._facade = _facade
        self._evals = Evals(_key_maker() if reconnect is not None else None, blocking=_facade is not None)
        self._state: State = "new"
        self._connection: Connection | None = None
        self._handshake: Handshake | None = None
        self._dial: Dial | None = None
        self._threads: HandlerThreads | None = None
        self._waiting: set[asyncio.Future[Peer]] = set()
        self._closing = asyncio.Event()
        self._closed: asyncio.Future[Ended] | None = None
        self._keeps_session = False
        self._reports_loss = False
        self._supervisor: asyncio.Task[None] | None = None
        self.bindings = Namespace(lambda: [one["name"] for one in self.declarations], self.invoke)
        """The server's bindings as functions: `await client.bindings.kv.get(key="a")`."""
        self.binding = self._own.binding
        """Declares a function of this program as a binding, see `Bindings.binding`."""

    # Connecting and leaving.

    async def connect(self: ClientType) -> ClientType:
        """Connects and performs the handshake."""
        if self._state != "new":
            raise RuntimeError("the client has been connected already")
        self._own.is_frozen = True
        self._threads = HandlerThreads()
        self._closed = asyncio.get_running_loop().create_future()
        self._dial = self._make_dial(self._threads)
        try:
            opened = await Connection.open(self._dial, self._resume, anew=False)
        except BaseException:
            self._become("closed")
            self._threads.close()
            raise
        self._attach(*opened)
        self._supervisor = asyncio.get_running_loop().create_task(self._supervise(), name="scomp client")
        return self

    async def __aenter__(self: ClientType) -> ClientType:
        return self if self._state == "connected" else await self.connect()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the session and the connection; what still waits fails with `Closed`. Without a connection the session
        stays on the server until its time is over."""
        await self._leave(keep=False)

    async def detach(self) -> Session:
        """Leaves the session on the server for `session.ttl` seconds, to be resumed with the returned proof."""
        session = self.session
        await self._leave(keep=True)
        return session

    async def wait_closed(self) -> Ended:
        """Waits until the client is closed for good; says how its connection ended."""
        if self._closed is None:
            raise RuntimeError("the client is not connected")
        return await asyncio.shield(self._closed)

    @property
    def session(self) -> Session:
        """What it takes to resume this session from elsewhere."""
        if self._handshake is None:
            raise RuntimeError("the client is not connected")
        return self._handshake.session

    @property
    def declarations(self) -> list[dict[str, Any]]:
        """What the server offers."""
        return self._handshake.bindings if self._handshake is not None else []

    @property
    def metadata(self) -> dict[str, Any]:
        """What the server said of itself."""
        return self._handshake.metadata if self._handshake is not None else {}

    @property
    def state(self) -> State:
        return self._state

    # Requests.

    async def eval(
        self,
        code: str,
        *,
        timeout: float | None = None,
        deadline: float | None = None,
        key: str | None = None,
        name: str | None = None,
        fresh: bool = False,
        on_console: OnConsole | None = None,
    ) -> Any:
        """Runs code and returns its value. See `run` for the options."""
        output = await self.run(
            code, timeout=timeout, deadline=deadline, key=key, name=name, fresh=fresh, on_console=on_console
        )
        return output.value

    async def run(
        self,
        code: str,
        *,
        timeout: float | None = None,
        deadline: float | None = None,
        key: str | None = None,
        name: str | None = None,
        fresh: bool = False,
        stats: bool = False,
        on_console: OnConsole | None = None,
    ) -> EvalOutput:
        """Runs code and returns its value with its console output and, if requested, its statistics.

        `timeout` ends the eval after so many seconds on the server. `deadline` bounds the whole wait, with the queue
        and reconnects. `key` names the eval: sent again with the same code it does not run again. `name` is the file in
        stack traces. `fresh`: nothing that it declares persists. Cancelling the task cancels the eval.
        """
        self._check_open()
        if self._reports_loss:
            self._reports_loss = False
            raise SessionLost("the session is gone, and what scripts had declared with it")
        options = {"name": name, "key": key, "fresh": fresh or None, "stats": stats or None}
        params: dict[str, Any] = {
            "code": code,
            **{option: value for option, value in options.items() if value is not None},
        }
        if timeout is not None:
            params["timeoutMs"] = max(1, round(timeout * 1000))
        return await self._evals.run(params, on_console=on_console, deadline=deadline)

    async def invoke(self, binding: str, input: object = None) -> Any:
        """Calls a binding of the server. One under way when the connection breaks fails with `ConnectionLost`."""
        peer = await self._peer()
        return await peer.invoke({"binding": binding}, ({} if input is None else input,), blocking=self._is_blocking)

    # Inside.

    @property
    def _is_blocking(self) -> bool:
        return self._facade is not None

    def _make_dial(self, threads: HandlerThreads) -> Dial:
        handlers = dict(self._own.items())
        declarations = self._own.declarations
        if self._approve is not None:
            handlers["approve"] = Binding(self._on_approve, name="approve")
            declarations = [*declarations, {"name": "approve"}]
        on_console = None
        if self._streams_console:
            declarations = [*declarations, _CONSOLE_DECLARATION]
            on_console = self._on_console
        services = Services(handlers, threads, self._facade or self, on_console)
        return Dial(self._endpoint, declarations, services, self._on_frame)

    def _on_console(self, input: object) -> None:
        record = as_record(input) or {}
        entries = as_list(record.get("entries"))
        for entry in [record] if entries is None else entries:
            line = ConsoleLine.read({"evalId": record.get("evalId"), **(as_record(entry) or {})})
            if line is not None:
                call_hook(self._on_console_hook, line)
                self._evals.on_console(line)

    async def _on_approve(self, request: Any, /, call: Call) -> object:
        if self._approve is None or self._threads is None:
            return {"allow": False}
        approve, threads = self._approve, self._threads
        effects = [str(effect) for effect in as_list(request.get("effects")) or []]
        asked = ApprovalRequest(request.get("binding"), request.get("input"), effects, request.get("evalId"), call)

        # Questions to people block, so a plain function has a thread, as handlers have.
        def ask(_: Any, /) -> object:
            return approve(asked)

        decide = Binding(ask, name="approve")
        if asyncio.iscoroutinefunction(approve):
            decided: Any = await approve(asked)
        else:
            decided = await decide.run(None, call, threads)
        approval = decided if isinstance(decided, Approval) else Approval(decided is True)
        answer: dict[str, object] = {"allow": approval.allow}
        return answer if approval.reason is None else {**answer, "reason": approval.reason}

    def _attach(self, connection: Connection, handshake: Handshake) -> None:
        self._connection, self._handshake = connection, handshake
        if self._heartbeat is not None:
            connection.start_heartbeat(self._heartbeat)
        self._become("connected")
        self._evals.attach(connection.peer)
        waiting, self._waiting = self._waiting, set()
        for one in waiting:
            if not one.done():
                one.set_result(connection.peer)

    async def _supervise(self) -> None:
        """Follows the connection until none is to follow."""
        ended = Ended(1006)
        while self._connection is not None:
            ended = await asyncio.shield(self._connection.ended)
            self._connection = None
            if self._closing.is_set() or self._policy is None or not is_unexpected(ended.code):
                break
            self._evals.detach(ConnectionLost(_describe("the connection broke", ended), close_code=ended.code))
            self._become("reconnecting")
            opened = await self._dial_again(self._policy)
            if opened is None:
                break
            self._resume_with(*opened)
        self._end(ended if not self._closing.is_set() else Ended(1000, "closed"))

    def _resume_with(self, connection: Connection, handshake: Handshake) -> None:
        if not handshake.is_resumed:
            failed = self._evals.fail_all(SessionLost("the session is gone, and what scripts had declared with it"))
            # Without a hook the program would never learn of it: the next eval says so, once.
            self._reports_loss = failed == 0 and self._on_reconnect is None
        self._attach(connection, handshake)
        call_hook(self._on_reconnect, handshake.is_resumed)

    async def _dial_again(self, policy: Reconnect) -> tuple[Connection, Handshake] | None:
        """Dials until it works, the attempts are used up, or the client is closed."""
        if self._dial is None or self._handshake is None:
            return None
        for attempt in range(policy.attempts):
            with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
                await asyncio.wait_for(self._closing.wait(), policy.wait(attempt))
            if self._closing.is_set():
                return None
            try:
                opened = await Connection.open(self._dial, self._handshake.session, anew=True)
            except ScompError:
                # The next attempt may succeed; when none does, the caller learns the first reason.
                continue
            if not self._closing.is_set():
                return opened
            await opened[0].close(ends_session=not self._keeps_session)
        return None

    async def _leave(self, *, keep: bool) -> None:
        if self._closed is None:
            self._become("closed")
            return
        if not self._closing.is_set() and self._state != "closed":
            self._keeps_session = keep
            self._closing.set()
            self._fail_waiting(Closed("the client is closed", close_code=1000))
            if self._connection is not None:
                await self._connection.close(ends_session=not keep)
        await asyncio.shield(self._closed)

    def _end(self, ended: Ended) -> None:
        if self._closed is None or self._closed.done():
            return
        self._fail_waiting(Closed(_describe("the connection is closed", ended), close_code=ended.code))
        self._become("closed")
        self._closed.set_result(ended)
        if self._threads is not None:
            self._threads.close()

    def _fail_waiting(self, error: Exception) -> None:
        self._evals.fail_all(error)
        waiting, self._waiting = self._waiting, set()
        for one in waiting:
            if not one.done():
                one.set_exception(error)

    async def _peer(self) -> Peer:
        self._check_open()
        if self._connection is not None and not self._connection.ended.done():
            return self._connection.peer
        if len(self._waiting) >= CALLS_WAITING_MAX:
            raise Busy(f"{CALLS_WAITING_MAX} calls wait for the connection")
        waiting: asyncio.Future[Peer] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        try:
            return await waiting
        finally:
            self._waiting.discard(waiting)

    def _check_open(self) -> None:
        if self._state == "new":
            raise RuntimeError("the client is not connected: use `async with client`, or `await client.connect()`")
        if self._state == "closed" or self._closing.is_set():
            raise Closed("the client is closed", close_code=1000)

    def _become(self, state: State) -> None:
        self._state = state
        call_hook(self._on_state, state)


def _describe(what: str, ended: Ended) -> str:
    return f"{what} ({ended.code}) {ended.reason}".strip()


def _key_maker() -> Callable[[], str]:
    """Keys that no other client of the session makes."""
    prefix, numbers = secrets.token_urlsafe(15), count(1)
    return lambda: f"{prefix}/{next(numbers)}"
