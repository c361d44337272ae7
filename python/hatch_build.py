"""Puts the server into the wheel: `SCOMP_WHEEL_BINARY=path/to/scomp-serve python -m build --wheel`.

The wheel is then one of a platform, and `scomp-serve` is on PATH where it is installed. Without the variable it is a
wheel for every platform, of the client alone.
"""

from __future__ import annotations

import os
import platform
import stat
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ServerBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        named = os.environ.get("SCOMP_WHEEL_BINARY")
        if self.target_name != "wheel" or version == "editable" or not named:
            return
        binary = Path(named).resolve()
        if binary.name != "scomp-serve" or not binary.stat().st_mode & stat.S_IXUSR:
            raise ValueError(f"SCOMP_WHEEL_BINARY: expected an executable scomp-serve, got {binary}")
        build_data["pure_python"] = False
        build_data["shared_scripts"] = {str(binary): binary.name}
        build_data["tag"] = f"py3-none-{platform_tag()}"


def platform_tag() -> str:
    """The platform of this machine. A binary that is linked against its C library runs with that or a later one."""
    plain = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    library, version = platform.libc_ver()
    if library == "glibc" and plain.startswith("linux_"):
        return f"manylinux_{version.replace('.', '_')}_{plain.removeprefix('linux_')}"
    return plain
