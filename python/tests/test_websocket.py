"""The client over a WebSocket: tokens, sessions that are closed, left, resumed and taken over, approvals."""

import asyncio
import threading

import pytest

import scomp
from support.server import TOKEN, TestServer, token_settings


@pytest.fixture(scope="module")
def guarded(bindings):
    running = TestServer(bindings, token_settings('{ approve = ["read"] }'))
    yield running
    running.kill()


@pytest.mark.parametrize("token", [None, "wrong", ""])
async def test_token_missing_or_wrong_is_unauthorized(guarded, token):
    with pytest.raises(scomp.Unauthorized) as failed:
        await scomp.Client(guarded.url, token=token).connect()
    assert failed.value.kind == "Unauthorized"
    assert isinstance(failed.value, scomp.ConnectionFailed)


async def test_token_right_opens_a_session(guarded):
    async with scomp.Client(guarded.url, token=TOKEN) as client:
        assert await client.eval("1 + 1") == 2
        assert client.session.ttl > 0


async def test_unreachable_server_is_closed_with_its_url():
    with pytest.raises(scomp.Closed, match=r"127\.0\.0\.1:9"):
        await scomp.Client("ws://127.0.0.1:9/").connect()


@pytest.mark.parametrize("url", ["nonsense", "http://127.0.0.1:9/"])
async def test_malformed_url_is_closed(url):
    with pytest.raises(scomp.Closed):
        await scomp.Client(url).connect()


async def test_detached_session_is_resumed(server):
    async with scomp.Client(server.url) as client:
        await client.eval("globalThis.x = 5")
        session = await client.detach()
    async with scomp.Client(server.url, session=session) as again:
        assert await again.eval("x") == 5
        assert again.session.id == session.id
        assert again.session.token != session.token


async def test_closed_session_is_refused(server):
    async with scomp.Client(server.url) as client:
        await client.eval("globalThis.x = 5")
        session = client.session
    with pytest.raises(scomp.SessionRefused):
        await scomp.Client(server.url, session=session).connect()


async def test_session_taken_over_closes_the_first_client(server):
    first = await scomp.Client(server.url).connect()
    await first.eval("globalThis.x = 5")
    waiting = asyncio.ensure_future(first.eval("await forever()"))
    await first.info()
    async with scomp.Client(server.url, session=first.session) as second:
        assert (await first.wait_closed()).code == 4001
        with pytest.raises(scomp.Closed):
            await waiting
        with pytest.raises(scomp.Closed):
            await first.eval("x")
        await second.cancel()
        assert await second.eval("x") == 5


async def test_closed_client_fails_what_waits(server):
    client = await scomp.Client(server.url).connect()
    waiting = asyncio.ensure_future(client.eval("await forever()"))
    call = asyncio.ensure_future(client.invoke("forever"))
    await client.info()
    await asyncio.gather(client.close(), client.close())
    for one in (waiting, call):
        with pytest.raises(scomp.ConnectionFailed):
            await one
    with pytest.raises(scomp.Closed):
        await client.eval("1")
    assert client.state == "closed"


async def test_closing_twice_and_unconnected_is_harmless(server):
    await scomp.Client(server.url).close()
    client = await scomp.Client(server.url).connect()
    await client.close()
    await client.close()
    with pytest.raises(RuntimeError, match="connected already"):
        await client.connect()


async def test_approval_decides_over_a_call(guarded):
    requests = []

    async def approve(request):
        requests.append(request)
        return request.input["id"] == "o_001" or scomp.Approval(allow=False, reason="not that one")

    async with scomp.Client(guarded.url, token=TOKEN, approve=approve) as client:
        assert await client.eval("(await getOrder({ id: 'o_001' })).total") == 142.5
        with pytest.raises(scomp.PermissionDenied, match="not that one"):
            await client.eval("await getOrder({ id: 'o_2' })")
    assert [(one.binding, one.effects) for one in requests] == [("getOrder", ["read"])] * 2


async def test_approval_by_a_plain_function_runs_on_a_thread(guarded):
    threads = []

    def approve(request):
        threads.append(threading.current_thread())
        return True

    async with scomp.Client(guarded.url, token=TOKEN, approve=approve) as client:
        assert await client.eval("(await getOrder({ id: 'o_001' })).total") == 142.5
    assert threads[0] is not threading.main_thread()


@pytest.mark.parametrize("decision", [None, 1, "yes", {"allow": True}])
async def test_approval_that_is_not_true_refuses(guarded, decision):
    async with scomp.Client(guarded.url, token=TOKEN, approve=lambda _: decision) as client:
        with pytest.raises(scomp.PermissionDenied):
            await client.eval("await getOrder({ id: 'o_001' })")


async def test_approval_that_raises_refuses(guarded):
    def approve(request):
        raise RuntimeError("no answer")

    async with scomp.Client(guarded.url, token=TOKEN, approve=approve) as client:
        with pytest.raises(scomp.PermissionDenied):
            await client.eval("await getOrder({ id: 'o_001' })")


async def test_approval_missing_refuses(guarded):
    async with scomp.Client(guarded.url, token=TOKEN) as client:
        with pytest.raises(scomp.PermissionDenied):
            await client.eval("await getOrder({ id: 'o_001' })")


async def test_cancelled_eval_withdraws_its_approval(guarded):
    begun, ended = asyncio.Event(), asyncio.Event()

    async def approve(request):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            assert request.call.cancelled
            ended.set()

    async with scomp.Client(guarded.url, token=TOKEN, approve=approve) as client:
        running = asyncio.ensure_future(client.eval("await getOrder({ id: 'o_001' })"))
        await begun.wait()
        running.cancel()
        await asyncio.wait_for(ended.wait(), 10)


async def test_approval_past_its_time_is_a_refusal(bindings):
    late = TestServer(bindings, token_settings('{ approve = ["read"] }', "approve_ms_max = 50"))
    ended = asyncio.Event()

    async def approve(request):
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    try:
        async with scomp.Client(late.url, token=TOKEN, approve=approve) as client:
            with pytest.raises(scomp.PermissionDenied):
                await client.eval("await getOrder({ id: 'o_001' })")
            await asyncio.wait_for(ended.wait(), 10)
    finally:
        late.kill()
