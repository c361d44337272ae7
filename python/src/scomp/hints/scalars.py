"""Hints without parts: numbers, texts, dates, bytes, literals, enums."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import Any
from uuid import UUID

from ..values import UNDEFINED, BigInt
from .base import Definitions, Direction, InvalidValue, Schema, Shape, describe, expected, tagged

_DATE = tagged("$date", {"type": "string"}, "A Date.")
_BIGINT = tagged("$bigint", {"type": "string"}, "A bigint.")


class ScalarShape(Shape):
    """A fixed schema for each direction, and a function that converts what arrives."""

    def __init__(self, input: Schema, output: Schema, convert: Callable[[Any, str], Any]) -> None:
        self._input = input
        self._output = output
        self._convert = convert

    def schema(self, direction: Direction, definitions: Definitions) -> Schema:
        return dict(self._input if direction is Direction.INPUT else self._output)

    def load(self, value: Any, path: str) -> Any:
        return self._convert(value, path)


def _null(value: Any, path: str) -> None:
    if value is not None and value is not UNDEFINED:
        raise expected("null", value, path)


def _bool(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise expected("boolean", value, path)
    return value


def _int(value: Any, path: str) -> int:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise expected("integer", value, path)
    return int(value)


def _float(value: Any, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise expected("number", value, path)
    try:
        return float(value)
    except OverflowError:
        raise expected("number", value, path) from None


def _str(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise expected("string", value, path)
    return value


def _bytes(value: Any, path: str) -> bytes:
    if not isinstance(value, bytes):
        raise expected("bytes", value, path)
    return value


def _datetime(value: Any, path: str) -> datetime:
    if isinstance(value, datetime):
        return value
    if isinstance(value, str):
        try:
            # Until 3.11 Python does not read the suffix Z.
            return datetime.fromisoformat(value.removesuffix("Z") + "+00:00" if value.endswith("Z") else value)
        except ValueError:
            raise InvalidValue.at(path, f"expected a date and time, got {value!r}") from None
    raise expected("Date", value, path)


def _date(value: Any, path: str) -> date:
    if isinstance(value, str):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    return _datetime(value, path).date()


def _decimal(value: Any, path: str) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise expected("decimal", value, path)
    try:
        # By its text: the digits that were written, not those of the nearest double.
        return Decimal(value if isinstance(value, int) else str(value))
    except InvalidOperation:
        raise InvalidValue.at(path, f"expected a decimal, got {value!r}") from None


def _uuid(value: Any, path: str) -> UUID:
    try:
        return UUID(_str(value, path))
    except ValueError:
        raise InvalidValue.at(path, f"expected a UUID, got {value!r}") from None


def _big_int(value: Any, path: str) -> BigInt:
    return BigInt(_int(value, path))


def _same(schema: Schema, convert: Callable[[Any, str], Any]) -> ScalarShape:
    return ScalarShape(schema, schema, convert)


NULL = _same({"type": "null"}, _null)
SCALARS: dict[object, Shape] = {
    None: NULL,
    type(None): NULL,
    bool: _same({"type": "boolean"}, _bool),
    int: _same({"type": "integer"}, _int),
    float: _same({"type": "number"}, _float),
    str: _same({"type": "string"}, _str),
    bytes: _same(tagged("$bytes", {"type": "string"}, "A Uint8Array."), _bytes),
    datetime: ScalarShape({"anyOf": [_DATE, {"type": "string", "format": "date-time"}]}, _DATE, _datetime),
    date: ScalarShape({"anyOf": [{"type": "string", "format": "date"}, _DATE]}, _DATE, _date),
    Decimal: ScalarShape({"type": ["string", "number"]}, {"type": "string", "format": "decimal"}, _decimal),
    UUID: _same({"type": "string", "format": "uuid"}, _uuid),
    BigInt: ScalarShape({"anyOf": [_BIGINT, {"type": "integer"}]}, _BIGINT, _big_int),
}


class LiteralShape(Shape):
    def __init__(self, members: tuple[Any, ...]) -> None:
        self._members = members

    def schema(self, direction: Direction, definitions: Definitions) -> Schema:
        members = [member.value if isinstance(member, Enum) else member for member in self._members]
        return {"const": members[0]} if len(members) == 1 else {"enum": members}

    def load(self, value: Any, path: str) -> Any:
        for member in self._members:
            plain: Any = member.value if isinstance(member, Enum) else member
            # `True == 1` in Python, but they are different literals.
            if plain == value and isinstance(plain, bool) == isinstance(value, bool):
                return member
        raise InvalidValue.at(path, f"expected one of {list(self._members)!r}, got {value!r}")


class EnumShape(Shape):
    def __init__(self, cls: type[Enum]) -> None:
        self._cls = cls

    def schema(self, direction: Direction, definitions: Definitions) -> Schema:
        return {"enum": [member.value for member in self._cls]}

    def load(self, value: Any, path: str) -> Any:
        for member in self._cls:
            if member.value == value and isinstance(member.value, bool) == isinstance(value, bool):
                return member
        names = [member.value for member in self._cls]
        raise InvalidValue.at(path, f"expected one of {names!r}, got {value!r} ({describe(value)})")
