"""A server that says what a test wants, after a handshake that is in order."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.server import ServerConnection, serve

HANDSHAKE = {
    "protocol": "0.1",
    "sessionId": "sess_fake",
    "bindings": [],
    "metadata": {"session": {"resumed": False, "token": "t", "ttlMs": 1000, "evalsQueued": 0}},
}
Answer = Callable[[ServerConnection, dict[str, Any]], Awaitable[None]]


@asynccontextmanager
async def fake_server(answer: Answer, *, handshake: object = HANDSHAKE) -> AsyncIterator[str]:
    """Answers handshakes and `session.close`; `answer` gets every other message. Yields the URL."""

    async def talk(socket: ServerConnection) -> None:
        async for text in socket:
            message = json.loads(text)
            if message.get("method") == "handshake":
                await reply(socket, message, handshake)
            elif (message.get("params") or {}).get("binding") == "session.close":
                await reply(socket, message, {"value": None})
            else:
                await answer(socket, message)

    async with serve(talk, "127.0.0.1", 0, max_size=None) as server:
        yield f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/"


async def reply(socket: ServerConnection, message: dict[str, Any], result: object) -> None:
    await socket.send(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}))
