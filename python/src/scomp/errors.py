"""What goes wrong, as classes by kind. `kind` is the stable name; the message is for people, `report` for models.

A class has the name of its kind, except `ScriptSyntaxError` for the kind `SyntaxError`. Groups let a harness decide
in one `except`: a `ScriptError` goes back to the model, a `ConnectionFailed` is the harness's own problem.
"""

from __future__ import annotations

import builtins
from typing import ClassVar, Final

from .console import ConsoleLine, read_lines
from .limits import REPORT_CHARS_MAX
from .reports import build_report
from .rpc import ErrorObject, as_list, as_record

_CODE_DEFAULT: Final = -32000

__all__ = [
    "BadAnswer",
    "BindingError",
    "Busy",
    "CallError",
    "Cancelled",
    "CapacityError",
    "Closed",
    "ConnectionFailed",
    "ConnectionLost",
    "Deadlock",
    "EvalError",
    "Internal",
    "InvalidInput",
    "InvalidOutput",
    "InvalidParams",
    "InvalidRequest",
    "KeyConflict",
    "MemoryLimit",
    "NotReady",
    "ParseError",
    "PeerGone",
    "PermissionDenied",
    "ProtocolError",
    "QueueFull",
    "ResultTooLarge",
    "ScompError",
    "ScriptError",
    "ScriptSyntaxError",
    "SessionClosed",
    "SessionLost",
    "SessionRefused",
    "StackOverflow",
    "Timeout",
    "TooDeep",
    "TooLong",
    "TooManyCalls",
    "TooManyRefs",
    "Unauthorized",
    "UnknownBinding",
    "UnknownMethod",
    "UnknownRef",
    "Unserializable",
    "UnsupportedProtocol",
    "ValidationLimit",
]


class ScompError(Exception):
    """Every failure of this library."""

    default_kind: ClassVar[str] = "Internal"
    default_code: ClassVar[int] = _CODE_DEFAULT

    def __init__(self, message: str, *, kind: str | None = None, code: int | None = None, data: object = None) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind if kind is not None else type(self).default_kind
        self.code = code if code is not None else type(self).default_code
        self.data = data

    def __str__(self) -> str:
        return self.message

    @property
    def remote_stack(self) -> str | None:
        """The script's stack trace, for an error that a script threw."""
        stack = self._member("stack")
        return stack if isinstance(stack, str) else None

    @property
    def console(self) -> list[ConsoleLine]:
        """What an eval printed before it failed."""
        return read_lines(self._member("console"))

    @property
    def suggestions(self) -> list[str]:
        """Names of bindings close to one that the script missed."""
        return [str(name) for name in as_list(self._member("suggestions")) or []]

    @property
    def session_lost(self) -> bool:
        """Whether the session's state went with the failure."""
        return self._member("sessionLost") is True

    @property
    def retry_after(self) -> float | None:
        """Seconds after which a refused request may be sent again."""
        after = self._member("retryAfterMs")
        return after / 1000 if isinstance(after, int | float) else None

    @property
    def report(self) -> str:
        """What a model or a person needs for the repair: message, place, suggestions, cause."""
        report = self._member("report")
        if isinstance(report, str):
            return report[:REPORT_CHARS_MAX]
        return build_report(self.message, self.data)[:REPORT_CHARS_MAX]

    def to_object(self) -> ErrorObject:
        """The error as an answer to the peer."""
        data = as_record(self.data)
        if data is None:
            return ErrorObject(self.code, self.message, {"kind": self.kind} if self.data is None else self.data)
        return ErrorObject(self.code, self.message, data)

    def _member(self, key: str) -> object:
        record = as_record(self.data)
        return None if record is None else record.get(key)


class ScriptError(ScompError):
    """The script failed. Its author, often a model, can read `report` and repair it."""


class CallError(ScompError):
    """A call of a binding or a function failed. A handler's own kind is kept in `kind`."""

    default_kind = "BindingError"


class ProtocolError(ScompError):
    """The server and this client do not understand each other."""


class CapacityError(ScompError):
    """Refused for now, nothing of it has run; `retry_after` says when to try again, if the server knows."""


class ConnectionFailed(ScompError, builtins.ConnectionError):
    """The connection or the session is gone, or could not be had. `close_code` is that of the WebSocket."""

    def __init__(
        self,
        message: str,
        *,
        kind: str | None = None,
        code: int | None = None,
        data: object = None,
        close_code: int | None = None,
    ) -> None:
        super().__init__(message, kind=kind, code=code, data=data)
        self.close_code = close_code


class EvalError(ScriptError):
    """The script threw."""

    default_kind = "EvalError"


class ScriptSyntaxError(ScriptError):
    """The code is not JavaScript or TypeScript. The kind is `SyntaxError`."""

    default_kind = "SyntaxError"


class Timeout(ScriptError, builtins.TimeoutError):
    default_kind = "Timeout"


class MemoryLimit(ScriptError):
    default_kind = "MemoryLimit"


class StackOverflow(ScriptError):
    default_kind = "StackOverflow"


class Cancelled(ScriptError):
    default_kind = "Cancelled"


class Deadlock(ScriptError):
    default_kind = "Deadlock"


class ResultTooLarge(ScriptError):
    default_kind = "ResultTooLarge"


class Unserializable(ScriptError):
    """A value that cannot travel; `data["path"]` says where it is."""

    default_kind = "Unserializable"


class TooManyRefs(ScriptError):
    default_kind = "TooManyRefs"


class TooManyCalls(ScriptError):
    default_kind = "TooManyCalls"


class TooDeep(ScriptError):
    default_kind = "TooDeep"


class ValidationLimit(ScriptError):
    default_kind = "ValidationLimit"


class PermissionDenied(ScriptError, builtins.PermissionError):
    """The policy, or the approval, does not allow the call."""

    default_kind = "PermissionDenied"


class BindingError(CallError):
    """A handler failed without a kind of its own."""


class InvalidInput(CallError):
    default_kind = "InvalidInput"
    default_code = -32602


class InvalidOutput(CallError):
    default_kind = "InvalidOutput"
    default_code = -32004


class UnknownBinding(CallError):
    default_kind = "UnknownBinding"
    default_code = -32601


class UnknownRef(CallError):
    default_kind = "UnknownRef"
    default_code = -32601


class PeerGone(CallError):
    default_kind = "PeerGone"


class ParseError(ProtocolError):
    default_kind = "ParseError"
    default_code = -32700


class InvalidRequest(ProtocolError):
    default_kind = "InvalidRequest"
    default_code = -32600


class UnknownMethod(ProtocolError):
    default_kind = "UnknownMethod"
    default_code = -32601


class InvalidParams(ProtocolError):
    default_kind = "InvalidParams"
    default_code = -32602


class UnsupportedProtocol(ProtocolError):
    default_kind = "UnsupportedProtocol"
    default_code = -32001


class NotReady(ProtocolError):
    default_kind = "NotReady"
    default_code = -32002


class KeyConflict(ProtocolError):
    default_kind = "KeyConflict"
    default_code = -32602


class Internal(ProtocolError):
    default_kind = "Internal"


class BadAnswer(ProtocolError):
    """The server sent something that is not the protocol."""

    default_kind = "BadAnswer"


class TooLong(ProtocolError):
    """What was to be sent is longer than a message may be."""

    default_kind = "TooLong"


class Busy(CapacityError):
    default_kind = "Busy"


class QueueFull(CapacityError):
    default_kind = "QueueFull"


class Closed(ConnectionFailed):
    """The connection ended for good, or could not be opened."""

    default_kind = "Closed"


class ConnectionLost(ConnectionFailed):
    """The connection broke while a call was under way; whether it ran is unknown."""

    default_kind = "ConnectionLost"


class SessionLost(ConnectionFailed):
    """The session, with all its state, is gone: it expired, or the server restarted."""

    default_kind = "SessionLost"


class SessionClosed(ConnectionFailed):
    default_kind = "SessionClosed"


class SessionRefused(ConnectionFailed):
    """The session to resume is unknown, expired or not yours."""

    default_kind = "SessionRefused"
    default_code = -32003


class Unauthorized(ConnectionFailed):
    """The server does not accept the token, or wants one."""

    default_kind = "Unauthorized"


def _leaves(base: type[ScompError]) -> list[type[ScompError]]:
    below = base.__subclasses__()
    return [base] if not below else [leaf for cls in below for leaf in _leaves(cls)]


KINDS: Final[dict[str, type[ScompError]]] = {cls.default_kind: cls for cls in _leaves(ScompError)}
"""The class of each kind. A kind that is not here is a handler's own: `CallError`."""


def from_object(error: ErrorObject) -> ScompError:
    """The exception for an error that the peer answered with."""
    data = as_record(error.data)
    kind = data.get("kind") if data is not None else None
    if not isinstance(kind, str):
        return BindingError(error.message, code=error.code, data=error.data)
    return KINDS.get(kind, CallError)(error.message, kind=kind, code=error.code, data=error.data)


class HandlerError(Exception):
    """For handlers: an error with a kind, code and data of its own, which the script sees as such.

    Any other exception reaches the script with its message alone, as a `BindingError`.
    """

    def __init__(
        self, message: str, *, kind: str | None = "BindingError", code: int = _CODE_DEFAULT, **data: object
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.code = code
        self.data = data


def to_object(error: BaseException) -> ErrorObject:
    """What a handler raised, as the peer receives it."""
    if isinstance(error, ScompError):
        return error.to_object()
    if isinstance(error, HandlerError):
        data = error.data if error.kind is None else {"kind": error.kind, **error.data}
        return ErrorObject(error.code, str(error), data or None)
    text = str(error)
    # The text of a KeyError is the key alone, and many errors have none.
    if text == "" or isinstance(error, LookupError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return ErrorObject(_CODE_DEFAULT, text, {"kind": "BindingError"})
