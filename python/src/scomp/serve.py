"""Bindings served by a Python program: a package of the server whose `"command"` starts it.

    { "package": "orders", "command": ["python", "orders.py"] }

The server is the client here: it sends the handshake, with the package's configuration, and calls. Functions in an
input are functions of the script; calling one is how a handler reports progress.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from .bindings import Binding, Bindings
from .connection import PROTOCOL, Outbox
from .errors import InvalidParams, InvalidRequest, NotReady, PeerGone, UnsupportedProtocol
from .peer import Handler, Peer, Services
from .rpc import as_record
from .threads import HandlerThreads
from .transport import LineTransport, Transport, TransportClosed, own_pipes

Build = Callable[[Any], Bindings]
"""Makes the bindings of the configuration in the declaration file. What it raises is the start error of the server."""


def serve(bindings: Bindings | Build, *, name: str = "python") -> None:
    """Serves bindings over stdin and stdout until the input ends. `print` writes to stderr from here on."""
    asyncio.run(serve_async(bindings, name=name))


async def serve_async(bindings: Bindings | Build, *, name: str = "python", transport: Transport | None = None) -> None:
    """The same inside of an event loop, over any transport."""
    host = _Host(bindings, name, transport if transport is not None else await own_pipes())
    await host.run()


class _Host:
    def __init__(self, source: Bindings | Build, name: str, transport: Transport | LineTransport) -> None:
        self._source = source
        self._name = name
        self._transport = transport
        self._outbox = Outbox()
        self._handlers: dict[str, Handler] = {}
        self._is_ready = False
        self._threads = HandlerThreads()
        services = Services(_Gate(self), self._threads, methods={"handshake": self._handshake})
        self._peer = Peer(self._outbox.put, services)

    async def run(self) -> None:
        writer = asyncio.get_running_loop().create_task(self._write_all())
        try:
            while True:
                await self._outbox.room()
                self._peer.on_text(await self._transport.receive())
        except TransportClosed:
            # Calls are finished even if the server is gone, for they may have effects; calls back fail.
            self._peer.end_requests(PeerGone("the server is gone"))
            await self._peer.calls.finished()
            with contextlib.suppress(TransportClosed):
                await self._outbox.drained()
        finally:
            writer.cancel()
            self._threads.close()
            await self._transport.close()

    def find(self, name: str) -> Handler | None:
        if not self._is_ready:
            raise NotReady("a handshake comes first")
        return self._handlers.get(name)

    def _handshake(self, params: Any) -> object:
        if self._is_ready:
            raise InvalidRequest("the handshake is complete already")
        record = as_record(params) or {}
        if record.get("protocol") != PROTOCOL:
            raise UnsupportedProtocol(
                f'unsupported protocol version "{record.get("protocol")}"',
                data={"kind": "UnsupportedProtocol", "supported": [PROTOCOL]},
            )
        bindings = self._build((as_record(record.get("metadata")) or {}).get("config"))
        self._handlers = dict[str, Handler](bindings.items())
        self._is_ready = True
        return {
            "protocol": PROTOCOL,
            "sessionId": self._name,
            # The server keeps the limits of a package in its declaration file.
            "bindings": [_without_limits(binding) for binding in bindings.values()],
            "metadata": {"server": {"name": self._name, "version": "0.1.0"}},
        }

    def _build(self, config: Any) -> Bindings:
        if isinstance(self._source, Bindings):
            return self._source
        try:
            return self._source(config)
        except Exception as error:
            raise InvalidParams(f"{type(error).__name__}: {error}") from error

    async def _write_all(self) -> None:
        with contextlib.suppress(TransportClosed):
            while True:
                text = await self._outbox.take()
                await self._transport.send(text)
                self._outbox.written(text)
        # The server reads no more: answers are dropped, so that what runs can finish.
        while True:
            self._outbox.written(await self._outbox.take())


class _Gate(Mapping[str, Handler]):
    """The handlers, once there was a handshake."""

    def __init__(self, host: _Host) -> None:
        self._host = host

    def __getitem__(self, name: str) -> Handler:
        handler = self._host.find(name)
        if handler is None:
            raise KeyError(name)
        return handler

    def __iter__(self) -> Any:
        return iter(self._host._handlers)

    def __len__(self) -> int:
        return len(self._host._handlers)


def _without_limits(binding: Binding) -> dict[str, Any]:
    return {key: member for key, member in binding.declaration.items() if key != "limits"}
