"""A server of one's own: `scomp-serve --stdio` as a child process, one for each connection of a client."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from .errors import Closed
from .transport import ChildEndpoint, Transport

PROGRAM = "scomp-serve"


class Server:
    """Where a client finds a server. `Client(Server.local())` starts one and ends it with the client."""

    def __init__(self, endpoint: ChildEndpoint) -> None:
        self._endpoint = endpoint

    @classmethod
    def local(
        cls,
        *,
        bindings: str | Path | None = None,
        config: str | Path | None = None,
        binary: str | Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Server:
        """A server as a child, over its stdin and stdout: no port, no token. Its session ends with the process, so
        there is nothing to resume: if the process dies, the client goes on in a new session (`SessionLost`)."""
        command = [str(binary) if binary is not None else find_binary(), "--stdio"]
        if bindings is not None:
            command += ["--bindings", str(bindings)]
        if config is not None:
            command += ["--config", str(config)]
        return cls(ChildEndpoint(tuple(command), {"SCOMP_LOG": "warn", **(environment or {})}))

    async def open(self) -> Transport:
        return await self._endpoint.open()


def find_binary() -> str:
    """`SCOMP_SERVE`, the program beside this Python (where pip puts it), or on PATH."""
    named = os.environ.get("SCOMP_SERVE")
    if named:
        return named
    beside = Path(sys.executable).parent / PROGRAM
    if beside.is_file():
        return str(beside)
    found = shutil.which(PROGRAM)
    if found is None:
        raise Closed(f"{PROGRAM} was not found: pip install scomp-serve, or set SCOMP_SERVE", close_code=1006)
    return found
