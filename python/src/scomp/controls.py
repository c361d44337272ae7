"""The session's own controls, which the server offers as bindings: `session.*` and `bindings.*`.

A control that the server gains is one method here, and one in `sync.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from .connection import Session


class Controls(ABC):
    @abstractmethod
    async def invoke(self, binding: str, input: object = None) -> Any: ...

    async def types(self) -> str:
        """TypeScript declarations of all bindings, for a prompt."""
        return str(await self.invoke("bindings.types"))

    async def search(self, query: str) -> Any:
        """Bindings whose names or descriptions match."""
        return await self.invoke("bindings.search", {"query": query})

    async def info(self) -> dict[str, Any]:
        """What the server knows of the session: its memory, its queue."""
        info: dict[str, Any] = await self.invoke("session.info")
        return info

    async def cancel(self, eval_id: int | str | None = None) -> list[int | str]:
        """Cancels an eval by its id, or all of them; returns the ids of those that were cancelled."""
        cancelled: list[int | str] = await self.invoke("session.cancel", {} if eval_id is None else {"evalId": eval_id})
        return cancelled

    async def reset(self) -> None:
        """Starts over with a fresh context: what runs is cancelled, what was declared is gone."""
        await self.invoke("session.reset")

    async def checkpoint(self, label: str | None = None) -> int:
        """Marks this moment of an idle session; returns the number for `rewind` and `fork`. 16 are kept."""
        marked = await self.invoke("session.checkpoint", {} if label is None else {"label": label})
        return int(marked["checkpoint"])

    async def checkpoints(self) -> list[dict[str, Any]]:
        """The moments that the session can go back to, oldest first."""
        checkpoints: list[dict[str, Any]] = await self.invoke("session.checkpoints")
        return checkpoints

    async def rewind(self, checkpoint: int) -> None:
        """Takes an idle session back to a checkpoint. Functions that scripts have sent since fail with `UnknownRef`."""
        await self.invoke("session.rewind", {"checkpoint": checkpoint})

    async def fork(self, checkpoint: int | None = None) -> Session:
        """Makes a second session that goes on from this moment of an idle session, or from a checkpoint.
        `Client(url, session=...)` with what it returns resumes it."""
        forked = await self.invoke("session.fork", {} if checkpoint is None else {"checkpoint": checkpoint})
        return Session(id=forked["sessionId"], token=forked["token"])
