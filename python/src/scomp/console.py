"""Lines that scripts print, read from the wire."""

from __future__ import annotations

from dataclasses import dataclass

from .rpc import as_list, as_record


@dataclass(frozen=True)
class ConsoleLine:
    """A line that a script printed."""

    level: str
    text: str
    at_ms: float
    """Milliseconds since the start of the eval."""
    late: bool = False
    """It came after the end of the eval that caused it."""
    eval_id: int | str | None = None

    @classmethod
    def read(cls, wire: object) -> ConsoleLine | None:
        record = as_record(wire)
        if record is None or not isinstance(record.get("text"), str):
            return None
        at_ms, eval_id = record.get("atMs"), record.get("evalId")
        return cls(
            level=str(record.get("level", "log")),
            text=record["text"],
            at_ms=at_ms if isinstance(at_ms, int | float) else 0,
            late=record.get("late") is True,
            eval_id=eval_id if isinstance(eval_id, int | str) else None,
        )


def read_lines(wire: object) -> list[ConsoleLine]:
    return [line for line in map(ConsoleLine.read, as_list(wire) or []) if line is not None]
