"""The server's bindings as attributes: `client.bindings.kv.get(key="a")` calls `kv.get`.

Names are looked up when they are used, so a server that comes back with other bindings is seen as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Namespace:
    def __init__(self, names: Callable[[], list[str]], invoke: Callable[[str, object], Any], prefix: str = "") -> None:
        self._names = names
        self._invoke = invoke
        self._prefix = prefix

    def __getattr__(self, key: str) -> Any:
        path = f"{self._prefix}{key}"
        names = self._names()
        if path in names:
            return self._function(path)
        if any(name.startswith(f"{path}.") for name in names):
            return Namespace(self._names, self._invoke, f"{path}.")
        raise AttributeError(f"the server has no binding {path}")

    def __dir__(self) -> list[str]:
        below = [name.removeprefix(self._prefix) for name in self._names() if name.startswith(self._prefix)]
        return sorted({name.partition(".")[0] for name in below})

    def _function(self, name: str) -> Callable[..., Any]:
        def call(input: object = None, /, **members: object) -> Any:
            if input is not None and members:
                raise TypeError(f"{name}: pass the input, or its members by name")
            return self._invoke(name, members if input is None else input)

        call.__name__ = name
        return call
