"""JSON-RPC 2.0 as scomp uses it. Pure: a text in, what it means out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, TypeGuard, cast

Id = int | str

SAFE_INTEGER_MAX: Final = 2**53 - 1
"""Integers up to here are exact as a JavaScript number."""


@dataclass(frozen=True)
class ErrorObject:
    """`error` of a response."""

    code: int
    message: str
    data: object = None

    def to_json(self) -> dict[str, object]:
        form: dict[str, object] = {"code": self.code, "message": self.message}
        if self.data is not None:
            form["data"] = self.data
        return form


@dataclass(frozen=True)
class Request:
    id: Id
    method: str
    params: object


@dataclass(frozen=True)
class Notification:
    method: str
    params: object


@dataclass(frozen=True)
class Success:
    id: Id
    result: object


@dataclass(frozen=True)
class Failure:
    id: Id
    error: ErrorObject


@dataclass(frozen=True)
class Complaint:
    """An error about a message of ours that the peer could not read. Never answered: its answer could itself be
    unreadable, and two peers would refuse each other for ever."""

    error: ErrorObject


@dataclass(frozen=True)
class Unreadable:
    """Not a message of the protocol; with the id to answer to, if it has one."""

    id: Id | None
    reason: str


Message = Request | Notification | Success | Failure | Complaint | Unreadable


def decode(text: str) -> Message:
    """Reads a frame. Shape and meaning are separate steps, so that a frame with two meanings is refused."""
    try:
        frame = json.loads(text, parse_int=_parse_int, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return Unreadable(None, "not JSON")
    record = as_record(frame)
    if record is None:
        return Unreadable(None, "not an object")
    identifier, method = record.get("id"), record.get("method")
    usable = identifier if is_id(identifier) else None
    if record.get("jsonrpc") != "2.0":
        return Unreadable(usable if "method" in record else None, '`jsonrpc` is not "2.0"')
    if isinstance(method, str):
        if "id" not in record:
            return Notification(method, record.get("params"))
        if usable is None:
            return Unreadable(None, "no usable `id`")
        return Request(usable, method, record.get("params"))
    return _decode_response(record, usable)


def _decode_response(record: dict[str, object], usable: Id | None) -> Message:
    failed = "error" in record
    if failed == ("result" in record):
        return Unreadable(None, "expected `result` or `error`")
    if not failed:
        return Unreadable(None, "no usable `id`") if usable is None else Success(usable, record["result"])
    error = _read_error(record["error"])
    if error is None:
        return Unreadable(None, "a malformed `error`")
    if usable is not None:
        return Failure(usable, error)
    return Complaint(error) if record.get("id") is None else Unreadable(None, "no usable `id`")


def _read_error(value: object) -> ErrorObject | None:
    record = as_record(value)
    if record is None:
        return None
    code, message = record.get("code"), record.get("message")
    if not isinstance(code, int) or isinstance(code, bool) or not isinstance(message, str):
        return None
    return ErrorObject(code, message, record.get("data"))


def request(identifier: int, method: str, params: object) -> str:
    return _dump({"jsonrpc": "2.0", "id": identifier, "method": method, "params": params})


def notification(method: str, params: object) -> str:
    return _dump({"jsonrpc": "2.0", "method": method, "params": params})


def success(identifier: Id, result: object) -> str:
    return _dump({"jsonrpc": "2.0", "id": identifier, "result": result})


def failure(identifier: Id, error: ErrorObject) -> str:
    return _dump({"jsonrpc": "2.0", "id": identifier, "error": error.to_json()})


def _dump(message: dict[str, object]) -> str:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def is_id(value: object) -> TypeGuard[Id]:
    """An id is an integer or a string; `True` is neither, although Python counts it among the integers."""
    return isinstance(value, int | str) and not isinstance(value, bool)


def as_record(value: object) -> dict[str, Any] | None:
    """The value as a JSON object, or `None`. `Any`, because what a peer sent has no type until it is checked."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def as_list(value: object) -> list[Any] | None:
    return cast("list[Any]", value) if isinstance(value, list) else None


def _parse_int(digits: str) -> int | float:
    # A number that long was a double in the script; its further digits mean nothing.
    if len(digits) > len("-9007199254740991"):
        return float(digits)
    number = int(digits)
    return number if abs(number) <= SAFE_INTEGER_MAX else float(digits)


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
