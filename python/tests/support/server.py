"""The real binary on a free port. `SCOMP_SERVE` names it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TOKEN = "s3cret"


def binary() -> str:
    named = os.environ.get("SCOMP_SERVE")
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return named or str(target / "debug" / "scomp-serve")


def token_settings(policy: str = "{}", limits: str = "") -> str:
    """Settings of a server that wants a token."""
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    tokens = f'[[auth.tokens]]\nprincipal = "ci"\nsha256 = "{digest}"\npolicy = {policy}\n'
    return f"[limits]\n{limits}\n{tokens}"


def python_package(folder: Path, name: str, program: Path, **members: object) -> Path:
    """A folder for `--bindings` with a package that this Python serves."""
    package = folder / name
    package.mkdir(parents=True)
    declaration = {"package": name, "command": [sys.executable, str(program)], **members}
    (package / "declaration.json").write_text(json.dumps(declaration))
    return folder


class TestServer:
    """Starts in its constructor; `kill` ends it as a crash does."""

    __test__ = False

    def __init__(self, bindings: Path, settings: str = "", listen: str = "127.0.0.1:0") -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="scomp-test-")
        config = Path(self._folder.name) / "config.toml"
        config.write_text(settings)
        command = [binary(), "--listen", listen, "--bindings", str(bindings), "--config", str(config)]
        self._child = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "SCOMP_LOG": "error"}
        )
        self.address = self._read_address()

    @property
    def url(self) -> str:
        return f"ws://{self.address}/"

    def kill(self) -> None:
        self._child.kill()
        self._child.wait()
        if self._child.stdout is not None:
            self._child.stdout.close()
        self._folder.cleanup()

    def _read_address(self) -> str:
        for line in self._child.stdout or ():
            found = re.search(r"listening on http://(\S+)", line)
            if found is not None:
                return found[1]
        self.kill()
        raise RuntimeError(f"{binary()} ended before it listened")
