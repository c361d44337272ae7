"""Plays a transcript over a bare WebSocket, as the Rust suite does."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from support.pattern import Memory, difference, filled
from support.script import Step, settings_of

QUIET_S = 0.15
"""How long nothing has to come where a transcript says that nothing comes."""
ANSWER_WAIT_S = 10.0


class Player:
    def __init__(self, url: str, steps: list[Step]) -> None:
        self._url = url
        self._steps = steps
        self._settings = settings_of(steps)
        self._sockets: dict[str, ClientConnection] = {}
        self._current = ""
        self._memory: Memory = {}
        self._evals: deque[int] = deque()
        self._next_eval = 1001

    async def play(self) -> None:
        """Plays it to the end; an error names the line."""
        first = next(step for step in self._steps if step.word != "#!")
        try:
            if not first.word.startswith("=="):
                await self._connect("", [])
            for step in self._steps:
                try:
                    await self._step(step.word, step.rest)
                except Exception as error:
                    raise AssertionError(f"line {step.line}: {type(error).__name__}: {error}") from error
        finally:
            for socket in self._sockets.values():
                socket.transport.abort()
                await socket.wait_closed()

    async def _step(self, word: str, rest: str) -> None:
        if word == "==":
            await self._connect(rest, [])
        elif word.startswith("==["):
            await self._connect(rest, [name.strip() for name in word[3:-1].split(",")])
        elif word == "<=":
            _check(None if rest == "-" else rest, self._socket.subprotocol)
        elif word == ">>":
            await self._socket.send(filled(rest, self._memory))
        elif word == ">b":
            await self._socket.send(rest.encode())
        elif word == "<<":
            await self._expect(rest)
        elif word == "<<=":
            _check(rest, await self._receive(ANSWER_WAIT_S))
        elif word == "<!":
            _check(int(rest), await self._receive(ANSWER_WAIT_S))
        elif word == "<.":
            _check(None, await self._receive(QUIET_S))
        elif word == ">!":
            await self._leave(rest)
        elif word == "js>":
            await self._eval(rest)
        elif word == "js<":
            await self._answer(f'"result":{{"value":{rest},"...":"*"}}')
        elif word == "js!":
            await self._answer(f'"error":{json.dumps(lenient(rest))}')

    @property
    def _socket(self) -> ClientConnection:
        return self._sockets[self._current]

    async def _receive(self, wait: float) -> str | int | None:
        """The next text, the code of a close, or `None` if nothing comes."""
        try:
            return str(await asyncio.wait_for(self._socket.recv(), wait))
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd is not None else 1006
        except (TimeoutError, asyncio.TimeoutError):
            return None

    async def _connect(self, name: str, offer: list[Any]) -> None:
        self._current = name
        if name in self._sockets:
            return
        self._sockets[name] = await connect(
            self._url, subprotocols=offer or None, compression=None, max_size=None, ping_interval=None, proxy=None
        )
        if self._settings.live:
            params = {**self._settings.params, "protocol": "0.1"}
            await self._socket.send(
                json.dumps({"jsonrpc": "2.0", "id": "live", "method": "handshake", "params": params})
            )
            await self._expect('{"jsonrpc":"2.0","id":"live","result":"*"}')

    async def _leave(self, how: str) -> None:
        socket = self._sockets.pop(self._current)
        if how == "drop":
            socket.transport.abort()
            await socket.wait_closed()
        else:
            await socket.close()

    async def _eval(self, code: str) -> None:
        self._evals.append(self._next_eval)
        params = {"code": filled(code, self._memory)}
        message = {"jsonrpc": "2.0", "id": self._next_eval, "method": "eval", "params": params}
        self._next_eval += 1
        await self._socket.send(json.dumps(message))

    async def _answer(self, outcome: str) -> None:
        await self._expect(f'{{"jsonrpc":"2.0","id":{self._evals.popleft()},{outcome}}}')

    async def _expect(self, expected: str) -> None:
        got = await self._receive(ANSWER_WAIT_S)
        assert isinstance(got, str), f"expected {expected}, got {got!r}"
        found = difference(json.loads(expected), json.loads(got), self._memory)
        assert found is None, f"{found}\n    in {got}"


def _check(expected: object, got: object) -> None:
    assert expected == got, f"expected {expected!r}, got {got!r}"


def lenient(text: str) -> dict[str, Any]:
    """An expected error, with further members allowed in it and in its data."""
    error: dict[str, Any] = json.loads(text)
    if isinstance(error.get("data"), dict):
        error["data"]["..."] = "*"
    return {**error, "...": "*"}
