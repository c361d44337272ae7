// A stub of a model: it answers every message with the same code, and then reports the result of running it.
// The server starts it as a package with a binding of its own; the model is on a port beside that.
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';

const code = "const o = await getOrder({ id: 'o_001' }); o.items.reduce((sum, item) => sum + item.quantity, 0)";
const { hostname, port } = new URL('http://127.0.0.1:7414');

const block = (index, content_block, delta) => [
  { type: 'content_block_start', index, content_block },
  { type: 'content_block_delta', index, delta },
  { type: 'content_block_stop', index },
];
const say = (text) => block(0, { type: 'text', text: '' }, { type: 'text_delta', text });
const run = (code) =>
  block(0, { type: 'tool_use', id: 'call_1', name: 'eval' }, { type: 'input_json_delta', partial_json: JSON.stringify({ code }) });

let asked = 0;
createServer(async (request, response) => {
  asked += 1;
  let body = '';
  for await (const chunk of request) body += chunk;
  const last = JSON.parse(body).messages.at(-1).content;
  const answer = typeof last === 'string' ? run(code) : say(`There are ${last[0].content} things in it.`);
  const events = [
    { type: 'message_start', message: { usage: { input_tokens: 10 } } },
    ...answer,
    { type: 'message_delta', usage: { output_tokens: 5 } },
    { type: 'message_stop' },
  ];
  response.setHeader('content-type', 'text/event-stream');
  response.end(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(''));
}).listen(port, hostname);

const asks = { name: 'stub.asked', description: 'How often the model was asked.', output: { type: 'integer' }, effects: ['read'] };
const methods = {
  handshake: () => ({ protocol: '0.1', sessionId: 'stub', bindings: [asks], metadata: {} }),
  invoke: () => ({ value: asked }),
};
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method } = JSON.parse(line);
  if (Object.hasOwn(methods, method)) console.log(JSON.stringify({ jsonrpc: '2.0', id, result: methods[method]() }));
}
process.exit();
