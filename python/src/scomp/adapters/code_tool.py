"""One tool for a model: it writes code, the session runs it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, cast

from ..client import Client
from ..console import ConsoleLine
from ..errors import CallError, ScriptError, SessionLost
from ..rpc import as_record
from ..values import UNDEFINED

RESULT_CHARS_MAX: Final = 20_000
"""What a model gets of one run: results beyond it belong into a variable of the session."""

INPUT_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "code": {
            "type": "string",
            "description": "JavaScript or TypeScript. The value of the last expression is the result; "
            "await works at the top level.",
        }
    },
    "required": ["code"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class CodeResult:
    """What goes back to the model."""

    text: str
    is_error: bool
    """The script failed; the text says how to repair it."""


@dataclass(frozen=True)
class CodeTool:
    client: Client
    name: str
    description: str
    timeout: float | None
    result_chars_max: int
    input_schema: dict[str, Any]

    async def run(self, code: object) -> CodeResult:
        """Runs code. What the script did wrong is a result for the model; what is the program's own problem (no
        connection, a full server) is raised."""
        if not isinstance(code, str):
            return CodeResult("expected an object with `code`, a string", is_error=True)
        try:
            output = await self.client.run(code, timeout=self.timeout)
        except SessionLost as error:
            return CodeResult(f"{error.report}. Declare it again.", is_error=True)
        except (ScriptError, CallError) as error:
            return CodeResult(self._cut(_join(error.console, error.report)), is_error=True)
        return CodeResult(self._cut(_join(output.console, render(output.value))), is_error=False)

    async def run_arguments(self, text: str) -> CodeResult:
        """The same for arguments as a model writes them: the text of a JSON object."""
        try:
            arguments = as_record(json.loads(text))
        except ValueError:
            arguments = None
        return await self.run(None if arguments is None else arguments.get("code"))

    def _cut(self, text: str) -> str:
        most = self.result_chars_max
        if len(text) <= most:
            return text
        return f"{text[:most]}\n… cut at {most} of {len(text)} characters; keep large results in variables."


async def code_tool(
    client: Client,
    *,
    name: str = "run_javascript",
    description: str | None = None,
    timeout: float | None = None,
    result_chars_max: int = RESULT_CHARS_MAX,
) -> CodeTool:
    """Makes the tool of a connected client. The description has the TypeScript declarations of all bindings."""
    described = description if description is not None else _describe(await client.types())
    return CodeTool(client, name, described, timeout, result_chars_max, INPUT_SCHEMA)


def _describe(declarations: str) -> str:
    return (
        "Runs code in a JavaScript session and returns the value of its last expression, with what it printed.\n"
        "Variables persist from call to call. There is no network and no file system: only these functions reach out:\n"
        f"\n{declarations.strip()}"
    )


def _join(lines: list[ConsoleLine], result: str) -> str:
    printed = [line.text if line.level == "log" else f"[{line.level}] {line.text}" for line in lines]
    return "\n".join([*printed, result])


def render(value: object) -> str:
    """A value as a model reads it: strings as they are, all else as JSON with a word for what JSON lacks."""
    if isinstance(value, str):
        return value
    if value is UNDEFINED:
        return "undefined"
    return json.dumps(_plain(value), indent=1, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value) if abs(value) < 2**53 else f"{value}n"
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return f"[{len(value)} bytes]"
    if isinstance(value, Mapping):
        members = cast("Mapping[Any, Any]", value)
        return {str(key): _plain(inner) for key, inner in members.items() if inner is not UNDEFINED}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(inner) for inner in cast("Iterable[Any]", value)]
    if callable(value):
        return f"[function {getattr(value, '__name__', '') or 'anonymous'}]"
    return str(value)
