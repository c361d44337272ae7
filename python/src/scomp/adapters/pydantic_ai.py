"""A toolset for pydantic-ai: `Agent(model, toolsets=[await toolset(client)])`."""

from __future__ import annotations

from typing import Any

from pydantic_ai import FunctionToolset, Tool

from ..client import Client
from .code_tool import code_tool


async def toolset(client: Client, **options: Any) -> FunctionToolset[object]:
    """The session as a toolset with one tool. Options are those of `code_tool`."""
    made = await code_tool(client, **options)

    async def run(code: str) -> str:
        return (await made.run(code)).text

    # The library leaves out the type parameter of what it returns.
    any_tool: Any = Tool
    tool: Tool[object] = any_tool.from_schema(run, made.name, made.description, made.input_schema)
    return FunctionToolset([tool])
