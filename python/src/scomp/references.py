"""Functions as values: those sent to the peer, those received from it. Both end with the connection.

A function that was received is released when the collector drops it. The collector may run on any thread and at any
point of the program, so a finalizer only notes the release; the event loop sends what was noted, in batches.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections import deque
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, TypeVar

from .errors import TooManyRefs, UnknownRef
from .limits import REFERENCES_MAX
from .threads import wait_for_loop
from .values import AnyFunction, ExportFunction

T = TypeVar("T")


class RemoteFunction:
    """A function of the script. Awaiting a call returns its value; it ends with its connection (`ConnectionLost`)."""

    def __init__(self, imports: Imports, identifier: str, name: str | None) -> None:
        self._imports = imports
        self._identifier = identifier
        self._blocking: weakref.ref[BlockingFunction] | None = None
        self.released = False
        self.__name__ = name or ""

    async def __call__(self, *args: object) -> Any:
        if self.released:
            raise UnknownRef(f"{self.__name__ or self._identifier} was released")
        return await self._imports.call(self._identifier, args)

    def release(self) -> None:
        """Releases it on the server before the collector does."""
        self._imports.release(self)

    @property
    def blocking(self) -> BlockingFunction:
        """The same function for code that is not async. It must not be called on the event loop's own thread."""
        known = self._blocking() if self._blocking is not None else None
        if known is None:
            known = BlockingFunction(self, self._imports.loop)
            self._blocking = weakref.ref(known)
        return known

    def __repr__(self) -> str:
        return f"<RemoteFunction {self.__name__ or self._identifier}>"


class BlockingFunction:
    """A function of the script for plain functions and the sync client: a call waits for its value."""

    def __init__(self, remote: RemoteFunction, loop: asyncio.AbstractEventLoop) -> None:
        self._remote = remote
        self._loop = loop
        self.__name__ = remote.__name__

    def __call__(self, *args: object) -> Any:
        return wait_for_loop(self._remote(*args), self._loop)

    def release(self) -> None:
        self._loop.call_soon_threadsafe(self._remote.release)

    def __repr__(self) -> str:
        return f"<BlockingFunction {self.__name__}>"


class _Export:
    def __init__(self, function: AnyFunction) -> None:
        self.function = function
        self.sent = 1


class Exports:
    """The functions that were sent. Each sending counts one; the peer releases them by count. Ids are not reused."""

    def __init__(self, prefix: str = "c") -> None:
        self._prefix = prefix
        self._ids_used = 0
        self._by_id: dict[str, _Export] = {}
        self._ids: dict[Hashable, str] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def sending(self, build: Callable[[ExportFunction], T]) -> T:
        """Runs `build` with what names functions. If it raises, nothing counts as sent: it was never on the wire."""
        named: list[str] = []

        def export(function: AnyFunction) -> dict[str, object]:
            identifier = self._add(function)
            named.append(identifier)
            name = getattr(function, "__name__", "")
            return {"$fn": identifier, "name": name} if isinstance(name, str) and name else {"$fn": identifier}

        try:
            return build(export)
        except BaseException:
            for identifier in named:
                self.release(identifier, 1)
            raise

    def get(self, identifier: str) -> AnyFunction | None:
        entry = self._by_id.get(identifier)
        return None if entry is None else entry.function

    def release(self, identifier: str, count: int) -> None:
        """The peer releases `count` sendings. More than there were, or an unknown id, is harmless."""
        entry = self._by_id.get(identifier)
        if entry is None:
            return
        entry.sent -= count
        if entry.sent <= 0:
            del self._by_id[identifier]
            self._ids.pop(_key(entry.function), None)

    def _add(self, function: AnyFunction) -> str:
        key = _key(function)
        known = self._ids.get(key)
        if known is not None:
            self._by_id[known].sent += 1
            return known
        if len(self._by_id) >= REFERENCES_MAX:
            raise TooManyRefs(f"{REFERENCES_MAX} functions are with the peer already")
        self._ids_used += 1
        identifier = f"{self._prefix}{self._ids_used}"
        self._by_id[identifier] = _Export(function)
        self._ids[key] = identifier
        return identifier


def _key(function: AnyFunction) -> Hashable:
    # A bound method is a new object at every access, but equal to the one before.
    try:
        hash(function)
    except TypeError:
        return id(function)
    return function


class _Holder:
    """One function object on this side, and how often the peer sent its reference."""

    def __init__(self, identifier: str) -> None:
        self.identifier = identifier
        self.received = 1
        self.function: weakref.ref[RemoteFunction] | None = None
        self.finalizer: weakref.finalize[[_Holder], RemoteFunction] | None = None


class Imports:
    """The functions that were received."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        call: Callable[[str, tuple[object, ...]], Coroutine[Any, Any, Any]],
        send_release: Callable[[str, int], None],
    ) -> None:
        self.loop = loop
        self.call = call
        self._send_release = send_release
        self._live: dict[str, _Holder] = {}
        self._dropped: deque[_Holder] = deque()
        self._is_flush_scheduled = False

    def __len__(self) -> int:
        return len(self._live)

    def receive(self, identifier: str, name: str | None) -> RemoteFunction:
        known = self._live.get(identifier)
        function = known.function() if known is not None and known.function is not None else None
        if known is not None and function is not None:
            known.received += 1
            return function
        if len(self._live) >= REFERENCES_MAX:
            self._send_release(identifier, 1)
            raise TooManyRefs(f"{REFERENCES_MAX} functions of the peer are held already")
        function, holder = RemoteFunction(self, identifier, name), _Holder(identifier)
        holder.function = weakref.ref(function)
        holder.finalizer = weakref.finalize(function, self._note_dropped, holder)
        holder.finalizer.atexit = False
        self._live[identifier] = holder
        return function

    def release(self, function: RemoteFunction) -> None:
        holder = self._live.get(function._identifier)
        if function.released or holder is None or holder.function is None or holder.function() is not function:
            return
        function.released = True
        # Here and not in the flush: if the reference comes again before that, it is a new function.
        del self._live[holder.identifier]
        if holder.finalizer is not None:
            holder.finalizer.detach()
        self._note_dropped(holder)

    def _note_dropped(self, holder: _Holder) -> None:
        """Runs wherever the collector runs: nothing but thread-safe steps, and no table of ours is touched."""
        self._dropped.append(holder)
        if not self._is_flush_scheduled:
            self._is_flush_scheduled = True
            # The loop may be closed by now; its connection, and so its references, are gone then.
            with contextlib.suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self._flush)

    def _flush(self) -> None:
        # Cleared first: what is noted from here on schedules the next flush.
        self._is_flush_scheduled = False
        counts: dict[str, int] = {}
        while self._dropped:
            holder = self._dropped.popleft()
            # The reference may have come again since: then another holder has its place.
            if self._live.get(holder.identifier) is holder:
                del self._live[holder.identifier]
            counts[holder.identifier] = counts.get(holder.identifier, 0) + holder.received
        for identifier, count in counts.items():
            self._send_release(identifier, count)
