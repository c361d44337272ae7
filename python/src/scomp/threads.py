"""Plain functions on threads, and threads that wait for the event loop.

A plain function may block, so it never runs on the event loop. The number of threads is limited. A thread that waits
for the server does nothing, and what it waits for may be a call that needs a thread: so it lends its place.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from .limits import HANDLER_THREADS_LENT_MAX, HANDLER_THREADS_MAX

T = TypeVar("T")

_current = threading.local()
"""`pool`: the pool that the running thread belongs to, if it runs a handler."""


class HandlerThreads:
    """The threads of a client. Everything but `lending` happens on its event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._executor = ThreadPoolExecutor(
            max_workers=HANDLER_THREADS_MAX + HANDLER_THREADS_LENT_MAX, thread_name_prefix="scomp-handler"
        )
        self._running = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def run(self, function: Callable[[], T]) -> T:
        """Runs the function on a thread. A task that is cancelled stops waiting; the thread goes on to its end."""
        await self._enter()
        context = contextvars.copy_context()
        work = self._loop.run_in_executor(self._executor, lambda: context.run(self._mark_and_run, function))
        # The place is free when the thread is, not when the waiting task is cancelled.
        work.add_done_callback(lambda done: self._leave() if not done.cancelled() else None)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            work.add_done_callback(_ignore_outcome)
            raise

    def close(self) -> None:
        self._executor.shutdown(wait=False)

    @contextmanager
    def lending(self) -> Generator[None, None, None]:
        """The calling thread waits for the server: another may run in its place."""
        self._loop.call_soon_threadsafe(self._leave)
        try:
            yield
        finally:
            self._loop.call_soon_threadsafe(self._take_back)

    def _mark_and_run(self, function: Callable[[], T]) -> T:
        _current.pool = self
        try:
            return function()
        except (StopIteration, SystemExit) as error:
            # Neither can travel through a future: the first breaks it, the second would end the event loop.
            raise RuntimeError(f"{type(error).__name__}: {error}") from error
        finally:
            _current.pool = None

    async def _enter(self) -> None:
        if self._running < HANDLER_THREADS_MAX and not self._waiting:
            self._running += 1
            return
        turn = self._loop.create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave()
            raise

    def _leave(self) -> None:
        self._running -= 1
        while self._waiting and self._running < HANDLER_THREADS_MAX:
            turn = self._waiting.popleft()
            if not turn.done():
                self._running += 1
                turn.set_result(None)

    def _take_back(self) -> None:
        # Not awaited: the thread runs already. For a while there may be more than the limit.
        self._running += 1


def wait_for_loop(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    """Runs a coroutine on the loop of another thread and waits for it. An interrupt cancels it."""
    if _is_running_here(loop):
        work.close()
        raise RuntimeError("a blocking call on the event loop's own thread would wait for itself for ever")
    pool: HandlerThreads | None = getattr(_current, "pool", None)
    if pool is None:
        return _wait(work, loop)
    with pool.lending():
        return _wait(work, loop)


def _wait(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    try:
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, loop)
    except RuntimeError:
        work.close()
        raise
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _is_running_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _ignore_outcome(done: asyncio.Future[Any]) -> None:
    if not done.cancelled():
        done.exception()
