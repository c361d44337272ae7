"""The text of an error for a model: message, place, suggestions, cause."""

from __future__ import annotations

from .limits import REPORT_CAUSES_MAX
from .rpc import as_list, as_record


def build_report(message: str, data: object) -> str:
    lines = [message]
    for _ in range(REPORT_CAUSES_MAX):
        record = as_record(data)
        if record is None:
            break
        lines += _details(record)
        cause = record.get("cause")
        if cause is None:
            break
        inner = as_record(cause)
        text = inner.get("message", cause) if inner is not None else cause
        if text not in lines[0]:
            lines.append(f"caused by: {text}")
        data = inner.get("data") if inner is not None else None
    return "\n".join(lines)


def _details(record: dict[str, object]) -> list[str]:
    lines: list[str] = []
    stack = record.get("stack")
    if isinstance(stack, str):
        lines += [f"  {line.strip()}" for line in stack.splitlines() if line.strip()]
    for problem in as_list(record.get("errors")) or []:
        inner = as_record(problem)
        if inner is not None:
            lines.append(f"  {inner.get('path') or '/'}: {inner.get('message')}")
    names = as_list(record.get("suggestions")) or []
    if names:
        lines.append(f"did you mean {', '.join(map(str, names))}?")
    return lines
