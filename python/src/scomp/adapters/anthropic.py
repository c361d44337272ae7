"""A tool for `messages.create` of the Anthropic SDK, and what answers its calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from anthropic.types import ToolParam, ToolResultBlockParam

from ..client import Client
from ..rpc import as_record
from .code_tool import CodeTool, code_tool


class ToolUse(Protocol):
    """A block of the model's message with the type `tool_use`."""

    @property
    def id(self) -> str: ...

    @property
    def input(self) -> object: ...


@dataclass(frozen=True)
class MessagesTool:
    definition: ToolParam
    """For `tools`."""
    _tool: CodeTool

    async def call(self, block: ToolUse) -> ToolResultBlockParam:
        """The block for the next message of the user."""
        arguments = as_record(block.input) or {}
        result = await self._tool.run(arguments.get("code"))
        return {"type": "tool_result", "tool_use_id": block.id, "content": result.text, "is_error": result.is_error}


async def tool(client: Client, **options: Any) -> MessagesTool:
    """The session as a tool definition. Options are those of `code_tool`."""
    made = await code_tool(client, **options)
    definition: ToolParam = {"name": made.name, "description": made.description, "input_schema": made.input_schema}
    return MessagesTool(definition, made)
