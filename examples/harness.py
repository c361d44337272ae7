# An agent loop over the bare wire: a model writes code, the server runs it, the model reads the error and repairs it.
#
#   cargo run -- --bindings ./bindings            (in another terminal)
#   pip install websockets && python examples/harness.py
#
# attempt 1: ReferenceError: getOrdr is not defined (did you mean getOrder?)
# attempt 2: TypeError: cannot read property 'total' of null
# notified: order o_001 is 142.5
# attempt 3: 142.5
import asyncio
import json
import sys

import websockets

NOTIFY = {"name": "notify", "description": "Tell the user something.",
          "input": {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}}
DRAFTS = ["const order = await getOrdr({ id: 'o_001' }); order.total",
          "const order = await getOrder({ id: '1' }); order.total",
          "const order = await getOrder({ id: 'o_001' });"
          "await notify({ message: `order ${order.id} is ${order.total}` }); order.total"]


def model(task, turns):
    """Stands for a model. A real one is given the task and what came of its code so far."""
    return DRAFTS[len(turns)]


async def request(socket, id, method, params):
    """Sends a request and serves the calls of the script until its answer is there."""
    await socket.send(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    async for text in socket:
        message = json.loads(text)
        if message.get("method") == "invoke":  # Ids are scoped per direction: this one is the server's.
            print("notified:", message["params"]["input"]["message"])
            await socket.send(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"value": None}}))
        elif message.get("id") == id:
            return message


async def main(url):
    async with websockets.connect(url, subprotocols=["scomp.v0"]) as socket:
        await request(socket, 0, "handshake", {"protocol": "0.1", "bindings": [NOTIFY]})
        turns = []
        for attempt in range(1, len(DRAFTS) + 1):
            code = model("What did order o_001 cost?", turns)
            answer = await request(socket, attempt, "eval", {"code": code, "timeoutMs": 10_000})
            if "result" in answer:
                print(f"attempt {attempt}: {answer['result']['value']}")
                return
            error = answer["error"]
            hints = error["data"].get("suggestions", [])
            turns.append((code, error["message"] + "".join(f" (did you mean {hint}?)" for hint in hints)))
            print(f"attempt {attempt}: {turns[-1][1]}")


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "ws://127.0.0.1:7400"))
