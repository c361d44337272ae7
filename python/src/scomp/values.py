"""Values on the wire: JSON as it is, what JSON lacks under a tag. The same rules both ways, see docs/protocol.md.

| Python | JavaScript |
|---|---|
| `UNDEFINED` | undefined |
| `int` up to 2**53 - 1, `float` | number |
| larger `int`, `BigInt` | bigint, which arrives as `BigInt` |
| `Decimal`, `UUID`, `Path` | string: JavaScript has no type that keeps their digits |
| `datetime` (a naive one is local time), `date` | Date, which arrives as an aware `datetime` in UTC |
| `bytes`, `bytearray`, `memoryview` | Uint8Array, which arrives as `bytes` |
| `dict` with string keys, dataclass, pydantic model | object |
| any other `dict`, `Map` | Map, which arrives as `Map` |
| `set`, `frozenset` | Set |
| an exception | Error, which arrives as `JsError` |
| a callable | function |
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import math
from collections.abc import Callable, Hashable, Mapping
from collections.abc import Set as AbstractSet
from datetime import date, datetime, timezone
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, Final, cast
from uuid import UUID

from .errors import BadAnswer, Unserializable
from .limits import BIGINT_DIGITS_MAX, VALUE_DEPTH_MAX
from .rpc import SAFE_INTEGER_MAX, as_list, as_record
from .texts import int_to_text, malformed, text_to_datetime, text_to_int

Wire = Any
"""A JSON value. `Any`, because a recursive type would have to be cast at every step."""

AnyFunction = Callable[..., Any]
ExportFunction = Callable[[AnyFunction], dict[str, object]]
ImportFunction = Callable[[str, str | None], AnyFunction]

_TAGS: Final = frozenset(["$undefined", "$bigint", "$date", "$bytes", "$map", "$set", "$number", "$error", "$object"])
_NUMBERS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf, "-0": -0.0}


class Undefined:
    """The type of `UNDEFINED`, which is false, as it is in JavaScript."""

    _instance: Undefined | None = None

    def __new__(cls) -> Undefined:
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "UNDEFINED"


UNDEFINED: Final = Undefined()


class BigInt(int):
    """An integer that is a bigint in scripts, however small. What is computed with it is a plain `int` again."""


class Map(dict[Any, Any]):
    """A `dict` that is a Map in scripts, whatever its keys are."""


class ObjectKey(dict[str, Any]):
    """An object as a key of a Map or a member of a Set. As in JavaScript it equals nothing but itself."""

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other


class JsError(Exception):
    """An Error of a script as a value: returned or passed, not thrown."""

    def __init__(
        self, message: str, *, name: str = "Error", stack: str | None = None, cause: object = UNDEFINED
    ) -> None:
        super().__init__(message)
        self.message = message
        self.name = name
        self.stack = stack
        self.cause = cause


def encode(value: object, export: ExportFunction) -> Wire:
    """The wire form of a value; `export` names the functions in it."""
    try:
        encoded = _Encoder(export).value(value, "")
    except RecursionError:
        raise _unserializable("deeper than the stack allows", "") from None
    return {"$undefined": True} if encoded is UNDEFINED else encoded


def decode(wire: Wire, receive: ImportFunction) -> Any:
    """The value of a wire form; `receive` makes its functions callable."""
    try:
        return _Decoder(receive).value(wire, 0)
    except RecursionError:
        raise BadAnswer("a value deeper than the stack allows") from None


class _Encoder:
    def __init__(self, export: ExportFunction) -> None:
        self._export = export
        self._ancestors: set[int] = set()

    def value(self, value: object, path: str) -> Wire:
        """`UNDEFINED` stands for itself here; each place treats it in its own way."""
        if value is None or value is UNDEFINED or isinstance(value, bool):
            return value
        if isinstance(value, Enum):
            return self.value(value.value, path)
        if isinstance(value, str):
            return _well_formed(value)
        if isinstance(value, int):
            return _encode_int(value, path)
        if isinstance(value, float):
            return _encode_float(value)
        scalar = _encode_scalar(value, path)
        if scalar is not None:
            return scalar
        return self._nested(value, path)

    def _nested(self, value: object, path: str) -> Wire:
        key = id(value)
        if key in self._ancestors:
            raise _unserializable("the value contains itself", path)
        if len(self._ancestors) >= VALUE_DEPTH_MAX:
            raise _unserializable(f"deeper than {VALUE_DEPTH_MAX}", path)
        self._ancestors.add(key)
        try:
            return self._container(value, path)
        finally:
            self._ancestors.discard(key)

    def _container(self, value: object, path: str) -> Wire:
        if isinstance(value, Mapping):
            return self._mapping(cast("Mapping[object, object]", value), path)
        if isinstance(value, list | tuple):
            items = cast("list[object]", value)
            return [self._item(item, f"{path}/{index}") for index, item in enumerate(items)]
        if isinstance(value, AbstractSet):
            members = cast("AbstractSet[object]", value)
            return {"$set": [self._item(member, path) for member in members]}
        if isinstance(value, BaseException):
            return {"$error": self._error(value, path)}
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            return self._object(fields, path)
        dump = getattr(value, "model_dump", None)
        if callable(dump) and not isinstance(value, type):
            return self.value(dump(by_alias=True), path)
        if callable(value) and not isinstance(value, type):
            return self._export(value)
        # Types of pydantic such as its URLs: their texts are what its schemas promise.
        if type(value).__module__.partition(".")[0] in ("pydantic", "pydantic_core"):
            return str(value)
        raise _unserializable(f"a value of type {type(value).__qualname__} cannot be serialized", path)

    def _mapping(self, value: Mapping[object, object], path: str) -> Wire:
        if not isinstance(value, Map) and all(isinstance(key, str) for key in value):
            return self._object(cast("Mapping[str, object]", value), path)
        return {"$map": [[self._item(key, path), self._item(item, path)] for key, item in value.items()]}

    def _object(self, members: Mapping[str, object], path: str) -> Wire:
        plain: dict[str, object] = {}
        for key, member in members.items():
            encoded = self.value(member, f"{path}/{_escaped(key)}")
            if encoded is not UNDEFINED:
                plain[_well_formed(key)] = encoded
        return {"$object": plain} if _reads_as_tag(plain) else plain

    def _item(self, value: object, path: str) -> Wire:
        encoded = self.value(value, path)
        return None if encoded is UNDEFINED else encoded

    def _error(self, error: BaseException, path: str) -> Wire:
        if not isinstance(error, JsError):
            form: dict[str, object] = {"name": type(error).__name__, "message": _well_formed(str(error))}
            cause: object = UNDEFINED if error.__cause__ is None else error.__cause__
        else:
            form = {"name": _well_formed(error.name), "message": _well_formed(error.message)}
            cause = error.cause
            if error.stack is not None:
                form["stack"] = _well_formed(error.stack)
        encoded = self.value(cause, f"{path}/cause")
        if encoded is not UNDEFINED:
            form["cause"] = encoded
        return form


def _encode_int(value: int, path: str) -> Wire:
    if abs(value) <= SAFE_INTEGER_MAX and not isinstance(value, BigInt):
        return int(value)
    if abs(value) >= 10**BIGINT_DIGITS_MAX:
        raise _unserializable(f"an integer of more than {BIGINT_DIGITS_MAX} digits", path)
    return {"$bigint": int_to_text(int(value))}


def _encode_float(value: float) -> Wire:
    if math.isnan(value):
        return {"$number": "NaN"}
    if math.isinf(value):
        return {"$number": "Infinity" if value > 0 else "-Infinity"}
    return {"$number": "-0"} if value == 0 and math.copysign(1, value) < 0 else float(value)


def _encode_scalar(value: object, path: str) -> Wire:
    if isinstance(value, datetime):
        return {"$date": _datetime_to_text(value, path)}
    if isinstance(value, date):
        return {"$date": value.isoformat()}
    if isinstance(value, bytes | bytearray | memoryview):
        return {"$bytes": base64.b64encode(bytes(cast("Any", value))).decode("ascii")}
    if isinstance(value, Decimal | UUID | PurePath):
        return str(value)
    return None


def _datetime_to_text(value: datetime, path: str) -> str:
    try:
        utc = value.astimezone(timezone.utc)
    except (OverflowError, OSError, ValueError) as error:
        raise _unserializable("a datetime that has no time in UTC", path) from error
    return f"{utc:%Y}".zfill(4) + f"-{utc:%m-%dT%H:%M:%S}.{utc.microsecond // 1000:03d}Z"


def _reads_as_tag(value: dict[str, object]) -> bool:
    return "$fn" in value or (len(value) == 1 and next(iter(value)) in _TAGS)


class _Decoder:
    def __init__(self, receive: ImportFunction) -> None:
        self._receive = receive

    def value(self, wire: Wire, depth: int) -> Any:
        if not isinstance(wire, dict | list):
            return wire
        if depth >= VALUE_DEPTH_MAX:
            raise BadAnswer(f"a value deeper than {VALUE_DEPTH_MAX}")
        items = as_list(cast("object", wire))
        if items is not None:
            return [self.value(item, depth + 1) for item in items]
        record = cast("dict[str, object]", wire)
        if "$fn" in record:
            return self._function(record)
        if _reads_as_tag(record):
            [(tag, content)] = record.items()
            return self._tag(tag, content, depth + 1)
        return self._object(record, depth + 1)

    def _object(self, record: dict[str, object], depth: int) -> dict[str, Any]:
        return {key: self.value(member, depth) for key, member in record.items()}

    def _function(self, record: dict[str, object]) -> AnyFunction:
        identifier, name = record["$fn"], record.get("name")
        if not isinstance(identifier, str):
            raise malformed("$fn")
        return self._receive(identifier, name if isinstance(name, str) else None)

    def _tag(self, tag: str, content: object, depth: int) -> Any:
        if tag == "$undefined" and content is True:
            return UNDEFINED
        if isinstance(content, str):
            return _decode_text(tag, content)
        items, record = as_list(content), as_record(content)
        if tag == "$set" and items is not None:
            return {_hashable(self.value(item, depth)) for item in items}
        if tag == "$map" and items is not None:
            return Map(self._pair(pair, depth) for pair in items)
        if tag == "$object" and record is not None:
            return self._object(record, depth)
        if tag == "$error" and record is not None:
            return self._error(record, depth)
        raise malformed(tag)

    def _pair(self, wire: Wire, depth: int) -> tuple[Hashable, Any]:
        pair = as_list(wire)
        if pair is None or len(pair) != 2:
            raise malformed("$map")
        return _hashable(self.value(pair[0], depth)), self.value(pair[1], depth)

    def _error(self, record: dict[str, Any], depth: int) -> JsError:
        stack = record.get("stack")
        return JsError(
            str(record.get("message", "")),
            name=str(record.get("name", "Error")),
            stack=stack if isinstance(stack, str) else None,
            cause=self.value(record["cause"], depth) if "cause" in record else UNDEFINED,
        )


def _decode_text(tag: str, content: str) -> Any:
    if tag == "$bigint":
        return BigInt(text_to_int(content))
    if tag == "$date":
        return text_to_datetime(content)
    if tag == "$number" and content in _NUMBERS:
        return _NUMBERS[content]
    if tag == "$bytes":
        try:
            return base64.b64decode(content, validate=True)
        except (binascii.Error, ValueError) as error:
            raise malformed(tag) from error
    raise malformed(tag)


def _hashable(value: Any) -> Hashable:
    """A value as a key or member: an array as a tuple, an object as what equals only itself."""
    if isinstance(value, list):
        return tuple(_hashable(item) for item in cast("list[Any]", value))
    if isinstance(value, set):
        return frozenset(cast("set[Any]", value))
    if isinstance(value, dict):
        return ObjectKey(cast("dict[str, Any]", value))
    return cast("Hashable", value)


def _well_formed(text: str) -> str:
    """A lone surrogate, which UTF-8 cannot carry, becomes U+FFFD, as on the server."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _unserializable(why: str, path: str) -> Unserializable:
    place = "the top" if path == "" else path
    return Unserializable(f"{why}, at {place}", data={"kind": "Unserializable", "path": path})
