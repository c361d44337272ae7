"""The client for programs without asyncio: the same names, and every call waits for its outcome.

Each client has an event loop on a thread of its own. Its methods may be called from any thread, also from handlers;
not from hooks such as `on_console`, which run on that loop. Functions of scripts are plain functions here.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, TypeVar

from . import client as asynchronous
from .connection import Session
from .evals import EvalOutput, OnConsole
from .namespace import Namespace
from .server import Server
from .threads import wait_for_loop
from .transport import Ended

T = TypeVar("T")


class _LoopThread:
    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="scomp-loop", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join()


class Client:
    """The sync client. It takes the options of `scomp.Client`."""

    def __init__(self, target: str | Server, **options: Any) -> None:
        self._client = asynchronous.Client(target, _facade=self, **options)
        self._thread: _LoopThread | None = None
        self.binding = self._client.binding
        self.bindings = Namespace(lambda: [one["name"] for one in self._client.declarations], self.invoke)

    def connect(self) -> Client:
        if self._thread is not None:
            raise RuntimeError("the client has been connected already")
        self._thread = _LoopThread()
        try:
            self._wait(self._client.connect())
        except BaseException:
            self._thread.stop()
            raise
        return self

    def __enter__(self) -> Client:
        return self if self._thread is not None else self.connect()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._thread is not None and not self._thread.loop.is_closed():
            self._wait(self._client.close())
            self._thread.stop()

    def detach(self) -> Session:
        session = self._wait(self._client.detach())
        if self._thread is not None:
            self._thread.stop()
        return session

    def wait_closed(self) -> Ended:
        return self._wait(self._client.wait_closed())

    @property
    def session(self) -> Session:
        return self._client.session

    @property
    def declarations(self) -> list[dict[str, Any]]:
        return self._client.declarations

    @property
    def metadata(self) -> dict[str, Any]:
        return self._client.metadata

    @property
    def state(self) -> asynchronous.State:
        return self._client.state

    def eval(
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
        options: dict[str, Any] = {"timeout": timeout, "deadline": deadline, "key": key, "name": name}
        return self._wait(self._client.eval(code, fresh=fresh, on_console=on_console, **options))

    def run(
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
        options: dict[str, Any] = {"timeout": timeout, "deadline": deadline, "key": key, "name": name}
        return self._wait(self._client.run(code, fresh=fresh, stats=stats, on_console=on_console, **options))

    def invoke(self, binding: str, input: object = None) -> Any:
        return self._wait(self._client.invoke(binding, input))

    def types(self) -> str:
        return self._wait(self._client.types())

    def search(self, query: str) -> Any:
        return self._wait(self._client.search(query))

    def info(self) -> dict[str, Any]:
        return self._wait(self._client.info())

    def cancel(self, eval_id: int | str | None = None) -> list[int | str]:
        return self._wait(self._client.cancel(eval_id))

    def reset(self) -> None:
        self._wait(self._client.reset())

    def checkpoint(self, label: str | None = None) -> int:
        return self._wait(self._client.checkpoint(label))

    def checkpoints(self) -> list[dict[str, Any]]:
        return self._wait(self._client.checkpoints())

    def rewind(self, checkpoint: int) -> None:
        self._wait(self._client.rewind(checkpoint))

    def fork(self, checkpoint: int | None = None) -> Session:
        return self._wait(self._client.fork(checkpoint))

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if self._thread is None or self._thread.loop.is_closed():
            work.close()
            raise RuntimeError("the client is not connected: use `with client`, or `client.connect()`")
        return wait_for_loop(work, self._thread.loop)


def connect(target: str | Server, **options: Any) -> Client:
    """Connects; `with connect(url) as client` closes it."""
    return Client(target, **options).connect()
