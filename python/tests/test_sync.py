"""The sync facade: from several threads, with handlers that call back, and without asyncio anywhere in the program."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import scomp
from support.server import TOKEN, TestServer, token_settings


def test_evals_from_several_threads_are_all_answered(server):
    with scomp.sync.Client(server.url) as client:
        client.eval("globalThis.log = []")
        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda n: client.eval(f"log.push({n}); {n} * 2"), range(200)))
        assert answers == [n * 2 for n in range(200)]
        assert sorted(client.eval("log")) == list(range(200))


def test_handler_calls_functions_and_bindings_back(server):
    client = scomp.sync.Client(server.url)

    @client.binding
    def total(ids: list[str], progress: object, call: scomp.Call) -> float:
        found = [call.client.bindings.getOrder(id=one) for one in ids]
        progress(len(found))
        return sum(order["total"] for order in found if order is not None)

    with client:
        code = "const seen = []; [await total({ ids: ['o_001', 'x'], progress: (n) => { seen.push(n) } }), seen]"
        assert client.eval(code) == [142.5, [2]]


def test_nested_handlers_beyond_the_threads_do_not_starve(server, monkeypatch):
    monkeypatch.setattr("scomp.threads.HANDLER_THREADS_MAX", 1)
    client = scomp.sync.Client(server.url)

    @client.binding
    def down(depth: int, next: object) -> int:
        return depth if depth == 0 else next(depth - 1) + 1

    with client:
        code = "const next = (depth) => down({ depth, next }); await Promise.all([next(5), next(5), next(5)])"
        assert client.eval(code) == [5, 5, 5]


def test_handlers_run_concurrently(server):
    client, together = scomp.sync.Client(server.url), threading.Barrier(8)

    @client.binding
    def meet() -> int:
        return together.wait(10)

    with client:
        assert sorted(client.eval("await Promise.all(Array.from({ length: 8 }, () => meet()))")) == list(range(8))


def test_cancelled_call_is_seen_by_a_plain_handler(server):
    client, seen = scomp.sync.Client(server.url), threading.Event()

    @client.binding
    def wait(call: scomp.Call) -> None:
        if call.wait_cancelled(10):
            seen.set()

    with client:
        with pytest.raises(scomp.Timeout):
            client.eval("await wait()", timeout=0.05)
        assert seen.wait(10)


def test_blocking_call_in_a_hook_is_refused(server):
    failures = []

    def on_console(line):
        try:
            client.eval("1")
        except RuntimeError as error:
            failures.append(str(error))

    client = scomp.sync.Client(server.url)
    with client:
        client.eval("console.log('a')", on_console=on_console)
    assert "would wait for itself" in failures[0]


def test_detached_session_is_resumed(server):
    client = scomp.sync.connect(server.url)
    client.eval("globalThis.x = 5")
    session = client.detach()
    with scomp.sync.Client(server.url, session=session) as again:
        assert again.eval("x") == 5
    with pytest.raises(scomp.SessionRefused):
        scomp.sync.connect(server.url, session=session)
    with pytest.raises(RuntimeError, match="not connected"):
        client.eval("1")


def test_controls_have_the_same_names(server):
    with scomp.sync.Client(server.url) as client:
        assert "getOrder" in client.types()
        assert client.search("order")
        assert client.info()["functionsHeld"] == 0
        assert client.cancel() == []
        client.eval("globalThis.x = 1")
        client.reset()
        assert client.eval("typeof x") == "undefined"
        assert client.run("1", stats=True).stats is not None
        assert client.bindings.echo({"a": 1}) == {"a": 1}
        assert client.state == "connected"


def test_session_goes_back_to_a_checkpoint_and_a_fork_goes_on_from_one(server):
    with scomp.sync.Client(server.url) as client:
        client.eval("let n = 1")
        mark = client.checkpoint("start")
        client.eval("n = 2")
        assert [(one["checkpoint"], one["label"]) for one in client.checkpoints()] == [(mark, "start")]
        now, then = client.fork(), client.fork(mark)
        client.rewind(mark)
        assert client.eval("n") == 1
        with scomp.sync.Client(server.url, session=now) as fork:
            assert (fork.session.id, fork.eval("n += 10")) == (now.id, 12)
        with scomp.sync.Client(server.url, session=then) as fork:
            assert fork.eval("n += 10") == 11
        assert client.eval("n") == 1
        with pytest.raises(scomp.ScompError) as unknown:
            client.fork(99)
        assert unknown.value.kind == "UnknownCheckpoint"


def test_facade_has_every_public_method_of_the_client():
    names = {name for name in dir(scomp.Client) if not name.startswith("_")}
    assert names <= set(dir(scomp.sync.Client))


def test_approval_by_a_plain_function(bindings):
    guarded = TestServer(bindings, token_settings('{ approve = ["read"] }'))
    try:
        with pytest.raises(scomp.Unauthorized):
            scomp.sync.connect(guarded.url)
        with scomp.sync.Client(
            guarded.url, token=TOKEN, approve=lambda request: request.binding == "getOrder"
        ) as client:
            assert client.eval("(await getOrder({ id: 'o_001' })).total") == 142.5
    finally:
        guarded.kill()
