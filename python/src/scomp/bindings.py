"""Bindings of the program: functions with their declarations, collected by a decorator.

The same collection serves a client, whose scripts call the functions, and `scomp.serve`, which offers them as a
package of the server.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeVar, cast, overload

from .calls import Call
from .errors import InvalidInput
from .functions import is_async, run_function
from .hints import InvalidValue, Parameters, Schema
from .hints.parameters import output_schema
from .threads import HandlerThreads
from .values import AnyFunction

F = TypeVar("F", bound=AnyFunction)

Effect = Literal["read", "write", "external"] | str
"""What a call does: policies and approvals are written in these words."""


class Binding:
    """A function that scripts may call, with its declaration."""

    def __init__(
        self,
        function: AnyFunction,
        *,
        name: str | None = None,
        description: str | None = None,
        effects: Sequence[Effect] | None = None,
        timeout: float | None = None,
        input: Schema | None = None,
        output: Schema | None = None,
        inline: bool = False,
    ) -> None:
        self.function = function
        self.name: str = name or str(getattr(function, "__name__", ""))
        self._is_inline = inline or is_async(function)
        try:
            self._parameters = Parameters(function)
            declared_input = input if input is not None else self._parameters.schema()
            declared_output = output if output is not None else output_schema(self._parameters.result)
        except (TypeError, NameError) as error:
            raise TypeError(f"binding {self.name}: {error}") from error
        text = description if description is not None else inspect.getdoc(function)
        members: dict[str, Any] = {
            "description": text,
            "input": declared_input,
            "output": declared_output,
            "effects": list(effects) if effects is not None else None,
            "limits": {"timeoutMs": round(timeout * 1000)} if timeout is not None else None,
        }
        self.declaration: dict[str, Any] = {"name": self.name}
        self.declaration.update({key: member for key, member in members.items() if member is not None})

    @property
    def takes_blocking_functions(self) -> bool:
        return not is_async(self.function)

    async def run(self, input: Any, call: Call, threads: HandlerThreads) -> object:
        """Checks the input, then runs the function, on a thread unless it is async or inline."""
        try:
            args, named = self._parameters.load(input, call)
        except InvalidValue as error:
            problems = [{"path": path, "message": message} for path, message in error.problems]
            raise InvalidInput(
                f"{self.name}: input{error.problems[0][0]}: {error.problems[0][1]}",
                data={"kind": "InvalidInput", "errors": problems},
            ) from None
        return await run_function(partial(self.function, *args, **named), threads, inline=self._is_inline)


class Bindings(Mapping[str, Binding]):
    """A collection of bindings by name."""

    def __init__(self) -> None:
        self._bindings: dict[str, Binding] = {}
        self.is_frozen = False

    @overload
    def binding(self, function: F, /) -> F: ...

    @overload
    def binding(
        self,
        name: str | None = None,
        /,
        *,
        description: str | None = None,
        effects: Sequence[Effect] | None = None,
        timeout: float | None = None,
        input: Schema | None = None,
        output: Schema | None = None,
        inline: bool = False,
    ) -> Callable[[F], F]: ...

    def binding(self, target: Any = None, /, **options: Any) -> Any:
        """Declares a function as a binding: `@binding`, or `@binding("kv.get", effects=["read"])`.

        The schema comes from the type hints, the description from the docstring. `timeout` says how many seconds a
        call may take. A plain function runs on a thread, unless it is `inline`: then it runs on the event loop, and
        must not block.
        """
        if target is None or isinstance(target, str):

            def declare(function: F) -> F:
                return self._declare(function, target, options)

            return declare
        return self._declare(target, None, options)

    def add(self, binding: Binding) -> None:
        if self.is_frozen:
            raise RuntimeError(f"binding {binding.name}: bindings are declared in the handshake, before connecting")
        if binding.name in self._bindings:
            raise ValueError(f"binding {binding.name} is declared twice")
        self._bindings[binding.name] = binding

    @property
    def declarations(self) -> list[dict[str, Any]]:
        return [binding.declaration for binding in self._bindings.values()]

    def _declare(self, function: F, name: str | None, options: dict[str, Any]) -> F:
        self.add(Binding(function, name=name, **options))
        return function

    def __getitem__(self, name: str) -> Binding:
        return self._bindings[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._bindings)

    def __len__(self) -> int:
        return len(self._bindings)


def collect(source: Bindings | Mapping[str, AnyFunction] | Sequence[AnyFunction] | None) -> Bindings:
    """A collection of its own from what a caller passed, so that later changes of one do not reach the other."""
    bindings = Bindings()
    if isinstance(source, Bindings):
        for binding in source.values():
            bindings.add(binding)
    elif isinstance(source, Mapping):
        for name, function in source.items():
            bindings.add(Binding(cast("AnyFunction", function), name=name))  # pyright: ignore[reportUnnecessaryCast]
    else:
        for function in source or ():
            bindings.add(Binding(function))
    return bindings
