"""Drives the server with the official Python client: `python3 client.py SCENARIO legacy|auto`.

The server is MCP_URL with MCP_TOKEN, or the program MCP_COMMAND (a list) over stdin and stdout.
"""

import asyncio
import json
import os
import sys

import anyio
import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult

SCENARIO, ERA = sys.argv[1:3]
LONG_MS = int(os.environ.get("MCP_LONG_MS", "1500"))


def connect(**options) -> Client:
    if url := os.environ.get("MCP_URL"):
        token = os.environ.get("MCP_TOKEN")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        http = httpx2.AsyncClient(headers=headers, timeout=httpx2.Timeout(30, read=300))
        server = streamable_http_client(url, http_client=http)
    else:
        command, *args = json.loads(os.environ["MCP_COMMAND"])
        server = StdioServerParameters(command=command, args=args)
    return Client(server, mode=ERA, **options)


async def run(client: Client, **arguments):
    result = await client.call_tool("execute", arguments)
    return result.structured_content


async def session() -> None:
    """A session across two connections."""
    async with connect() as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == ["execute", "wait", "search", "describe", "session"]
        one = await run(client, code="const x = 20; console.log('hello'); x + 1")
        assert (one["status"], one["value"], one["console"]) == ("completed", 21, "hello"), one
        handle = one["session"]
        if "MCP_URL" not in os.environ:
            assert (await run(client, session=handle, code="x + 2"))["value"] == 22
            return
    async with connect() as client:
        two = await run(client, session=handle, code="x + 2")
        assert two["value"] == 22 and "console" not in two, two
        failed = await client.call_tool("execute", {"session": handle, "code": "nope()"})
        assert failed.is_error and "ReferenceError" in failed.content[0].text
        await client.call_tool("session", {"op": "close", "session": handle})
        closed = await client.call_tool("execute", {"session": handle, "code": "1"})
        assert closed.is_error and "SessionNotFound" in closed.content[0].text


async def wait() -> None:
    """An execution that outlasts its call, with every line of its console once."""
    async with connect() as client:
        code = f"console.log('a'); await new Promise((r) => setTimeout(r, {LONG_MS})); console.log('b'); 7"
        state = await run(client, code=code, waitMs=0, timeoutMs=LONG_MS + 60_000)
        execution, printed = state["execution"], [state.get("console")]
        assert state["status"] == "running"
        while state["status"] == "running":
            state = (await client.call_tool("wait", {"execution": execution})).structured_content
            printed.append(state.get("console"))
        assert (state["status"], state["value"]) == ("completed", 7), state
        assert "\n".join(filter(None, printed)) == "a\nb", printed


async def cancel() -> None:
    """A cancelled request ends its eval; the session goes on."""
    async with connect() as client:
        handle = (await run(client, code="globalThis.kept = 1"))["session"]
        begun = anyio.Event()

        async def on_progress(_progress, _total, message) -> None:
            assert message == "begun", message
            begun.set()

        async with anyio.create_task_group() as tasks:

            async def hang() -> None:
                code = "console.log('begun'); await new Promise((r) => setTimeout(r, 50_000))"
                arguments = {"session": handle, "code": code}
                await client.call_tool("execute", arguments, progress_callback=on_progress)
                raise AssertionError("it returned")

            tasks.start_soon(hang)
            await begun.wait()
            tasks.cancel_scope.cancel()
        # It runs behind the other one, which has to end first.
        after = await run(client, session=handle, code="kept + 1")
        assert (after["status"], after["value"]) == ("completed", 2), after


async def approval() -> None:
    """Calls that a person has to allow."""
    asked, allow = [], True

    async def on_elicitation(_context, params) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"allow": allow})

    code = "(await getOrder({ id: 'o_001' })).total"
    async with connect(elicitation_callback=on_elicitation) as client:
        assert (await run(client, code=code))["value"] == 142.5
        assert 'getOrder (read) with {"id":"o_001"}' in asked[0], asked
        allow = False
        denied = await client.call_tool("execute", {"code": code})
        assert denied.is_error and "PermissionDenied" in denied.content[0].text, denied


async def main() -> None:
    with anyio.fail_after(LONG_MS / 1000 + 100):
        await {"session": session, "wait": wait, "cancel": cancel, "approval": approval}[SCENARIO]()
    print("ok")


asyncio.run(main())
