"""The programs in the documents run, and print what their comments say."""

import re
import subprocess
import sys

import pytest

from support.server import ROOT, TestServer

DOCUMENTS = ["README.md", "docs/python.md", "python/README.md"]
PROGRAM_S_MAX = 30


def programs():
    for document in DOCUMENTS:
        text = (ROOT / document).read_text()
        for block in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            line = text.count("\n", 0, block.start()) + 1
            yield pytest.param(block[1], id=f"{document}:{line}")


@pytest.fixture(scope="module")
def orders():
    running = TestServer(ROOT / "bindings")
    yield running
    running.kill()


def test_programs_are_found():
    assert len(list(programs())) >= 9


@pytest.mark.parametrize("code", list(programs()))
def test_program_prints_what_it_says(code, orders, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(code.replace("ws://127.0.0.1:7400", orders.url))
    done = subprocess.run(
        [sys.executable, str(program)],
        input="",
        capture_output=True,
        text=True,
        timeout=PROGRAM_S_MAX,
    )
    assert done.returncode == 0, done.stderr
    promised = re.findall(r"^ *print\(.*\)  # (.+)$", code, re.MULTILINE)
    assert [line for line in done.stdout.splitlines() if line in promised] == promised, done.stdout


def test_served_program_without_a_pipe_says_so(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import scomp\nscomp.serve(scomp.Bindings())\n")
    done = subprocess.run(
        [sys.executable, str(program)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PROGRAM_S_MAX
    )
    assert done.returncode == 1
    assert "stdin is not a pipe" in done.stderr
