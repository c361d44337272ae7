// An external client, in the steps of the specification's own: connect, shake hands, ask the steward, say goodbye. It needs
// the WebSocket of Node 22.
//
// $ scomp-serve --bindings examples/a2a/bindings --listen 127.0.0.1:7412
// $ node examples/a2a/reference_client.cjs ws://127.0.0.1:7412
// > steward: approved (alpha: approve, beta: approve, charlie: approve)

const socket = new WebSocket(process.argv[2] ?? "ws://127.0.0.1:7412", ["a2a-v1"]);
const send = (frame) => socket.send(JSON.stringify({ timestamp: Date.now(), ...frame }));
const correlationId = `corr-${Date.now()}`;

socket.addEventListener("open", () => {
  send({ type: "handshake", content: { action: "advertise", capabilities: { version: "1.0.0" } } });
});

socket.addEventListener("message", ({ data }) => {
  const frame = JSON.parse(data);
  if (frame.type === "handshake") {
    const content = { role: "user", content: "Write a test first" };
    send({ type: "message", agent: "steward", content, metadata: { requiresResponse: true, correlationId } });
  } else if (frame.type === "error") {
    console.error(frame.content.message);
    socket.close();
  } else if (frame.metadata?.correlationId === correlationId) {
    console.log(`${frame.from}: ${frame.content.content}`);
    send({ type: "disconnect", content: { reason: "manual" } });
    socket.close();
  }
});
