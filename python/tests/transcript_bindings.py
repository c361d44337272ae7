"""The bindings that the transcripts call, served by this library; declared as in the TypeScript tests."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import scomp

ROOT = Path(__file__).resolve().parents[2]
DECLARATION = ROOT / "js/sdk/test/support/bindings/tests/declaration.json"
kept: list[Any] = []


def get_order(order: Any, /) -> Any:
    return {"id": order["id"], "total": 142.5} if order["id"] == "o_001" else None


async def forever(_: Any, /) -> Any:
    await asyncio.Event().wait()


def echo(value: Any, /) -> Any:
    return value


def fail_coded(_: Any, /) -> Any:
    raise scomp.HandlerError("no such order", code=-7, kind="NoSuchOrder", order="o_9")


def fail_plain(_: Any, /) -> Any:
    raise RuntimeError("out of paper")


def fail_bare(_: Any, /) -> Any:
    raise scomp.HandlerError("bare", code=5, kind=None)


def fail_panic(_: Any, /) -> Any:
    raise RuntimeError("the handler panicked")


async def apply(call: Any, /) -> Any:
    function = call["fn"]
    value = await function(*call.get("args", []))
    function.release()
    return value


def transact(value: Any, /) -> Any:
    return {"ok": value}


def make_counter(_: Any, /) -> Any:
    count = 0

    def next() -> int:
        nonlocal count
        count += 1
        return count

    return next


async def keep(value: Any, /) -> Any:
    kept[:] = [value["fn"]]


async def call_kept(value: Any, /) -> Any:
    return await kept[0](value)


def strict(value: Any, /) -> Any:
    return value["n"]


async def each(value: Any, /) -> Any:
    visit = value["visit"]
    visited = [await visit(item) for item in value["items"]]
    return visited


HANDLERS = {
    "getOrder": get_order,
    "limited": forever,
    "echo": echo,
    "forever": forever,
    "fail.coded": fail_coded,
    "fail.plain": fail_plain,
    "fail.bare": fail_bare,
    "fail.panic": fail_panic,
    "relay": forever,
    "apply": apply,
    "memory.transact": transact,
    "counter.make": make_counter,
    "keeper.keep": keep,
    "keeper.call": call_kept,
    "strict": strict,
    "each": each,
}


def bindings() -> scomp.Bindings:
    collection = scomp.Bindings()
    for one in json.loads(DECLARATION.read_text())["bindings"]:
        schemas = {key: one.get(key) for key in ("description", "input", "output", "effects")}
        collection.add(scomp.Binding(HANDLERS[one["name"]], name=one["name"], inline=True, **schemas))
    return collection


if __name__ == "__main__":
    sys.exit(scomp.serve(bindings(), name="tests"))
