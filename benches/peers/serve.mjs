// A server that speaks just enough scomp for the load client: handshake, eval, and an invoke in each direction.
//
//     node serve.mjs <engine>          engine: node-vm, isolated-vm, quickjs-emscripten, worker
//     deno run -A serve.mjs node-vm    the same server on Deno, with Deno's own WebSockets
//
// Everything but the engine is the same for all peers, and as lean as it can be: no schemas, no limits but the time of
// an eval, no state machine. What an engine does is in engines/<name>.mjs, whose `open` returns a session.

const { open } = await import(`./engines/${(globalThis.Deno ? Deno.args : process.argv.slice(2))[0]}.mjs`);

/** The one binding of the host, ready immediately. */
const lookup = (n) => ({ id: n, total: n * 2 });

/** One connection, whatever carries its texts. */
class Connection {
  constructor(send) {
    this.send = send;
    this.waiting = new Map();
    this.lastId = 0;
    // Evals of a session run one after the other.
    this.queue = Promise.resolve();
  }

  onText(text) {
    const message = JSON.parse(text);
    if (message.method === undefined) {
      const settle = this.waiting.get(message.id);
      this.waiting.delete(message.id);
      settle(message.result.value);
    } else {
      this.queue = this.queue.then(() => this.answer(message));
    }
  }

  async answer({ id, method, params }) {
    try {
      this.reply(id, { result: await this.perform(method, params) });
    } catch (error) {
      this.reply(id, { error: { code: -32000, message: String(error) } });
    }
  }

  reply(id, outcome) {
    this.send(JSON.stringify({ jsonrpc: '2.0', id, ...outcome }));
  }

  async perform(method, params) {
    if (method === 'handshake') {
      this.session = await open({ lookup, notify: (input) => this.invoke('notify', input) });
      return { protocol: '0.1', sessionId: 'peer', bindings: [] };
    }
    return { value: (await this.session.eval(params.code)) ?? null };
  }

  invoke(binding, input) {
    const id = ++this.lastId;
    this.send(JSON.stringify({ jsonrpc: '2.0', id, method: 'invoke', params: { binding, input } }));
    return new Promise((settle) => this.waiting.set(id, settle));
  }

  close() {
    this.session?.close();
  }
}

const greet = (port) => console.log(`listening on http://127.0.0.1:${port}`);

if (globalThis.Deno) {
  const onListen = ({ port }) => greet(port);
  Deno.serve({ hostname: '127.0.0.1', port: 0, onListen }, (request) => {
    const { socket, response } = Deno.upgradeWebSocket(request, { idleTimeout: 0 });
    const connection = new Connection((text) => socket.send(text));
    socket.onmessage = ({ data }) => connection.onText(data);
    socket.onclose = () => connection.close();
    return response;
  });
} else {
  const { WebSocketServer } = await import('ws');
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0, maxPayload: 64 << 20 });
  server.on('listening', () => greet(server.address().port));
  server.on('connection', (socket) => {
    const connection = new Connection((text) => socket.send(text));
    socket.on('message', (data) => connection.onText(data));
    socket.on('close', () => connection.close());
  });
}
