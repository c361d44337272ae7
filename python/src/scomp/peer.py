"""One connection as this side sees it: our requests and who waits for them, the peer's requests and what runs them.

Texts in, texts out; no socket, no clock, no thought of reconnecting. A peer ends with its connection and is never
used again, so that nothing of an old connection can leak into the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from . import rpc, values
from .calls import Call, IncomingCalls
from .errors import (
    BadAnswer,
    Busy,
    InvalidParams,
    ResultTooLarge,
    ScompError,
    TooLong,
    UnknownBinding,
    UnknownMethod,
    UnknownRef,
    from_object,
    to_object,
)
from .functions import call_function
from .limits import INVOKES_IN_FLIGHT_MAX, INVOKES_WAITING_MAX, MESSAGE_CHARS_MAX, REQUESTS_WAITING_MAX
from .references import Exports, Imports
from .rpc import ErrorObject, Id, as_list, as_record
from .threads import HandlerThreads

CONSOLE_WRITE = "console.write"
"""Console lines are delivered as they arrive: they neither wait for slow handlers nor overtake each other."""


class Handler(Protocol):
    """What runs when the peer calls a binding of ours."""

    @property
    def takes_blocking_functions(self) -> bool:
        """Whether functions in the input are to be called without `await`."""
        ...

    async def run(self, input: Any, call: Call, threads: HandlerThreads) -> object: ...


@dataclass(frozen=True)
class Pending:
    """A request that was sent; the id is that on the wire."""

    id: int
    answer: asyncio.Future[Any]


@dataclass
class _Waiter:
    answer: asyncio.Future[Any]
    is_invoke: bool


@dataclass
class Services:
    """What the calls of the peer find on this side."""

    handlers: Mapping[str, Handler]
    threads: HandlerThreads
    client: object = None
    on_console: Callable[[Any], None] | None = None
    methods: Mapping[str, Callable[[Any], object]] | None = None
    """Methods beside `invoke`, answered immediately."""


class Peer:
    def __init__(self, write: Callable[[str], None], services: Services) -> None:
        self._loop = asyncio.get_running_loop()
        self._write = write
        self._services = services
        self._ids_used = 0
        self._waiting: dict[int, _Waiter] = {}
        self._unsent: dict[int, str] = {}
        self._invokes_in_flight = 0
        self._ended: Exception | None = None
        self.calls = IncomingCalls(lambda: len(self._waiting) - len(self._unsent))
        self.exports = Exports()
        self.imports = Imports(self._loop, self._call_reference, self._send_release)

    # Our requests.

    def request(self, method: str, params: object) -> Pending:
        """Sends a request immediately. Past the limit: `Busy`."""
        self._check_open()
        if len(self._waiting) - len(self._unsent) >= REQUESTS_WAITING_MAX:
            raise Busy(f"{REQUESTS_WAITING_MAX} requests wait for their answers")
        pending, text = self._open(method, params, is_invoke=False)
        self._send(text)
        return pending

    async def invoke(self, target: dict[str, str], args: tuple[object, ...], *, blocking: bool = False) -> Any:
        """Calls a binding with its one input, or a function with its arguments; if too many are under way, later."""
        self._check_open()
        if len(self._unsent) >= INVOKES_WAITING_MAX:
            raise Busy(f"{INVOKES_WAITING_MAX} calls wait here already")

        def build(export: values.ExportFunction) -> tuple[Pending, str]:
            encoded = [values.encode(arg, export) for arg in args]
            payload = {"input": encoded[0]} if len(encoded) == 1 else {"args": encoded}
            return self._open("invoke", {**target, **payload}, is_invoke=True)

        # The request is made inside, so that functions in one that cannot be sent do not count as sent.
        pending, text = self.exports.sending(build)
        self._unsent[pending.id] = text
        self._send_unsent()
        try:
            return self.value(await pending.answer, blocking=blocking)
        except asyncio.CancelledError:
            self._abandon(pending.id)
            raise

    async def control(self, binding: str, input: object) -> Any:
        """Calls a binding of the session itself, which does not wait behind other calls."""
        return self.value(await self.request("invoke", {"binding": binding, "input": input}).answer)

    def value(self, result: object, *, blocking: bool = False) -> Any:
        """The value in the result of an `invoke` or `eval`."""
        record = as_record(result)
        if record is None or "value" not in record:
            raise BadAnswer("the answer has no value")
        return self._decode(record["value"], blocking=blocking)

    def end(self, reason: Exception) -> None:
        """The connection is over: every waiter fails with the reason, every handler is cancelled."""
        if self._ended is None:
            self._ended = reason
        waiting, self._waiting = self._waiting, {}
        self._unsent.clear()
        for waiter in waiting.values():
            _fail(waiter.answer, reason)
        self.calls.end()

    def end_requests(self, reason: Exception) -> None:
        """No answers come any more, but what runs here may still finish and answer."""
        waiting, self._waiting = self._waiting, {}
        self._unsent.clear()
        for waiter in waiting.values():
            _fail(waiter.answer, reason)

    def _check_open(self) -> None:
        if self._ended is not None:
            raise self._ended

    def _open(self, method: str, params: object, *, is_invoke: bool) -> tuple[Pending, str]:
        identifier = self._ids_used + 1
        text = rpc.request(identifier, method, params)
        if len(text) > MESSAGE_CHARS_MAX:
            raise TooLong(f"{method}: a message of {len(text)} characters; {MESSAGE_CHARS_MAX} may be sent")
        self._ids_used = identifier
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._waiting[identifier] = _Waiter(answer, is_invoke)
        return Pending(identifier, answer), text

    def _send(self, text: str) -> None:
        self._write(text)
        # A handler that waits for this answer has lent its place.
        self.calls.pump()

    def _send_unsent(self) -> None:
        while self._unsent and self._invokes_in_flight < INVOKES_IN_FLIGHT_MAX:
            identifier = next(iter(self._unsent))
            text = self._unsent.pop(identifier)
            self._invokes_in_flight += 1
            self._send(text)

    def _abandon(self, identifier: int) -> None:
        """The caller was cancelled. A call that was sent keeps its place until its answer comes."""
        if self._unsent.pop(identifier, None) is not None:
            self._waiting.pop(identifier, None)

    def _settle(self, identifier: Id) -> asyncio.Future[Any] | None:
        """The waiter of an answer. An answer without one, or that came twice, is dropped."""
        if not isinstance(identifier, int) or identifier in self._unsent:
            return None
        waiter = self._waiting.pop(identifier, None)
        if waiter is None:
            return None
        if waiter.is_invoke:
            self._invokes_in_flight -= 1
            self._send_unsent()
        return None if waiter.answer.done() else waiter.answer

    async def _call_reference(self, identifier: str, args: tuple[object, ...]) -> Any:
        return await self.invoke({"ref": identifier}, args)

    def _send_release(self, identifier: str, count: int) -> None:
        if self._ended is None:
            self._write(rpc.notification("release_ref", {"ref": identifier, "count": count}))

    def _decode(self, wire: object, *, blocking: bool) -> Any:
        if not blocking:
            return values.decode(wire, self.imports.receive)
        return values.decode(wire, lambda identifier, name: self.imports.receive(identifier, name).blocking)

    # The peer's messages.

    def on_text(self, text: str) -> None:
        message = rpc.decode(text)
        if isinstance(message, rpc.Request):
            self._on_request(message)
        elif isinstance(message, rpc.Notification):
            self._on_notification(message)
        elif isinstance(message, rpc.Success):
            answer = self._settle(message.id)
            if answer is not None:
                answer.set_result(message.result)
        elif isinstance(message, rpc.Failure):
            answer = self._settle(message.id)
            if answer is not None:
                _fail(answer, from_object(message.error))
        elif isinstance(message, rpc.Unreadable) and message.id is not None:
            self._answer(rpc.failure(message.id, ErrorObject(-32600, message.reason, {"kind": "InvalidRequest"})))

    def _on_request(self, request: rpc.Request) -> None:
        methods = self._services.methods or {}
        if request.method in methods:
            self._answer_now(request.id, lambda: methods[request.method](request.params))
        elif request.method != "invoke":
            self._refuse(request.id, UnknownMethod(f"no method {request.method}"))
        elif request.id in self.calls:
            # An answer would be taken for that of the call in flight.
            return
        else:
            self._on_invoke(request)

    def _on_invoke(self, request: rpc.Request) -> None:
        params = as_record(request.params)
        binding = params.get("binding") if params is not None else None
        on_console = self._services.on_console
        if params is not None and binding == CONSOLE_WRITE and on_console is not None:
            self._answer_now(request.id, lambda: on_console(params.get("input")) or {"value": None})
            return
        call = Call(binding if isinstance(binding, str) else None, self._services.client)

        async def run(call: Call) -> None:
            await self._run_and_answer(request.id, params, call)

        if not self.calls.add(request.id, call, run):
            self._refuse(request.id, Busy("too many calls wait for their handlers"))

    def _answer_now(self, identifier: Id, produce: Callable[[], object]) -> None:
        try:
            text = rpc.success(identifier, produce())
        except Exception as error:
            text = rpc.failure(identifier, to_object(error))
        self._answer(text)

    async def _run_and_answer(self, identifier: Id, params: dict[str, Any] | None, call: Call) -> None:
        try:
            value = await self._run(params, call)
            # The peer drops the answer to a cancelled call, and would never release the functions in it.
            if call.cancelled:
                return
            text = self.exports.sending(lambda export: _success(identifier, value, export))
        except Exception as error:
            if call.cancelled:
                return
            text = _failure(identifier, error)
        except asyncio.CancelledError:
            # A handler may be cancelled from inside, without the peer: it is owed an answer then.
            if not call.cancelled and self._ended is None:
                self._answer(_failure(identifier, ScompError("the handler was cancelled", kind="Cancelled")))
            raise
        self._answer(text)

    def _run(self, params: dict[str, Any] | None, call: Call) -> Awaitable[object]:
        if params is None:
            raise InvalidParams("invoke: expected an object")
        binding, reference = params.get("binding"), params.get("ref")
        if isinstance(binding, str):
            handler = self._services.handlers.get(binding)
            if handler is None:
                raise UnknownBinding(f"no binding {binding}")
            value = self._decode(params.get("input"), blocking=handler.takes_blocking_functions)
            return handler.run(value, call, self._services.threads)
        if not isinstance(reference, str):
            raise InvalidParams("invoke: expected `binding` or `ref`")
        function = self.exports.get(reference)
        if function is None:
            raise UnknownRef(f"no function {reference}")
        args = as_list(params.get("args")) if "args" in params else [params.get("input")]
        return call_function(
            function,
            args or [],
            self._services.threads,
            lambda wire, blocking: self._decode(wire, blocking=blocking),
        )

    def _on_notification(self, message: rpc.Notification) -> None:
        params = as_record(message.params)
        if params is None:
            return
        reference, count, identifier = params.get("ref"), params.get("count", 1), params.get("id")
        if message.method == "release_ref" and isinstance(reference, str):
            self.exports.release(reference, count if isinstance(count, int) else 1)
        elif message.method == "cancel_invoke" and rpc.is_id(identifier):
            self.calls.cancel(identifier)

    def _refuse(self, identifier: Id, error: ScompError) -> None:
        self._answer(rpc.failure(identifier, error.to_object()))

    def _answer(self, text: str) -> None:
        if self._ended is None:
            self._write(text)


def _success(identifier: Id, value: object, export: values.ExportFunction) -> str:
    text = rpc.success(identifier, {"value": values.encode(value, export)})
    if len(text) > MESSAGE_CHARS_MAX:
        raise ResultTooLarge(f"an answer of {len(text)} characters; {MESSAGE_CHARS_MAX} may be sent")
    return text


def _failure(identifier: Id, error: BaseException) -> str:
    described = to_object(error)
    try:
        return rpc.failure(identifier, described)
    except (TypeError, ValueError, RecursionError):
        # Data that is not JSON; the message and the kind are what the script needs most.
        record = as_record(described.data) or {}
        return rpc.failure(
            identifier,
            ErrorObject(described.code, described.message, {"kind": str(record.get("kind", "BindingError"))}),
        )


def _fail(answer: asyncio.Future[Any], reason: Exception) -> None:
    if not answer.done():
        answer.set_exception(reason)
        # A waiter may have left; asyncio would log the error as lost.
        answer.exception()
