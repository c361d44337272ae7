"""A function tool for the OpenAI Agents SDK: `Agent(name=…, tools=[await tool(client)])`."""

from __future__ import annotations

from typing import Any

from agents import FunctionTool

from ..client import Client
from .code_tool import code_tool


async def tool(client: Client, **options: Any) -> FunctionTool:
    """The session as a function tool. Options are those of `code_tool`."""
    made = await code_tool(client, **options)

    async def run(_context: Any, arguments: str) -> str:
        return (await made.run_arguments(arguments)).text

    return FunctionTool(
        name=made.name,
        description=made.description,
        params_json_schema=made.input_schema,
        on_invoke_tool=run,
        strict_json_schema=True,
    )
