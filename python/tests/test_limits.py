"""Every limit of `limits.py` at it and past it. Those of calls that wait for a connection, of opening and of messages
that are read need a server: see test_reconnect.py and test_hostile.py."""

import asyncio
import json
import sys
import threading
from pathlib import Path

import pytest
from websockets.asyncio.server import serve as serve_websocket

import scomp
from scomp import limits
from scomp.bindings import Binding
from scomp.connection import Outbox
from scomp.evals import Evals
from scomp.peer import Peer, Services
from scomp.references import Exports, Imports
from scomp.threads import HandlerThreads
from scomp.transport import ChildEndpoint, WebSocketEndpoint
from scomp.values import decode, encode
from support.turn import loop_turn


class Line:
    """A peer without a connection: what it writes is kept."""

    def __init__(self, **handlers):
        self.sent = []
        self.threads = HandlerThreads()
        bindings = {name: Binding(function, name=name) for name, function in handlers.items()}
        self.peer = Peer(self.sent.append, Services(bindings, self.threads))

    def answer(self, identifier, value=None):
        self.peer.on_text(json.dumps({"jsonrpc": "2.0", "id": identifier, "result": {"value": value}}))

    def call(self, identifier, binding):
        params = {"binding": binding, "input": {}}
        self.peer.on_text(json.dumps({"jsonrpc": "2.0", "id": identifier, "method": "invoke", "params": params}))

    async def end(self, tasks=()):
        self.peer.end(scomp.Closed("over"))
        self.threads.close()
        await asyncio.gather(*tasks, return_exceptions=True)


def refuse(*_):
    raise AssertionError("no function expected")


def test_every_limit_is_named_by_a_test():
    texts = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert [name for name in vars(limits) if name.endswith("_MAX") and name not in texts] == []


async def test_requests_waiting():
    line = Line()
    for _ in range(limits.REQUESTS_WAITING_MAX):
        line.peer.request("eval", {})
    with pytest.raises(scomp.Busy):
        line.peer.request("eval", {})
    line.answer(1)
    line.peer.request("eval", {})
    await line.end()


async def test_invokes_in_flight_and_waiting():
    line = Line()
    most = limits.INVOKES_IN_FLIGHT_MAX + limits.INVOKES_WAITING_MAX
    tasks = [asyncio.ensure_future(line.peer.invoke({"binding": "b"}, ({},))) for _ in range(most)]
    await loop_turn()
    assert len(line.sent) == limits.INVOKES_IN_FLIGHT_MAX
    with pytest.raises(scomp.Busy):
        await line.peer.invoke({"binding": "b"}, ({},))
    line.answer(1, "first")
    assert await tasks[0] == "first"
    assert len(line.sent) == limits.INVOKES_IN_FLIGHT_MAX + 1
    await line.end(tasks)


async def test_evals_in_flight_and_waiting():
    line, evals = Line(), Evals(None)
    evals.attach(line.peer)
    tasks = [asyncio.ensure_future(evals.run({"code": ""})) for _ in range(limits.EVALS_WAITING_MAX)]
    await loop_turn()
    assert len(line.sent) == limits.EVALS_IN_FLIGHT_MAX
    with pytest.raises(scomp.QueueFull):
        await evals.run({"code": ""})
    line.answer(1, "first")
    assert (await tasks[0]).value == "first"
    assert len(line.sent) == limits.EVALS_IN_FLIGHT_MAX + 1
    evals.fail_all(scomp.Closed("over"))
    await line.end(tasks)


async def test_invokes_running_and_queued():
    running, gate = 0, asyncio.Event()

    async def wait():
        nonlocal running
        running += 1
        await gate.wait()

    line = Line(wait=wait)
    for identifier in range(limits.INVOKES_RUNNING_MAX + limits.INVOKES_QUEUED_MAX):
        line.call(identifier, "wait")
    await loop_turn()
    assert running == limits.INVOKES_RUNNING_MAX
    assert line.sent == []
    line.call("past", "wait")
    [refusal] = line.sent
    assert json.loads(refusal)["error"]["data"]["kind"] == "Busy"
    gate.set()
    await line.peer.calls.finished()
    assert len(line.sent) == 1 + limits.INVOKES_RUNNING_MAX + limits.INVOKES_QUEUED_MAX
    await line.end()


async def test_handler_threads():
    threads, begun, gate = HandlerThreads(), threading.Semaphore(0), threading.Event()

    def work():
        begun.release()
        gate.wait(10)

    tasks = [asyncio.ensure_future(threads.run(work)) for _ in range(limits.HANDLER_THREADS_MAX + 1)]
    for _ in range(limits.HANDLER_THREADS_MAX):
        assert await asyncio.to_thread(begun.acquire, timeout=10)
    assert threads._running == limits.HANDLER_THREADS_MAX
    assert not begun.acquire(blocking=False)
    gate.set()
    await asyncio.gather(*tasks)
    assert begun.acquire(blocking=False)
    threads.close()


async def test_handler_threads_lent(monkeypatch):
    monkeypatch.setattr("scomp.threads.HANDLER_THREADS_MAX", 1)
    monkeypatch.setattr("scomp.threads.HANDLER_THREADS_LENT_MAX", 2)
    threads, begun, gate = HandlerThreads(), threading.Semaphore(0), threading.Event()

    def work():
        with threads.lending():
            begun.release()
            gate.wait(10)

    tasks = [asyncio.ensure_future(threads.run(work)) for _ in range(4)]
    for _ in range(3):
        assert await asyncio.to_thread(begun.acquire, timeout=10)
    assert len(threads._executor._threads) == 3
    assert not begun.acquire(blocking=False)
    gate.set()
    await asyncio.gather(*tasks)
    assert begun.acquire(blocking=False)
    threads.close()


async def test_message_chars_of_a_request():
    line = Line()
    empty = len('{"jsonrpc":"2.0","id":1,"method":"eval","params":{"code":""}}')
    line.peer.request("eval", {"code": "x" * (limits.MESSAGE_CHARS_MAX - empty)})
    assert len(line.sent[0]) == limits.MESSAGE_CHARS_MAX
    with pytest.raises(scomp.TooLong):
        line.peer.request("eval", {"code": "x" * (limits.MESSAGE_CHARS_MAX - empty + 1)})
    await line.end()


@pytest.mark.parametrize("past", [0, 1])
async def test_message_chars_of_an_answer(past):
    empty = len('{"jsonrpc":"2.0","id":1,"result":{"value":""}}')

    async def large():
        return "x" * (limits.MESSAGE_CHARS_MAX - empty + past)

    line = Line(large=large)
    line.call(1, "large")
    await line.peer.calls.finished()
    [text] = line.sent
    assert ("ResultTooLarge" in text[:200]) == (past == 1)
    await line.end()


async def test_outbox_chars():
    outbox = Outbox()
    outbox.put("x" * limits.OUTBOX_CHARS_MAX)
    await asyncio.wait_for(outbox.room(), 10)
    outbox.put("y")
    waiting = asyncio.ensure_future(outbox.room())
    await loop_turn()
    assert not waiting.done()
    outbox.written(await outbox.take())
    await asyncio.wait_for(waiting, 10)


def test_references_sent():
    exports = Exports()
    functions = [lambda: 1 for _ in range(limits.REFERENCES_MAX)]
    for function in functions:
        exports.sending(lambda export, function=function: export(function))
    exports.sending(lambda export: export(functions[0]))
    with pytest.raises(scomp.TooManyRefs):
        exports.sending(lambda export: export(lambda: 2))
    assert len(exports) == limits.REFERENCES_MAX


async def test_references_received():
    released = []
    imports = Imports(
        asyncio.get_running_loop(), refuse, lambda identifier, count: released.append((identifier, count))
    )
    functions = [imports.receive(f"f{index}", None) for index in range(limits.REFERENCES_MAX)]
    assert imports.receive("f0", None) is functions[0]
    with pytest.raises(scomp.TooManyRefs):
        imports.receive("past", None)
    assert released == [("past", 1)]


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


def test_value_depth():
    assert encode(nested(limits.VALUE_DEPTH_MAX), refuse) == nested(limits.VALUE_DEPTH_MAX)
    assert decode(nested(limits.VALUE_DEPTH_MAX), refuse) == nested(limits.VALUE_DEPTH_MAX)
    with pytest.raises(scomp.Unserializable):
        encode(nested(limits.VALUE_DEPTH_MAX + 1), refuse)
    with pytest.raises(scomp.BadAnswer):
        decode(nested(limits.VALUE_DEPTH_MAX + 1), refuse)


def test_bigint_digits():
    most = 10**limits.BIGINT_DIGITS_MAX - 1
    for number in (most, -most):
        assert decode(encode(number, refuse), refuse) == number
    with pytest.raises(scomp.Unserializable):
        encode(most + 1, refuse)
    with pytest.raises(scomp.BadAnswer):
        decode({"$bigint": "1" * (limits.BIGINT_DIGITS_MAX + 1)}, refuse)


def test_report_chars():
    assert len(scomp.EvalError("x" * limits.REPORT_CHARS_MAX).report) == limits.REPORT_CHARS_MAX
    assert len(scomp.EvalError("x" * (limits.REPORT_CHARS_MAX + 1)).report) == limits.REPORT_CHARS_MAX


def test_report_causes():
    def chain(length):
        data = None
        for index in range(length, 0, -1):
            data = {"cause": {"message": f"<{index}>", "data": data}}
        return scomp.EvalError("top", data=data).report

    assert f"<{limits.REPORT_CAUSES_MAX}>" in chain(limits.REPORT_CAUSES_MAX)
    assert f"<{limits.REPORT_CAUSES_MAX + 1}>" not in chain(limits.REPORT_CAUSES_MAX + 1)


@pytest.mark.parametrize("past", [0, 1])
async def test_frames_queued(past):
    async def flood(socket):
        for _ in range(limits.FRAMES_QUEUED_MAX + past):
            await socket.send("x")
        # Answered after the frames before it, if the client still reads.
        pong = await socket.ping()
        await pong
        answered.set()
        await socket.wait_closed()

    answered = asyncio.Event()
    async with serve_websocket(flood, "127.0.0.1", 0, subprotocols=["scomp.v0"]) as listening:
        port = listening.sockets[0].getsockname()[1]
        transport = await WebSocketEndpoint(f"ws://127.0.0.1:{port}/", proxy=None).open()
        if past:
            while transport._socket.transport.is_reading():
                await loop_turn()
            assert await transport.receive() == "x"
        else:
            await asyncio.wait_for(answered.wait(), 10)
            assert transport._socket.transport.is_reading()
        transport.abort()


@pytest.mark.parametrize(("program", "code"), [("import sys; sys.stdin.read()", 0), ("while True: pass", -9)])
async def test_close_of_a_child(program, code, monkeypatch):
    # The time of the first is not shortened: it ends by itself within CLOSE_S_MAX.
    if code:
        monkeypatch.setattr("scomp.transport.CLOSE_S_MAX", 0.05)
    transport = await ChildEndpoint((sys.executable, "-c", program)).open()
    await transport.close()
    assert transport._process.returncode == code
