"""The peer's calls that run here: a bounded number concurrently, the others in the order in which they came."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from .errors import Cancelled
from .limits import INVOKES_QUEUED_MAX, INVOKES_RUNNING_MAX
from .rpc import Id


class Call:
    """What a handler knows of its call, beside the input: a parameter with this type hint receives it.

    An `async` handler is cancelled when its answer is not awaited any more: the eval was cancelled or timed out, the
    call took too long, the session ended, or the connection is gone. A plain function cannot be stopped from outside;
    it may look at `cancelled`, or wait for it.
    """

    def __init__(self, binding: str | None, client: Any = None) -> None:
        self.binding = binding
        """The name of the binding; `None` for a function that was passed as a value."""
        self.client = client
        """The client on which the call came, for calls back; `None` in a program that serves bindings."""
        self._cancelled = threading.Event()

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def wait_cancelled(self, timeout: float | None = None) -> bool:
        """For plain functions: waits until the call is cancelled, or so many seconds. Returns whether it is."""
        return self._cancelled.wait(timeout)

    def raise_if_cancelled(self) -> None:
        if self.cancelled:
            raise Cancelled("the caller does not wait for this call any more")

    def cancel(self) -> None:
        """Marks it as cancelled. The connection does this."""
        self._cancelled.set()


Run = Callable[[Call], Coroutine[Any, Any, None]]
"""Runs a handler and answers; raises nothing but `CancelledError`."""


class IncomingCalls:
    """Running and waiting calls by their ids."""

    def __init__(self, borrowed: Callable[[], int]) -> None:
        """`borrowed` counts the requests of ours that wait for the peer. A handler that waits for one does nothing,
        and what it waits for may be a call that is queued here: so each lends its place."""
        self._borrowed = borrowed
        self._tasks: dict[Id, tuple[asyncio.Task[None], Call]] = {}
        self._queued: dict[Id, tuple[Call, Run]] = {}
        self._order: deque[Id] = deque()
        self._idle = asyncio.Event()
        self._idle.set()

    def __contains__(self, identifier: Id) -> bool:
        return identifier in self._tasks or identifier in self._queued

    def add(self, identifier: Id, call: Call, run: Run) -> bool:
        """Runs it now or later; `False` if too many wait."""
        if len(self._queued) >= INVOKES_QUEUED_MAX:
            return False
        self._queued[identifier] = (call, run)
        self._order.append(identifier)
        self.pump()
        return True

    def pump(self) -> None:
        """Starts calls that wait, as far as there are places."""
        while self._order and len(self._tasks) < INVOKES_RUNNING_MAX + self._borrowed():
            identifier = self._order.popleft()
            queued = self._queued.pop(identifier, None)
            if queued is None:  # It was cancelled while it waited.
                continue
            call, run = queued
            task = asyncio.get_running_loop().create_task(run(call), name=f"scomp {call.binding or 'function'}")
            self._tasks[identifier] = (task, call)
            self._idle.clear()
            task.add_done_callback(partial(self._finish, identifier))

    def cancel(self, identifier: Id) -> None:
        """The answer is not awaited any more. A call that has not begun never does."""
        if self._queued.pop(identifier, None) is not None:
            return
        running = self._tasks.get(identifier)
        if running is not None:
            task, call = running
            call.cancel()
            task.cancel()

    def end(self) -> None:
        """The connection is over."""
        self._queued.clear()
        self._order.clear()
        for identifier in list(self._tasks):
            self.cancel(identifier)

    async def finished(self) -> None:
        """Waits until nothing runs here."""
        await self._idle.wait()

    def _finish(self, identifier: Id, _: asyncio.Task[None]) -> None:
        del self._tasks[identifier]
        if not self._tasks and not self._queued:
            self._idle.set()
        self.pump()
