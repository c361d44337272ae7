"""A tool for LangChain and LangGraph: `create_agent(model, tools=[await tool(client)])`."""

from __future__ import annotations

from typing import Any

from langchain_core.tools import StructuredTool, ToolException

from ..client import Client
from .code_tool import code_tool


async def tool(client: Client, **options: Any) -> StructuredTool:
    """The session as a tool. Options are those of `code_tool`."""
    made = await code_tool(client, **options)

    async def run(code: str) -> str:
        result = await made.run(code)
        if result.is_error:
            # LangChain makes a message with the status `error` of it.
            raise ToolException(result.text)
        return result.text

    return StructuredTool.from_function(
        coroutine=run,
        name=made.name,
        description=made.description,
        args_schema=made.input_schema,
        handle_tool_error=True,
    )
