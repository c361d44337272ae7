# An agent loop: a model writes code, the server runs it, the model reads the error and repairs its code.
#
#   cargo run -- --bindings ./bindings            (in another terminal)
#   pip install ./python && python examples/harness.py
#
# attempt 1: ReferenceError: getOrdr is not defined (did you mean getOrder?)
# attempt 2: TypeError: cannot read property 'total' of null: order is null
# notified: order o_001 is 142.5
# attempt 3: 142.5
import sys

import scomp

DRAFTS = ["const order = await getOrdr({ id: 'o_001' }); order.total",
          "const order = await getOrder({ id: '1' }); order.total",
          "const order = await getOrder({ id: 'o_001' });"
          "await notify({ message: `order ${order.id} is ${order.total}` }); order.total"]


def model(types: str, task: str, turns: list[tuple[str, str]]) -> str:
    """Stands for a model. A real one is given the types of the bindings, the task, and `error.report` of each attempt."""
    assert "getOrder" in types
    return DRAFTS[len(turns)]


def main(url: str) -> None:
    client = scomp.sync.Client(url)

    @client.binding
    def notify(message: str) -> None:
        """Tell the user something."""
        print("notified:", message, flush=True)

    with client:
        types, turns = client.types(), []
        for attempt in range(1, len(DRAFTS) + 1):
            code = model(types, "What did order o_001 cost?", turns)
            try:
                print(f"attempt {attempt}: {client.eval(code, timeout=10)}")
                return
            except scomp.ScriptError as error:
                hints = "".join(f" (did you mean {hint}?)" for hint in error.suggestions)
                print(f"attempt {attempt}: {error.message}{hints}", flush=True)
                turns.append((code, error.report))


main(sys.argv[1] if len(sys.argv) > 1 else "ws://127.0.0.1:7400")
