"""The evals of a client, in order, from the call to the outcome, across as many connections as that takes.

Each has a key, so that the server runs it once however often it is sent. An eval stays here until it is answered; after
a break those that were sent are sent again, first and in their order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .console import ConsoleLine, read_lines
from .errors import ConnectionFailed, QueueFull, ScompError, Timeout
from .hooks import call_hook
from .limits import EVALS_IN_FLIGHT_MAX, EVALS_WAITING_MAX
from .peer import Peer, Pending
from .rpc import as_record

OnConsole = Callable[[ConsoleLine], object]


@dataclass(frozen=True)
class EvalStats:
    cpu_ms: float
    wall_ms: float
    binding_calls: int
    memory_bytes: int


@dataclass(frozen=True)
class EvalOutput:
    value: Any
    console: list[ConsoleLine] = field(default_factory=list[ConsoleLine])
    """What the script printed."""
    console_dropped: int = 0
    """Lines that were printed beyond the limit."""
    stats: EvalStats | None = None
    """If requested."""


class _Entry:
    def __init__(
        self, params: dict[str, Any], outcome: asyncio.Future[EvalOutput], on_console: OnConsole | None
    ) -> None:
        self.params = params
        self.outcome = outcome
        self.on_console = on_console
        self.id: int | None = None
        """Its id on the current connection, once it is sent there."""
        self.was_sent = False
        self.is_abandoned = False
        self.lines_delivered: list[tuple[str, str, float]] = []

    def deliver(self, line: ConsoleLine) -> None:
        self.lines_delivered.append((line.level, line.text, line.at_ms))
        call_hook(self.on_console, line)

    def deliver_missed(self, lines: list[ConsoleLine]) -> None:
        """What a connection missed when it broke, or all of it if lines are not streamed, is in the answer."""
        if self.on_console is None:
            return
        known = iter(self.lines_delivered)
        expected = next(known, None)
        for line in lines:
            if expected == (line.level, line.text, line.at_ms):
                expected = next(known, None)
            else:
                call_hook(self.on_console, line)


class Evals:
    def __init__(self, make_key: Callable[[], str] | None, *, blocking: bool = False) -> None:
        """`make_key` names the evals that have no key of their own; without it they are not sent again."""
        self._make_key = make_key
        self._blocking = blocking
        self._entries: dict[_Entry, None] = {}
        self._by_id: dict[int, _Entry] = {}
        self._peer: Peer | None = None
        self._in_flight = 0

    async def run(
        self, params: dict[str, Any], *, on_console: OnConsole | None = None, deadline: float | None = None
    ) -> EvalOutput:
        """Runs an eval. A task that is cancelled, or past its deadline, cancels it on the server too."""
        if len(self._entries) >= EVALS_WAITING_MAX:
            raise QueueFull(f"{EVALS_WAITING_MAX} evals wait here already")
        if "key" not in params and self._make_key is not None:
            params["key"] = self._make_key()
        outcome: asyncio.Future[EvalOutput] = asyncio.get_running_loop().create_future()
        entry = _Entry(params, outcome, on_console)
        self._entries[entry] = None
        self._pump()
        try:
            await asyncio.wait([outcome], timeout=deadline)
        except asyncio.CancelledError:
            self._abandon(entry)
            raise
        if not outcome.done():
            self._abandon(entry)
            raise Timeout(f"the eval had no outcome within {deadline} s", data={"kind": "Timeout"})
        return outcome.result()

    def attach(self, peer: Peer) -> None:
        """A connection to the session is there: what was sent before goes first, for it stands first."""
        self._peer = peer
        self._in_flight = 0
        self._by_id.clear()
        for entry in self._entries:
            entry.id = None
        self._pump()

    def detach(self, reason: Exception) -> None:
        """The connection is gone; evals wait for the next one, but those without key may have run: they fail."""
        self._peer = None
        for entry in list(self._entries):
            if entry.was_sent and "key" not in entry.params:
                self._fail(entry, reason)

    def fail_all(self, reason: Exception) -> int:
        """Fails all evals: no answer comes any more. Returns how many there were."""
        self._peer = None
        entries = list(self._entries)
        for entry in entries:
            self._fail(entry, reason)
        return len(entries)

    def on_console(self, line: ConsoleLine) -> None:
        """Passes a line on to the eval that printed it, if that listens."""
        entry = self._by_id.get(line.eval_id) if isinstance(line.eval_id, int) else None
        if entry is not None and entry.on_console is not None:
            entry.deliver(line)

    def _pump(self) -> None:
        for entry in list(self._entries):
            if self._peer is None or self._in_flight >= EVALS_IN_FLIGHT_MAX:
                return
            if entry.id is None:
                self._send(entry, self._peer)

    def _send(self, entry: _Entry, peer: Peer) -> None:
        try:
            pending = peer.request("eval", entry.params)
        except ConnectionFailed:
            # The connection is over and we have yet to learn of it: the next one takes the eval along.
            return
        except ScompError as error:
            self._fail(entry, error)
            return
        entry.id, entry.was_sent = pending.id, True
        self._by_id[pending.id] = entry
        self._in_flight += 1
        pending.answer.add_done_callback(lambda _: self._on_answer(entry, peer, pending))
        # Abandoned without a connection: it may be running, and only an eval of this connection can be cancelled.
        if entry.is_abandoned:
            self._cancel(entry)

    def _on_answer(self, entry: _Entry, peer: Peer, pending: Pending) -> None:
        error = pending.answer.exception()
        # The end of a connection fails everything on it; what becomes of an eval is decided by attach and detach.
        if self._peer is not peer or (isinstance(error, ConnectionFailed) and error.close_code is not None):
            return
        self._in_flight -= 1
        self._by_id.pop(pending.id, None)
        if isinstance(error, Exception):
            if isinstance(error, ScompError):
                entry.deliver_missed(error.console)
            self._fail(entry, error)
        else:
            self._complete(entry, peer, pending.answer.result())
        self._pump()

    def _complete(self, entry: _Entry, peer: Peer, result: object) -> None:
        try:
            # Decoded also for a caller that left: the functions in it are counted, and released by the collector.
            output = _read_output(result, peer, blocking=self._blocking)
        except ScompError as error:
            self._fail(entry, error)
            return
        entry.deliver_missed(output.console)
        self._entries.pop(entry, None)
        if not entry.outcome.done():
            entry.outcome.set_result(output)

    def _fail(self, entry: _Entry, error: Exception) -> None:
        self._entries.pop(entry, None)
        if not entry.outcome.done():
            entry.outcome.set_exception(error)
            entry.outcome.exception()

    def _abandon(self, entry: _Entry) -> None:
        entry.on_console = None
        # A late value must not reach the future: the traceback of the cancelled task would hold its functions.
        entry.outcome.cancel()
        if not entry.was_sent:
            self._entries.pop(entry, None)
        elif entry in self._entries:
            entry.is_abandoned = True
            self._cancel(entry)

    def _cancel(self, entry: _Entry) -> None:
        if self._peer is None or entry.id is None:
            return
        try:
            # The result is ignored: the eval's own answer reports the cancellation.
            params = {"binding": "session.cancel", "input": {"evalId": entry.id}}
            self._peer.request("invoke", params).answer.add_done_callback(lambda done: done.exception())
        except ScompError:
            # Too many requests wait, or the connection is over: the next one cancels it.
            return


def _read_output(result: object, peer: Peer, *, blocking: bool) -> EvalOutput:
    value = peer.value(result, blocking=blocking)
    record = as_record(result) or {}
    dropped, stats = record.get("consoleDropped"), as_record(record.get("stats"))
    return EvalOutput(
        value=value,
        console=read_lines(record.get("console")),
        console_dropped=dropped if isinstance(dropped, int) else 0,
        stats=None
        if stats is None
        else EvalStats(
            cpu_ms=stats.get("cpuMs", 0.0),
            wall_ms=stats.get("wallMs", 0.0),
            binding_calls=stats.get("bindingCalls", 0),
            memory_bytes=stats.get("memoryBytes", 0),
        ),
    )
