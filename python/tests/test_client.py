"""The client against the real server as a child. `SCOMP_SERVE` names the binary."""

import asyncio
import math
from datetime import datetime, timezone

import pytest

import scomp
from scomp.values import decode, encode


def client(**options):
    return scomp.Client(scomp.Server.local(), **options)


async def test_binding_is_called_with_typed_input():
    one = client()

    @one.binding
    def add(a: int, b: int = 2) -> int:
        """Adds."""
        return a + b

    async with one:
        assert await one.eval("await add({ a: 4 })") == 6
        with pytest.raises(scomp.EvalError) as failed:
            await one.eval("await add({ a: 'x' })", name="job.js")
        assert "job.js:1:" in failed.value.report


async def test_functions_cross_both_ways():
    one = client()

    @one.binding
    async def each(items: list[int], visit: object) -> list[int]:
        return [await visit(item) for item in items]

    async with one:
        assert await one.eval("await each({ items: [1, 2], visit: (x) => x * 10 })") == [10, 20]
        assert await (await one.eval("(x) => x + 1"))(4) == 5


async def test_console_lines_come_before_the_value():
    lines = []
    async with client() as one:
        assert (
            await one.eval("console.log('a'); console.log('b'); 1", on_console=lambda line: lines.append(line.text))
            == 1
        )
    assert lines == ["a", "b"]


async def test_cancelled_eval_cancels_its_handler():
    one, begun, ended = client(), asyncio.Event(), asyncio.Event()

    @one.binding
    async def wait() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with one:
        running = asyncio.ensure_future(one.eval("await wait()"))
        await begun.wait()
        running.cancel()
        await asyncio.wait_for(ended.wait(), 10)
        assert await one.eval("1 + 1") == 2


async def test_five_hundred_calls_are_all_answered():
    one = client()

    @one.binding
    async def double(n: int) -> int:
        return n * 2

    async with one:
        code = "await Promise.all(Array.from({ length: 500 }, (_, n) => double({ n })))"
        assert await one.eval(code) == [n * 2 for n in range(500)]


def test_sync_client_waits_for_values():
    with scomp.sync.Client(scomp.Server.local()) as one:
        assert one.eval("1 + 1") == 2
        assert one.eval("(x) => x + 1")(4) == 5


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        1,
        1.5,
        "x",
        2**70,
        scomp.BigInt(1),
        b"\x01",
        {1, 2},
        scomp.Map({1: "a"}),
        math.inf,
        {"$date": 1},
        scomp.UNDEFINED,
        datetime(2026, 1, 1, tzinfo=timezone.utc),
    ],
)
def test_value_survives_the_wire(value):
    def refuse(*_):
        raise AssertionError("no function expected")

    assert decode(encode(value, refuse), refuse) == value
