"""The same transcripts as the Rust suite: over a bare socket, and each eval through the library.

The bindings that they call are served by this library (transcript_bindings.py), so they test `scomp.serve` too.
"""

import asyncio
import json

import pytest

import scomp
from scomp.values import encode
from support.pattern import difference
from support.player import Player, lenient
from support.script import parse, settings_of
from support.server import ROOT, TestServer

# They call `relay`, with which a handler calls a binding of the client: an executable cannot.
NEED_RUST_HANDLERS = {"invoke/worked_example.txt", "invoke/errors_pass_through.txt", "values/malformed_answers.txt"}
FOLDER = ROOT / "tests" / "transcripts"
FILES = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.txt"))
FILES = [name for name in FILES if name not in NEED_RUST_HANDLERS]


def steps_of(name):
    # The Rust suite's own server has a name of its own.
    return parse((FOLDER / name).read_text().replace('"orders-scomp"', '"scomp-serve"'))


def is_evals_only(name):
    """A transcript that is nothing but evals can be played by any client."""
    steps = steps_of(name)
    return settings_of(steps).to_toml() == "" and all(
        step.word.startswith("js") or (step.word == "#!" and step.rest == "live") for step in steps
    )


EVALS_ONLY = [name for name in FILES if is_evals_only(name)]


def test_transcripts_are_found():
    assert len(FILES) >= 60
    assert len(EVALS_ONLY) >= 10


@pytest.mark.parametrize("name", FILES)
async def test_server_says_what_the_transcript_says(name, server, bindings):
    steps = steps_of(name)
    settings = settings_of(steps).to_toml()
    own = TestServer(bindings, settings) if settings else None
    try:
        await Player((own or server).url, steps).play()
    finally:
        if own is not None:
            own.kill()


@pytest.mark.parametrize("name", EVALS_ONLY)
async def test_library_gets_what_the_transcript_says(name, server):
    outcomes, memory = [], {}
    async with scomp.Client(server.url) as client:
        for step in steps_of(name):
            if step.word == "js>":
                outcomes.append(asyncio.ensure_future(client.eval(step.rest)))
            elif step.word in ("js<", "js!"):
                [got] = await asyncio.gather(outcomes.pop(0), return_exceptions=True)
                if isinstance(got, scomp.ScompError):
                    word, form = "js!", {"code": got.code, "message": got.message, "data": got.data}
                else:
                    # What was decoded, encoded again: both codecs must agree with the server's.
                    word, form = "js<", encode(got, lambda function: {"$fn": "any", "name": function.__name__})
                assert word == step.word, f"line {step.line}: {form}"
                expected = loose(json.loads(step.rest) if word == "js<" else lenient(step.rest))
                form = unordered(form)
                assert difference(unordered(expected), form, memory) is None, f"line {step.line}"


def unordered(form):
    """Sets of Python have no order."""
    if isinstance(form, list):
        return [unordered(one) for one in form]
    if not isinstance(form, dict):
        return form
    if isinstance(form.get("$set"), list):
        return {"$set": sorted(map(unordered, form["$set"]), key=json.dumps)}
    return {key: unordered(one) for key, one in form.items()}


def loose(expected):
    """Ids of references are the connection's own; only that there is a function matters here."""
    if isinstance(expected, list):
        return [loose(one) for one in expected]
    if not isinstance(expected, dict):
        return expected
    if isinstance(expected.get("$fn"), str):
        return {"$fn": "*", "...": "*"} if "..." in expected else {**expected, "$fn": "*"}
    return {key: loose(one) for key, one in expected.items()}
