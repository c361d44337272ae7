"""A server that says anything: the client neither hangs nor breaks, and every failure has a kind."""

import asyncio
import json

import pytest

import scomp
from support.fake import fake_server, reply

GARBAGE = [
    "",
    "not json",
    "null",
    "[]",
    "[" * 100_000,
    '{"a":' * 50_000,
    "{}",
    '{"jsonrpc":"1.0","id":1,"result":{}}',
    '{"jsonrpc":"2.0"}',
    '{"jsonrpc":"2.0","id":99999,"result":{"value":1}}',
    '{"jsonrpc":"2.0","id":null,"result":{"value":1}}',
    '{"jsonrpc":"2.0","id":true,"result":{"value":1}}',
    '{"jsonrpc":"2.0","id":1.5,"result":{"value":1}}',
    '{"jsonrpc":"2.0","id":2,"result":{"value":1},"error":{"code":1,"message":"m"}}',
    '{"jsonrpc":"2.0","id":2,"error":"broken"}',
    '{"jsonrpc":"2.0","id":2,"error":{"code":"x","message":1}}',
    '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"cannot read"}}',
    '{"jsonrpc":"2.0","method":"release_ref"}',
    '{"jsonrpc":"2.0","method":"release_ref","params":{"ref":1,"count":"x"}}',
    '{"jsonrpc":"2.0","method":"release_ref","params":{"ref":"c1","count":-5}}',
    '{"jsonrpc":"2.0","method":"cancel_invoke","params":{"id":[]}}',
    '{"jsonrpc":"2.0","method":"unheard_of","params":7}',
    '{"jsonrpc":"2.0","id":1,"result":NaN}',
    '{"jsonrpc":"2.0","id":' + "9" * 5000 + ',"result":1}',
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
async def test_garbage_before_an_answer_changes_nothing(garbage):
    async def answer(socket, message):
        if message.get("method") == "eval":
            await socket.send(garbage)
            await socket.send(b"binary")
            await reply(socket, message, {"value": 7})

    async with fake_server(answer) as url, scomp.Client(url) as client:
        assert await asyncio.wait_for(client.eval("7"), 10) == 7


@pytest.mark.parametrize(
    "result",
    [
        None,
        7,
        {},
        {"value": {"$date": "nope"}},
        {"value": {"$date": "2026-13-01"}},
        {"value": {"$bigint": "1x"}},
        {"value": {"$bigint": "1" * 10_001}},
        {"value": {"$bytes": "***"}},
        {"value": {"$map": [[1]]}},
        {"value": {"$set": 1}},
        {"value": {"$fn": 1}},
        {"value": {"$error": "x"}},
        {"value": {"$number": "7"}},
        {"value": {"$undefined": False}},
    ],
    ids=str,
)
async def test_malformed_result_is_a_bad_answer(result):
    async def answer(socket, message):
        if message.get("method") == "eval":
            await reply(socket, message, result)

    async with fake_server(answer) as url, scomp.Client(url) as client:
        with pytest.raises(scomp.BadAnswer):
            await asyncio.wait_for(client.eval("7"), 10)


@pytest.mark.parametrize("handshake", [None, [], {}, {"sessionId": 7}, {"sessionId": None, "metadata": 3}], ids=str)
async def test_malformed_handshake_is_a_bad_answer(handshake):
    async def answer(socket, message):
        raise AssertionError(message)

    async with fake_server(answer, handshake=handshake) as url:
        with pytest.raises(scomp.BadAnswer):
            await asyncio.wait_for(scomp.Client(url).connect(), 10)


@pytest.mark.parametrize(
    ("params", "kind"),
    [
        (None, "InvalidParams"),
        ([], "InvalidParams"),
        ({}, "InvalidParams"),
        ({"binding": 7}, "InvalidParams"),
        ({"binding": "missing"}, "UnknownBinding"),
        ({"ref": "c99"}, "UnknownRef"),
        ({"binding": "add", "input": 7}, "InvalidInput"),
        ({"binding": "add", "input": {"a": "x"}}, "InvalidInput"),
        ({"binding": "add", "input": {"a": 1, "b": 2}}, "InvalidInput"),
        ({"binding": "add", "input": {"$date": "nope"}}, "InvalidParams"),
    ],
    ids=str,
)
async def test_malformed_call_is_answered_with_its_kind(params, kind):
    answers = asyncio.Queue()

    async def answer(socket, message):
        if message.get("method") == "eval":
            await socket.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "invoke", "params": params}))
            await reply(socket, message, {"value": 7})
        else:
            answers.put_nowait(message)

    async def add(a: int) -> int:
        return a + 1

    async with fake_server(answer) as url, scomp.Client(url, bindings=[add]) as client:
        assert await client.eval("7") == 7
        message = await asyncio.wait_for(answers.get(), 10)
        assert message["error"]["data"]["kind"] == kind


async def test_unknown_method_is_refused():
    answers = asyncio.Queue()

    async def answer(socket, message):
        if message.get("method") == "eval":
            await socket.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "eval", "params": {"code": "1"}}))
            await reply(socket, message, {"value": 7})
        else:
            answers.put_nowait(message)

    async with fake_server(answer) as url, scomp.Client(url) as client:
        assert await client.eval("7") == 7
        assert (await asyncio.wait_for(answers.get(), 10))["error"]["code"] == -32601


async def test_answer_that_comes_twice_is_taken_once():
    async def answer(socket, message):
        if message.get("method") == "eval":
            await reply(socket, message, {"value": 1})
            await reply(socket, message, {"value": 2})

    async with fake_server(answer) as url, scomp.Client(url) as client:
        assert [await client.eval("x"), await client.eval("x")] == [1, 1]


async def test_message_past_the_limit_ends_the_connection(monkeypatch):
    monkeypatch.setattr("scomp.transport.MESSAGE_BYTES_MAX", 10_000)

    async def answer(socket, message):
        if message.get("method") == "eval":
            empty = len(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"value": ""}}))
            size = 10_000 if message["params"]["code"] == "at" else 10_001
            await reply(socket, message, {"value": "x" * (size - empty)})

    async with fake_server(answer) as url:
        client = await scomp.Client(url).connect()
        assert len(await client.eval("at")) > 9_000
        with pytest.raises(scomp.Closed):
            await asyncio.wait_for(client.eval("past"), 10)
        assert (await client.wait_closed()).code == 1009


async def test_handshake_that_never_comes_times_out(monkeypatch):
    monkeypatch.setattr("scomp.connection.OPENING_S_MAX", 0.1)

    async def silence(reader, writer):
        await reader.read()
        writer.close()

    listening = await asyncio.start_server(silence, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    with pytest.raises(scomp.Closed, match="timed out"):
        await asyncio.wait_for(scomp.Client(f"ws://127.0.0.1:{port}/").connect(), 10)
    listening.close()
    await listening.wait_closed()
