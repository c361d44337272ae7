// Drives the server with the official TypeScript client: `node client.mjs SCENARIO legacy|auto`.
// The server is MCP_URL with MCP_TOKEN, or the program MCP_COMMAND (a list) over stdin and stdout.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';

const require = createRequire(`${process.env.MCP_MODULES}/`);
const { Client, StreamableHTTPClientTransport } = require('@modelcontextprotocol/client');
const { StdioClientTransport } = require('@modelcontextprotocol/client/stdio');

const [scenario, era] = process.argv.slice(2);
/** Code that is far from its end; without a timer the server would see that it waits for nothing. */
const HANG = 'await new Promise((resolve) => setTimeout(resolve, 50_000))';
const longMs = Number(process.env.MCP_LONG_MS ?? 1500);

async function connect(capabilities = {}) {
  const client = new Client({ name: 'test', version: '1' }, { capabilities, versionNegotiation: { mode: era } });
  let transport;
  if (process.env.MCP_URL) {
    const headers = process.env.MCP_TOKEN ? { Authorization: `Bearer ${process.env.MCP_TOKEN}` } : {};
    transport = new StreamableHTTPClientTransport(new URL(process.env.MCP_URL), { requestInit: { headers } });
  } else {
    const [command, ...args] = JSON.parse(process.env.MCP_COMMAND);
    transport = new StdioClientTransport({ command, args });
  }
  await client.connect(transport);
  return client;
}

const call = (client, name, args, options) => client.callTool({ name, arguments: args }, options);

async function run(client, args, options) {
  const result = await call(client, 'execute', args, options);
  return result.structuredContent;
}

const scenarios = {
  // A session across two connections, and everything else that a model does with it.
  async session() {
    const first = await connect();
    const { tools } = await first.listTools();
    assert.deepEqual(tools.map((tool) => tool.name), ['execute', 'wait', 'search', 'describe', 'session']);
    const one = await run(first, { code: 'const x = 20; console.log("hello"); console.warn("careful"); x + 1' });
    assert.deepEqual([one.status, one.value, one.console], ['completed', 21, 'hello\n[warn] careful']);
    if (process.env.MCP_URL) await first.close();
    const second = process.env.MCP_URL ? await connect() : first;
    const two = await run(second, { session: one.session, code: 'x + 2' });
    assert.deepEqual([two.value, two.console, two.session], [22, undefined, one.session]);
    const nothing = await run(second, { session: one.session, code: 'undefined' });
    assert.ok(nothing.status === 'completed' && !('value' in nothing));

    const thrown = await call(second, 'execute', { session: one.session, code: 'console.log("before");\nnope()' });
    assert.equal(thrown.isError, true);
    assert.match(thrown.content[0].text, /ReferenceError.*nope[^]*script[^]*before/);
    assert.deepEqual([thrown.structuredContent.status, thrown.structuredContent.error.kind], ['failed', 'EvalError']);
    const order = await run(second, { session: one.session, code: "(await getOrder({ id: 'o_001' })).total" });
    assert.equal(order.value, 142.5);

    const found = (await call(second, 'search', { query: 'fetch order', limit: 1 })).structuredContent;
    assert.deepEqual(found.bindings.map((binding) => binding.name), ['getOrder']);
    const signature = await call(second, 'search', { query: 'getOrder', detail: 'signature' });
    assert.match(signature.structuredContent.bindings[0].typescript, /function getOrder\(input: /);
    const described = (await call(second, 'describe', { names: ['getOrder', 'getOrdr'] })).structuredContent;
    assert.match(described.typescript, /Fetch an order by ID/);
    assert.deepEqual(described.unknown, [{ name: 'getOrdr', closest: ['getOrder'] }]);

    await call(second, 'session', { op: 'reset', session: one.session });
    const gone = await call(second, 'execute', { session: one.session, code: 'x' });
    assert.equal(gone.isError, true);
    const listed = (await call(second, 'session', { op: 'list' })).structuredContent.sessions;
    assert.ok(listed.some((session) => session.session === one.session && session.running === 0));
    await call(second, 'session', { op: 'close', session: one.session });
    const closed = await call(second, 'execute', { session: one.session, code: '1' });
    assert.match(closed.content[0].text, /SessionNotFound.*without `session`/);
    const wrong = await call(second, 'execute', { code: '1', waitms: 5 });
    assert.ok(wrong.isError && /waitms/.test(wrong.content[0].text));
    await assert.rejects(call(second, 'no_such_tool', {}), /no_such_tool/);
    await second.close();
  },

  // An execution that outlasts its call, with every line of its console once.
  async wait() {
    const client = await connect();
    const code = `console.log('a'); await new Promise((resolve) => setTimeout(resolve, ${longMs})); console.log('b'); 7`;
    const key = crypto.randomUUID();
    const started = await run(client, { code, waitMs: 0, key, timeoutMs: longMs + 60_000 });
    assert.equal(started.status, 'running');
    const again = await run(client, { code, waitMs: 0, key, timeoutMs: longMs + 60_000 });
    assert.equal(again.execution, started.execution);
    const other = await call(client, 'execute', { code: '8', key });
    assert.match(other.content[0].text, /KeyReused/);
    let last = again;
    const printed = [started, again].map((state) => state.console);
    while (last.status === 'running') {
      const result = await call(client, 'wait', { execution: started.execution });
      last = result.structuredContent;
      printed.push(last.console);
    }
    assert.deepEqual([last.status, last.value], ['completed', 7]);
    assert.equal(printed.filter(Boolean).join('\n'), 'a\nb');
    const repeated = (await call(client, 'wait', { execution: started.execution })).structuredContent;
    assert.deepEqual([repeated.value, repeated.console], [7, undefined]);
    await client.close();
  },

  // A cancelled request ends its eval; the session goes on.
  async cancel() {
    const client = await connect();
    const { session } = await run(client, { code: 'globalThis.kept = 1' });
    const controller = new AbortController();
    const code = `console.log('begun'); ${HANG}`;
    const progress = [];
    const hanging = run(client, { session, code }, {
      signal: controller.signal,
      onprogress(update) {
        progress.push(update.message);
        controller.abort();
      },
    });
    await assert.rejects(hanging);
    assert.deepEqual(progress, ['begun']);
    // It runs behind the other one, which has to end first.
    const next = await run(client, { session, code: 'kept + 1' });
    assert.deepEqual([next.status, next.value], ['completed', 2]);

    const started = await run(client, { session, code: HANG, waitMs: 0 });
    const ended = await call(client, 'wait', { execution: started.execution, cancel: true });
    assert.equal(ended.structuredContent.error.kind, 'Cancelled');
    await client.close();
  },

  // Calls that a person has to allow: through the client, and on the page of the server.
  async approval() {
    const asking = await connect({ elicitation: {} });
    const asked = [];
    let allow = true;
    asking.setRequestHandler('elicitation/create', (request) => {
      asked.push(request.params.message);
      return allow ? { action: 'accept', content: { allow } } : { action: 'decline' };
    });
    const code = "(await getOrder({ id: 'o_001' })).total";
    assert.equal((await run(asking, { code })).value, 142.5);
    assert.match(asked[0], /getOrder \(read\) with \{"id":"o_001"\}/);
    allow = false;
    const denied = await call(asking, 'execute', { code });
    assert.match(denied.content[0].text, /PermissionDenied[^]*the user declined/);
    assert.equal(asked.length, 2);
    await asking.close();

    const silent = await connect();
    if (!process.env.MCP_URL) {
      const refused = await call(silent, 'execute', { code });
      assert.match(refused.content[0].text, /cannot ask its user/);
      return silent.close();
    }
    const waiting = await run(silent, { code });
    assert.deepEqual([waiting.status, waiting.approvals[0].binding], ['approval_required', 'getOrder']);
    const still = (await call(silent, 'wait', { execution: waiting.execution, waitMs: 1 })).structuredContent;
    assert.equal(still.status, 'approval_required');
    assert.match(await (await fetch(waiting.url)).text(), /Calls that wait for approval/);
    const headers = { Authorization: `Bearer ${process.env.MCP_TOKEN}`, 'Content-Type': 'application/json' };
    const listed = await (await fetch(`${waiting.url}/list`, { headers })).json();
    assert.deepEqual(listed.approvals.map(({ call }) => call.id), [waiting.approvals[0].id]);
    const decision = { method: 'POST', body: JSON.stringify({ allow: true }) };
    const page = `${waiting.url}/${waiting.approvals[0].id}`;
    assert.equal((await fetch(page, { ...decision, headers: { 'Content-Type': 'application/json' } })).status, 401);
    assert.equal((await fetch(page, { ...decision, headers })).status, 204);
    assert.equal((await fetch(page, { ...decision, headers })).status, 404);
    const allowed = (await call(silent, 'wait', { execution: waiting.execution })).structuredContent;
    assert.deepEqual([allowed.status, allowed.value], ['completed', 142.5]);
    await silent.close();
  },

  // A value that is too large for a result.
  async artifact() {
    const client = await connect();
    const result = await call(client, 'execute', { code: "'x'.repeat(100_000)" });
    const { artifact, value } = result.structuredContent;
    assert.ok(value === undefined && artifact.bytes === 100_002 && artifact.preview.startsWith('"xxx'));
    const link = result.content.find((block) => block.type === 'resource_link');
    assert.equal(link.uri, artifact.uri);
    const { contents } = await client.readResource({ uri: link.uri });
    assert.equal(JSON.parse(contents[0].text), 'x'.repeat(100_000));
    await assert.rejects(client.readResource({ uri: 'scomp://artifact/a_none' }), /not found/);
    await client.close();
  },
};

await scenarios[scenario]();
console.log('ok');
