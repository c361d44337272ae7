"""A relay before a server whose connections can be cut, silenced and refused."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType


class CutPoint:
    """`async with CutPoint(address)`; connect to its `url`."""

    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self._target = (host, int(port))
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._is_accepting = True
        self._is_silent = False
        self.swallowed = asyncio.Event()
        """Set when an answer was swallowed."""

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"ws://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/"

    async def __aenter__(self) -> CutPoint:
        self._server = await asyncio.start_server(self._join, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self.refuse()
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Ends every connection immediately, without a close frame. The next one is not silent."""
        self._is_silent = False
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    def silence(self) -> None:
        """From here on answers do not arrive, while requests still do: the connection looks alive."""
        self.swallowed.clear()
        self._is_silent = True

    def speak(self) -> None:
        self._is_silent = False

    def refuse(self) -> None:
        self._is_accepting = False
        self.cut()

    def accept(self) -> None:
        self._is_accepting = True

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._is_accepting:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers += [writer, far_writer]
        for source, sink, is_answer in ((reader, far_writer, False), (far_reader, writer, True)):
            task = asyncio.create_task(self._pump(source, sink, is_answer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, is_answer: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                if is_answer and self._is_silent:
                    self.swallowed.set()
                    continue
                sink.write(data)
                await sink.drain()
        sink.transport.abort()
