"""Connections that are cut, silenced and refused, and a server that dies: an eval runs once or says that it did not."""

import asyncio
from contextlib import asynccontextmanager

import pytest

import scomp
from scomp.limits import CALLS_WAITING_MAX
from support.cut import CutPoint
from support.server import TestServer
from support.turn import loop_turn

QUICK = scomp.Reconnect(initial=0.005, max=0.04, attempts=200)


@asynccontextmanager
async def behind_cut_point(server, *, bindings=None, **options):
    """A client, the point where its connection is cut, and what `on_reconnect` was called with."""
    events = []
    options = {"reconnect": QUICK, "on_reconnect": events.append, **options}
    async with CutPoint(server.address) as point:
        async with scomp.Client(point.url, bindings=bindings, **options) as client:
            yield client, point, events


def slow(ms, result):
    return f"await new Promise(r => setTimeout(r, {ms})); {result}"


async def test_eval_that_runs_during_a_cut_runs_once(server):
    begun = asyncio.Event()

    async def report():
        begun.set()

    async with behind_cut_point(server, bindings={"begun": report}) as (client, point, events):
        await client.eval("globalThis.starts = 0")
        running = asyncio.ensure_future(client.eval(f"starts++; begun().catch(() => 0); {slow(100, 'starts')}"))
        await begun.wait()
        point.cut()
        assert await running == 1
        assert events == [True]
        assert await client.eval("starts") == 1


async def test_answer_lost_on_its_way_is_fetched_again(server):
    async with behind_cut_point(server) as (client, point, _):
        await client.eval("globalThis.runs = 0")
        point.silence()
        answer = asyncio.ensure_future(client.eval("++runs"))
        await point.swallowed.wait()
        point.cut()
        assert await answer == 1
        assert await client.eval("runs") == 1


async def test_evals_in_a_storm_of_cuts_run_once_in_order(server):
    async with behind_cut_point(server) as (client, point, _):
        await client.eval("globalThis.log = []")

        evals = [asyncio.ensure_future(client.eval(f"log.push({index})")) for index in range(300)]
        for one in evals[::20]:
            # Others are under way or answered by then: cuts hit evals in every state.
            one.add_done_callback(lambda _: point.cut())
        answers = await asyncio.gather(*evals)
        assert answers == [index + 1 for index in range(300)]
        assert await client.eval("log") == list(range(300))


async def test_requests_without_a_connection_wait_for_it(server):
    away = asyncio.Event()

    def on_state(state):
        if state == "reconnecting":
            away.set()

    async with behind_cut_point(server, on_state=on_state) as (client, point, _):
        await client.eval("globalThis.x = 20")
        point.refuse()
        await away.wait()
        value = asyncio.ensure_future(client.eval("x + 1"))
        order = asyncio.ensure_future(client.invoke("getOrder", {"id": "o_001"}))
        cancelled = asyncio.ensure_future(client.eval("x = 0"))
        await loop_turn()
        cancelled.cancel()
        point.accept()
        assert await value == 21
        assert await order == {"id": "o_001", "total": 142.5}
        assert await client.eval("x") == 20


async def test_calls_waiting_at_the_limit_and_past_it(server):
    away = asyncio.Event()

    def on_state(state):
        if state == "reconnecting":
            away.set()

    async with behind_cut_point(server, on_state=on_state) as (client, point, _):
        await client.eval("1")
        point.refuse()
        await away.wait()
        calls = [asyncio.ensure_future(client.info()) for _ in range(CALLS_WAITING_MAX)]
        await loop_turn()
        with pytest.raises(scomp.Busy):
            await client.info()
        point.accept()
        assert "memoryBytes" in await calls[-1]
        await asyncio.gather(*calls, return_exceptions=True)


async def test_eval_cancelled_without_a_connection_is_cancelled_later(server):
    begun = asyncio.Event()

    async def report():
        begun.set()

    async with behind_cut_point(server, bindings={"begun": report}) as (client, point, _):
        running = asyncio.ensure_future(client.eval("await begun(); await forever()"))
        await begun.wait()
        point.refuse()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        point.accept()
        # The queue behind it moves on long before its own time limit.
        assert await asyncio.wait_for(client.eval("1 + 1"), 10) == 2


async def test_call_and_reference_in_flight_fail_with_their_connection(server):
    async with behind_cut_point(server) as (client, point, _):
        function = await client.eval("() => 1")
        lost = asyncio.ensure_future(client.invoke("forever"))
        await client.info()
        point.cut()
        with pytest.raises(scomp.ConnectionLost):
            await lost
        assert await client.eval("2") == 2
        with pytest.raises(scomp.ConnectionLost):
            await function()


async def test_bindings_of_the_client_are_there_after_a_cut(server):
    async with behind_cut_point(server, bindings={"ask": lambda: "yes"}) as (client, point, _):
        await client.eval("globalThis.x = 1")
        point.cut()
        assert await client.eval("await ask()") == "yes"


async def test_silent_connection_is_replaced(server):
    states = asyncio.Queue()
    async with behind_cut_point(server, heartbeat=0.05, on_state=states.put_nowait) as (client, point, events):
        await client.eval("globalThis.x = 7")
        point.silence()
        waiting = asyncio.ensure_future(client.eval("x"))
        assert [await states.get(), await states.get()] == ["connected", "reconnecting"]
        point.speak()
        assert await waiting == 7
        assert events == [True]


async def test_silent_server_does_not_hold_a_close_up(server, monkeypatch):
    monkeypatch.setattr("scomp.connection.CLOSE_S_MAX", 0.05)
    async with CutPoint(server.address) as point:
        client = await scomp.Client(point.url).connect()
        point.silence()
        await asyncio.wait_for(client.close(), 5)
        assert client.state == "closed"


async def test_server_that_died_takes_the_session_along(bindings):
    mortal, events = TestServer(bindings), []
    client = await scomp.Client(mortal.url, reconnect=QUICK, on_reconnect=events.append).connect()
    await client.eval("globalThis.x = 1")
    running = asyncio.ensure_future(client.eval("await forever()"))
    await client.info()
    mortal.kill()
    waiting = asyncio.ensure_future(client.eval("x"))
    following = TestServer(bindings, listen=mortal.address)
    try:
        for one in (running, waiting):
            with pytest.raises(scomp.SessionLost):
                await one
        assert events == [False]
        assert await client.eval("typeof x") == "undefined"
    finally:
        await client.close()
        following.kill()


async def test_lost_session_without_a_hook_fails_the_next_eval_once(bindings):
    mortal, states = TestServer(bindings), asyncio.Queue()
    client = await scomp.Client(mortal.url, reconnect=QUICK, on_state=states.put_nowait).connect()
    await client.eval("globalThis.x = 1")
    mortal.kill()
    following = TestServer(bindings, listen=mortal.address)
    try:
        assert [await states.get() for _ in range(3)] == ["connected", "reconnecting", "connected"]
        with pytest.raises(scomp.SessionLost):
            await client.eval("x")
        assert await client.eval("typeof x") == "undefined"
    finally:
        await client.close()
        following.kill()


async def test_without_reconnect_the_client_ends_with_its_connection(server):
    async with CutPoint(server.address) as point:
        client = await scomp.Client(point.url, reconnect=None).connect()
        running = asyncio.ensure_future(client.eval("await forever()"))
        await client.info()
        point.cut()
        with pytest.raises(scomp.Closed):
            await running
        assert (await client.wait_closed()).code == 1006


async def test_attempts_used_up_end_the_client(server):
    async with CutPoint(server.address) as point:
        policy = scomp.Reconnect(initial=0.001, max=0.002, attempts=3)
        client = await scomp.Client(point.url, reconnect=policy).connect()
        running = asyncio.ensure_future(client.eval("await forever()"))
        await client.info()
        point.refuse()
        with pytest.raises(scomp.Closed):
            await running
        await client.wait_closed()


async def test_key_sent_again_runs_once(server):
    async with scomp.Client(server.url) as client:
        code = "globalThis.n = (globalThis.n ?? 0) + 1"
        assert [await client.eval(code, key="k") for _ in range(3)] == [1, 1, 1]
        with pytest.raises(scomp.KeyConflict):
            await client.eval("n", key="k")
        assert await client.eval("n") == 1


async def test_key_survives_a_detached_client(server):
    async with scomp.Client(server.url) as client:
        assert await client.eval("globalThis.n = (globalThis.n ?? 0) + 1", key="k") == 1
        session = await client.detach()
    async with scomp.Client(server.url, session=session) as client:
        assert await client.eval("globalThis.n = (globalThis.n ?? 0) + 1", key="k") == 1


async def test_console_lines_missed_in_a_cut_are_delivered_once(server):
    lines, printed = [], asyncio.Event()

    def on_console(line):
        lines.append(line.text)
        printed.set()

    async with behind_cut_point(server) as (client, point, _):
        code = f"console.log('a'); {slow(100, '0')}; console.log('b'); 1"
        running = asyncio.ensure_future(client.eval(code, on_console=on_console))
        await printed.wait()
        point.cut()
        assert await running == 1
    assert lines == ["a", "b"]


def test_wait_doubles_up_to_its_maximum():
    policy = scomp.Reconnect(initial=0.2, max=10, attempts=10)
    assert [policy.wait(attempt, 1.0) for attempt in (0, 1, 5, 6, 10_000)] == [0.2, 0.4, 6.4, 10, 10]
    assert policy.wait(0, 0.0) == 0.1
