"""A server on the official Python library, over stdio or, with a port, over Streamable HTTP."""
import sys

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel

server = MCPServer("sdk")


class Sum(BaseModel):
    sum: int


@server.tool()
def add(a: int, b: int) -> Sum:
    """Adds two numbers."""
    return Sum(sum=a + b)


@server.tool()
def fail(reason: str) -> str:
    raise ValueError(reason)


@server.tool()
async def count(to: int, ctx: Context) -> str:
    for at in range(1, to + 1):
        await ctx.report_progress(at, to, f"at {at}")
    return "counted"


@server.tool()
async def revision(ctx: Context) -> str:
    return str(ctx.protocol_version)


def added() -> str:
    return "added"


@server.tool()
async def grow(ctx: Context) -> str:
    server.add_tool(added)
    await ctx.notify_tools_changed()
    return "grown"


@server.resource("note://one", mime_type="text/plain")
def note() -> str:
    return "the note"


@server.prompt()
def greet(name: str) -> str:
    return f"Greet {name}."


if len(sys.argv) > 1:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
else:
    server.run()
