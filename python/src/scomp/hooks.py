"""Calls back into the program that uses the library."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec

P = ParamSpec("P")


def call_hook(hook: Callable[P, object] | None, *args: P.args, **kwargs: P.kwargs) -> None:
    """Calls a hook. One that raises is reported to the event loop's exception handler; the connection goes on."""
    if hook is None:
        return
    try:
        hook(*args, **kwargs)
    except Exception as error:
        asyncio.get_running_loop().call_exception_handler({"message": f"{hook!r} failed", "exception": error})
