"""One turn of the event loop: what was ready runs, tasks that were made begin. It waits for no time."""

import asyncio


async def loop_turn() -> None:
    await asyncio.sleep(0)
