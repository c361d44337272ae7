"""How functions of the program are called: on the event loop if they are async, on a thread if they are not."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from .threads import HandlerThreads
from .values import AnyFunction


def is_async(function: AnyFunction) -> bool:
    """Whether calling it returns an awaitable, as far as that can be seen from outside."""
    while isinstance(function, partial):
        function = function.func
    call = getattr(function, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


async def call_function(
    function: AnyFunction,
    wire_args: list[Any],
    threads: HandlerThreads,
    decode: Callable[[Any, bool], Any],
) -> object:
    """Calls a function that was passed as a value, with arguments of the wire.

    JavaScript passes more arguments than a function takes, such as the index in `map`: those are left out.
    """
    runs_here = is_async(function)
    args = [decode(arg, not runs_here) for arg in wire_args][: count_positional(function)]
    return await run_function(partial(function, *args), threads, inline=runs_here)


async def run_function(function: Callable[[], object], threads: HandlerThreads, *, inline: bool) -> object:
    """Runs it here or on a thread, and awaits what it returns if that is an awaitable."""
    result = function() if inline else await threads.run(function)
    return await result if inspect.isawaitable(result) else result


def count_positional(function: AnyFunction) -> int | None:
    """How many arguments it takes by position; `None` if any number, or if it cannot be seen."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return None
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(parameter.kind in by_position for parameter in parameters)
