"""Whether a message is what a transcript expects; the rules are those of tests/support/pattern.rs."""

from __future__ import annotations

import json
import re
from typing import Any

Memory = dict[str, Any]


def difference(expected: Any, got: Any, memory: Memory, path: str = "") -> str | None:
    """Where and how they differ, or `None`."""
    differ = f"{path}: expected {json.dumps(expected)}, got {json.dumps(got)}"
    if isinstance(expected, str):
        return None if _text_matches(expected, got, memory) else differ
    if isinstance(expected, list):
        is_open = expected[-1:] == ["..."]
        wanted = expected[:-1] if is_open else expected
        if not isinstance(got, list) or len(got) < len(wanted) or (len(got) > len(wanted) and not is_open):
            return differ
        return _first(difference(one, got[index], memory, f"{path}/{index}") for index, one in enumerate(wanted))
    if not isinstance(expected, dict):
        return None if _same(expected, got) else differ
    if not isinstance(got, dict):
        return differ
    keys = [key for key in expected if key != "..."]
    for key in keys:
        if key not in got:
            return f"{path}: no `{key}` in {json.dumps(got)}"
    extra = [key for key in got if key not in expected]
    if extra and "..." not in expected:
        return f"{path}: unexpected `{extra[0]}` in {json.dumps(got)}"
    return _first(difference(expected[key], got[key], memory, f"{path}/{key}") for key in keys)


def filled(text: str, memory: Memory) -> str:
    """The text with everything remembered put in."""
    for name, value in memory.items():
        text = text.replace(f"${{{name}}}", value if isinstance(value, str) else json.dumps(value))
    return text


def _first(found: Any) -> str | None:
    return next((one for one in found if one is not None), None)


def _same(expected: Any, got: Any) -> bool:
    # `True == 1` in Python, but they are different values on the wire.
    if isinstance(expected, bool) != isinstance(got, bool):
        return False
    # Numbers are doubles, however many digits are written.
    if isinstance(expected, int | float) and isinstance(got, int | float):
        return float(expected) == float(got)
    return expected == got


def _text_matches(pattern: str, got: Any, memory: Memory) -> bool:
    if pattern == "*":
        return True
    named = re.fullmatch(r"\$\{(.*)\}", pattern)
    if named is not None:
        return _same(memory.setdefault(named[1], got), got)
    if not isinstance(got, str):
        return False
    starts, ends = pattern.endswith("*"), pattern.startswith("*")
    if starts and ends:
        return pattern[1:-1] in got
    if ends:
        return got.endswith(pattern[1:])
    return got.startswith(pattern[:-1]) if starts else got == pattern
