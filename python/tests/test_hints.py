"""Every kind of hint: what the server checks, what the handler receives, what the script gets back."""

import collections.abc
import dataclasses
import enum
import typing
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Annotated, Any, Literal, NewType, Optional
from uuid import UUID

import pydantic
import pytest
from typing_extensions import NotRequired, TypedDict

import scomp

MOMENT = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
UUID_TEXT = "12345678-1234-5678-1234-567812345678"
UserId = NewType("UserId", str)


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass
class Item:
    sku: str
    price: Decimal
    tags: set[str] = dataclasses.field(default_factory=set)


@dataclasses.dataclass
class Tree:
    name: str
    children: list["Tree"] = dataclasses.field(default_factory=list)


class Row(TypedDict):
    sku: str
    count: NotRequired[int]


class Order(pydantic.BaseModel):
    id: str
    placed: datetime
    lines: list[Row] = []
    total: Decimal = pydantic.Field(default=Decimal(0), ge=0)


CASES = [
    (bool, "true", True),
    (int, "7", 7),
    (int, "7.0", 7),
    (float, "7", 7.0),
    (str, "'x'", "x"),
    (None, "null", None),
    (bytes, "new Uint8Array([1, 2])", b"\x01\x02"),
    (datetime, "new Date('2026-01-31T12:00:00Z')", MOMENT),
    (datetime, "'2026-01-31T12:00:00Z'", MOMENT),
    (date, "'2026-01-31'", date(2026, 1, 31)),
    (date, "new Date('2026-01-31T12:00:00Z')", date(2026, 1, 31)),
    (Decimal, "'0.10'", Decimal("0.10")),
    (Decimal, "0.1", Decimal("0.1")),
    (UUID, f"'{UUID_TEXT}'", UUID(UUID_TEXT)),
    (scomp.BigInt, "12n", 12),
    (scomp.BigInt, "2n ** 70n", 2**70),
    (Literal["a", "b"], "'b'", "b"),
    (Literal[1], "1", 1),
    (Color, "'blue'", Color.BLUE),
    (Level, "1", Level.LOW),
    (Optional[int], "null", None),
    (int | str, "'x'", "x"),
    (float | int, "3", 3),
    (list[int], "[1, 2]", [1, 2]),
    (list, "[1, 'x']", [1, "x"]),
    (collections.abc.Sequence[str], "['x']", ["x"]),
    (tuple[int, str], "[1, 'x']", (1, "x")),
    (tuple[int, ...], "[1, 2, 3]", (1, 2, 3)),
    (set[int], "new Set([1, 2])", {1, 2}),
    (set[int], "[1, 1]", {1}),
    (frozenset[str], "new Set(['x'])", frozenset({"x"})),
    (dict[str, int], "({ a: 1 })", {"a": 1}),
    (dict, "({ a: 1 })", {"a": 1}),
    (dict[int, str], "new Map([[1, 'x']])", {1: "x"}),
    (Annotated[int, "a count"], "1", 1),
    (Annotated[int, pydantic.Field(gt=0)], "1", 1),
    (UserId, "'u1'", "u1"),
    (Any, "({ a: [1] })", {"a": [1]}),
    (object, "1", 1),
    (Item, "({ sku: 's', price: '1.50', tags: ['t'] })", Item("s", Decimal("1.50"), {"t"})),
    (Tree, "({ name: 'a', children: [{ name: 'b' }] })", Tree("a", [Tree("b")])),
    (Row, "({ sku: 's' })", {"sku": "s"}),
    (
        Order,
        "({ id: 'o', placed: new Date('2026-01-31T12:00:00Z'), lines: [{ sku: 's', count: 2 }], total: '1.5' })",
        Order(id="o", placed=MOMENT, lines=[{"sku": "s", "count": 2}], total=Decimal("1.5")),
    ),
    (list[Order], "[{ id: 'o', placed: new Date('2026-01-31T12:00:00Z') }]", [Order(id="o", placed=MOMENT)]),
]

REFUSED = [
    (bool, "1"),
    (int, "1.5"),
    (int, "2n ** 70n"),
    (int, "true"),
    (float, "'1'"),
    (str, "1"),
    (None, "1"),
    (bytes, "'AQI='"),
    (datetime, "'yesterday'"),
    (date, "7"),
    (Decimal, "'1,5'"),
    (UUID, "'x'"),
    (Literal["a"], "'b'"),
    (Literal[1], "true"),
    (Color, "'green'"),
    (int | None, "'x'"),
    (list[int], "['x']"),
    (list[int], "1"),
    (tuple[int, str], "[1]"),
    (set[int], "new Set(['x'])"),
    (dict[str, int], "({ a: 'x' })"),
    (dict[int, str], "({ a: 1 })"),
    (Annotated[int, pydantic.Field(gt=0)], "0"),
    (Item, "({ sku: 's' })"),
    (Tree, "({ name: 'a', children: [{}] })"),
    (Row, "({ count: 1 })"),
    (Order, "({ id: 'o', placed: 'never' })"),
    (Order, "({ id: 'o', placed: new Date(0), total: '-1' })"),
]


def names(cases):
    return [f"{getattr(case[0], '__name__', case[0])}-{case[1]}"[:60] for case in cases]


def taking(hint, received):
    async def take(value):
        received.append(value)
        return value

    take.__annotations__ = {"value": hint, "return": hint}
    return take


@pytest.mark.parametrize(("hint", "code", "expected"), CASES, ids=names(CASES))
async def test_value_arrives_as_its_hint_and_returns(server, hint, code, expected):
    received = []
    async with scomp.Client(server.url, bindings={"take": taking(hint, received)}) as client:
        # What the handler returned fits the schema of its output, and comes in again as the same.
        await client.eval(f"globalThis.back = await take({{ value: {code} }}); await take({{ value: back }}); 0")
    assert received == [expected, expected]
    assert type(received[0]) is type(received[1])


@pytest.mark.parametrize(("hint", "code"), REFUSED, ids=names(REFUSED))
async def test_value_that_does_not_fit_is_invalid_input(server, hint, code):
    received = []
    async with scomp.Client(server.url, bindings={"take": taking(hint, received)}) as client:
        with pytest.raises(scomp.ScompError) as failed:
            await client.eval(f"await take({{ value: {code} }})")
    assert failed.value.data["cause"]["data"]["kind"] == "InvalidInput"
    assert received == []


async def test_parameters_with_defaults_are_optional(server):
    client = scomp.Client(server.url)

    @client.binding("text.repeat", effects=["read"])
    async def repeat(text: str, times: int = 2, **extra: int) -> str:
        """Repeats a text."""
        return text * times + "".join(sorted(extra))

    async with client:
        assert await client.eval(
            "[await text.repeat({ text: 'a' }), await text.repeat({ text: 'a', times: 1, z: 1 })]"
        ) == ["aa", "az"]
        types = await client.types()
        assert "Repeats a text." in types
        assert "times?: number" in types


async def test_lone_positional_parameter_takes_the_input(server):
    async def save(item: Item, /) -> str:
        return item.sku

    async with scomp.Client(server.url, bindings=[save]) as client:
        assert await client.eval("await save({ sku: 's', price: 1 })") == "s"


async def test_callable_hint_is_checked_by_the_server(server):
    async def use(function: collections.abc.Callable[[int], typing.Awaitable[str]]) -> str:
        return await function(7)

    async with scomp.Client(server.url, bindings=[use]) as client:
        assert await client.eval("await use({ function: (n) => `got ${n}` })") == "got 7"
        with pytest.raises(scomp.ScompError):
            await client.eval("await use({ function: (n) => n })")
        with pytest.raises(scomp.ScompError):
            await client.eval("await use({ function: 7 })")


def test_hint_without_a_schema_is_a_type_error():
    def odd(value: type("Odd", (), {})):
        return value

    with pytest.raises(TypeError, match="binding odd"):
        scomp.Binding(odd)


def test_star_arguments_are_a_type_error():
    with pytest.raises(TypeError, match="one input"):
        scomp.Binding(lambda *args: 1, name="star")


async def test_binding_added_after_connecting_is_refused(server):
    async with scomp.Client(server.url) as client:
        with pytest.raises(RuntimeError, match="before connecting"):
            client.binding(lambda: 1)
