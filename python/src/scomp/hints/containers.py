"""Hints with parts: unions, lists, tuples, sets, dicts, functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from ..values import UNDEFINED
from .base import Definitions, Direction, InvalidValue, Schema, Shape, child, expected, tagged
from .scalars import NULL


class UnionShape(Shape):
    """The first member that fits. `None` also takes what a script left undefined."""

    def __init__(self, members: list[Shape]) -> None:
        self._members = members

    def schema(self, direction: Direction, definitions: Definitions) -> Schema:
        return {"anyOf": [member.schema(direction, definitions) for member in self._members]}

    def load(self, value: Any, path: str) -> Any:
        if value is UNDEFINED and NULL in self._members:
            return None
        problems: list[tuple[str, str]] = []
        for member in self._members:
            try:
                return member.load(value, path)
            except InvalidValue as error:
                problems += error.problems
        # The deepest problem is that of the member that fitted best.
        problems.sort(key=lambda problem: -problem[0].count("/"))
        raise InvalidValue(problems[:1])


class ListShape(Shape):
    def __init__(self, item: Shape) -> None:
        self._item = item

    def schema(self, direction: Direction, definitions: Definitions) -> Schema:
        return {"type": "array", "items": self._item.schema(direction, definitions)}

    def load(self, value: Any, path: str) -> list[Any]:
        if not isinstance(value, list | tuple):
            raise expected("array", value, path)
        return load_items(self._item, cast("list[Any]", value), path)


class TupleShape(Shape):
    def __init__(self, items: list[Shape]) -> None:
        self._items = items

    def schema(self, direction: Direction, definitions: Definitions) -> Schema:
        items = [item.schema(direction, definitions) for item in self._items]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}

    def load(self, value: Any, path: str) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise expected("array", value, path)
        values = cast("list[Any]", value)
        if len(values) != len(self._items):
            raise InvalidValue.at(path, f"expected {len(self._items)} items, got {len(values)}")
        pairs = enumerate(zip(self._items, values, strict=True))
        return tuple(item.load(one, child(path, index)) for index, (item, one) in pairs)


class ConvertedList(Shape):
    """A hint that is an array on the wire and another type here: `tuple[T, ...]`."""

    def __init__(self, item: Shape, convert: Callable[[list[Any]], Any]) -> None:
        self._list = ListShape(item)
        self._convert = convert

    def schema(self, direction: Direction, definitions: Definitions) -> Schema:
        return self._list.schema(direction, definitions)

    def load(self, value: Any, path: str) -> Any:
        return self._convert(self._list.load(value, path))


class SetShape(Shape):
    """A Set of the script, or an array, which models write more often."""

    def __init__(self, item: Shape, convert: Callable[[list[Any]], Any]) -> None:
        self._item = item
        self._convert = convert

    def schema(self, direction: Direction, definitions: Definitions) -> Schema:
        items = {"type": "array", "items": self._item.schema(direction, definitions)}
        form = tagged("$set", items, "A Set.")
        return form if direction is Direction.OUTPUT else {"anyOf": [items, form]}

    def load(self, value: Any, path: str) -> Any:
        if not isinstance(value, list | tuple | set | frozenset):
            raise expected("Set or array", value, path)
        try:
            return self._convert(load_items(self._item, list(cast("list[Any]", value)), path))
        except TypeError:
            raise InvalidValue.at(path, "expected members that are not objects") from None


class RecordShape(Shape):
    """`dict[str, T]`: an object."""

    def __init__(self, item: Shape) -> None:
        self._item = item

    def schema(self, direction: Direction, definitions: Definitions) -> Schema:
        return {"type": "object", "additionalProperties": self._item.schema(direction, definitions)}

    def load(self, value: Any, path: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise expected("object", value, path)
        members = cast("dict[Any, Any]", value)
        for key in members:
            if not isinstance(key, str):
                raise expected("keys that are strings", key, path)
        return {key: self._item.load(member, child(path, key)) for key, member in members.items()}


class MapShape(Shape):
    """`dict[K, V]` with other keys: a Map."""

    def __init__(self, key: Shape, item: Shape) -> None:
        self._key = key
        self._item = item

    def schema(self, direction: Direction, definitions: Definitions) -> Schema:
        parts = [self._key.schema(direction, definitions), self._item.schema(direction, definitions)]
        pair: Schema = {"type": "array", "prefixItems": parts, "minItems": 2, "maxItems": 2}
        return tagged("$map", {"type": "array", "items": pair}, "A Map.")

    def load(self, value: Any, path: str) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise expected("Map", value, path)
        pairs = cast("dict[Any, Any]", value).items()
        return {self._key.load(key, path): self._item.load(item, child(path, key)) for key, item in pairs}


class FunctionShape(Shape):
    """`Callable[[A], R]`: the server checks calls of the function if both are declared, see `x-fn`."""

    def __init__(self, argument: Shape | None, result: Shape | None) -> None:
        self._argument = argument
        self._result = result

    def schema(self, direction: Direction, definitions: Definitions) -> Schema:
        typed: Schema = {}
        # What we pass to a function is our output, what it returns our input; and the other way round for ours.
        other = Direction.OUTPUT if direction is Direction.INPUT else Direction.INPUT
        if self._argument is not None:
            typed["input"] = self._argument.document(other)
        if self._result is not None:
            typed["output"] = self._result.document(direction)
        return {"type": "object", "required": ["$fn"], "x-fn": typed}

    def load(self, value: Any, path: str) -> Any:
        if not callable(value):
            raise expected("function", value, path)
        return value


def load_items(item: Shape, values: list[Any], path: str) -> list[Any]:
    return [item.load(value, child(path, index)) for index, value in enumerate(values)]
