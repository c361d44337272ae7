"""Functions as values: how long each side holds them. The counts are those of the server's own `session.info`."""

import asyncio
import gc

import pytest

import scomp
from support.turn import loop_turn


async def held(client):
    """Functions of the script that this side holds, once the releases of the collector are sent."""
    gc.collect()
    await loop_turn()
    return (await client.info())["functionsHeld"]


async def test_collected_function_is_released(server):
    async with scomp.Client(server.url) as client:
        functions = await client.eval("Array.from({ length: 20 }, (_, i) => () => i)")
        assert await held(client) == 20
        assert [await function() for function in functions] == list(range(20))
        del functions[:15]
        assert await held(client) == 5
        functions.clear()
        assert await held(client) == 0


async def test_function_received_twice_is_released_as_often(server):
    async with scomp.Client(server.url) as client:
        await client.eval("globalThis.f = () => 1")
        first, second = await client.eval("f"), await client.eval("f")
        assert first is second
        del first
        assert await held(client) == 1
        del second
        assert await held(client) == 0


async def test_released_function_fails_with_unknown_ref(server):
    async with scomp.Client(server.url) as client:
        function = await client.eval("() => 1")
        function.release()
        function.release()
        assert await held(client) == 0
        with pytest.raises(scomp.UnknownRef):
            await function()


async def test_function_in_a_cancelled_eval_is_released(server):
    async with scomp.Client(server.url) as client:
        running = asyncio.ensure_future(client.eval("() => 1"))
        await loop_turn()
        running.cancel()
        await client.eval("1")
        assert await held(client) == 0


async def test_function_of_the_program_is_held_until_the_script_drops_it(server):
    async with scomp.Client(server.url) as client:
        keep = await client.eval("globalThis.kept = []; (f) => { kept.push(f); return kept.length }")
        assert await keep(lambda: "called") == 1
        peer = client._connection.peer
        assert len(peer.exports) == 1
        assert await client.eval("await kept[0]()") == "called"
        await client.reset()
        assert len(peer.exports) == 0


async def test_callback_of_a_call_is_called_with_its_arguments(server):
    calls = []

    async with scomp.Client(server.url) as client:
        each = await client.eval(
            "async (f) => { const out = []; for (const n of [1, 2]) out.push(await f(n, 'x')); return out }"
        )

        async def visit(number, text):
            calls.append((number, text))
            return number * 2

        assert await each(visit) == [2, 4]
        # JavaScript passes more arguments than a function takes; those are left out.
        assert await each(lambda number: number) == [1, 2]
    assert calls == [(1, "x"), (2, "x")]


async def test_error_of_a_script_function_has_its_kind(server):
    async with scomp.Client(server.url) as client:
        function = await client.eval("() => { throw new TypeError('no') }")
        with pytest.raises(scomp.ScompError, match="no"):
            await function()


async def test_function_in_a_refused_call_is_not_held(server):
    async with scomp.Client(server.url) as client:
        peer = client._connection.peer
        with pytest.raises(scomp.Unserializable) as failed:
            await client.invoke("echo", {"f": lambda: 1, "bad": object()})
        assert failed.value.data["path"] == "/bad"
        assert len(peer.exports) == 0
