"""The session's own controls, which the server offers as bindings: `session.*` and `bindings.*`.

A control that the server gains, such as checkpoints and forks of a session, is one method here, and one in `sync.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


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
