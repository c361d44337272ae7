import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.server import TestServer, python_package
from transcript_bindings import DECLARATION

PROGRAM = Path(__file__).parent / "transcript_bindings.py"


@pytest.fixture(scope="session")
def bindings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for `--bindings` with the bindings of the transcripts, served by Python."""
    declared = json.loads(DECLARATION.read_text())["bindings"]
    return python_package(tmp_path_factory.mktemp("bindings"), "tests", PROGRAM, bindings=declared)


@pytest.fixture(scope="session")
def server(bindings: Path) -> Iterator[TestServer]:
    running = TestServer(bindings)
    yield running
    running.kill()
