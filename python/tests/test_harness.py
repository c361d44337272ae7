"""A whole harness, written from docs/python.md alone: tools, repairs, a slow approval, a cut connection, a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path

import scomp
from support.cut import CutPoint
from support.server import TOKEN, TestServer, token_settings

# An eval has a second, and a person more: ten minutes by default.
SETTINGS = token_settings('{ approve = ["read"] }', "wall_ms_max = 1000")


def model(reports: list[str]) -> str:
    """Stands for a model: it repairs its code when it is shown what was wrong."""
    if not reports:
        return "const order = await getOrdr({ id: 'o_001' }); order.total"
    assert "getOrder" in reports[-1]
    return (
        "const order = await getOrder({ id: 'o_001' });await shop.note({ text: `it is ${order.total}` }); order.total"
    )


async def solve(client: scomp.Client) -> object:
    """Asks the model until its code runs."""
    reports: list[str] = []
    while True:
        try:
            return await client.eval(model(reports))
        except scomp.ScriptError as error:
            if len(reports) >= 3:
                raise
            reports.append(error.report)


async def test_harness_goes_through_everything_that_happens_to_it(bindings: Path) -> None:
    server = TestServer(bindings, SETTINGS)
    notes: list[str] = []

    async def approve(request: scomp.ApprovalRequest) -> bool:
        assert request.binding == "getOrder"
        # Longer than an eval may take.
        await asyncio.sleep(1.2)
        return True

    async with CutPoint(server.address) as point:
        reconnect = scomp.Reconnect(initial=0.005, max=0.04, attempts=400)
        client = scomp.Client(point.url, token=TOKEN, approve=approve, reconnect=reconnect, proxy=None)

        @client.binding("shop.note")
        async def note(text: str) -> None:
            """Keeps a note."""
            notes.append(text)

        try:
            async with client:
                assert await solve(client) == 142.5
                assert notes == ["it is 142.5"]

                # The connection is cut in the middle of an eval, which runs once all the same.
                await client.eval("globalThis.runs = 0")
                code = "runs++; await new Promise((done) => setTimeout(done, 100)); runs"
                running = asyncio.ensure_future(client.eval(code))
                await client.info()
                point.cut()
                assert await running == 1

                # The server restarts: the session is gone, and the harness learns of it once.
                server.kill()
                server = TestServer(bindings, SETTINGS, listen=server.address)
                outcomes: list[object] = []
                for _ in range(2):
                    try:
                        outcomes.append(await client.eval("typeof runs"))
                    except scomp.SessionLost as error:
                        outcomes.append(error.kind)
                assert outcomes == ["SessionLost", "undefined"]
                assert await solve(client) == 142.5
        finally:
            server.kill()
