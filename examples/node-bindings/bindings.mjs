// Bindings in another language: one JSON-RPC message a line, in on stdin, out on stdout.
import { createInterface } from 'node:readline';

const text = { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] };
const bindings = {
  'text.reverse': {
    declaration: { description: 'The text backwards.', input: text, output: { type: 'string' }, effects: ['read'] },
    run: async ({ text }) => [...text].reverse().join(''),
  },
  'text.count': {
    declaration: { description: 'How many words there are.', input: text, output: { type: 'integer' }, effects: ['read'] },
    run: async ({ text }) => text.split(/\s+/).filter(Boolean).length,
  },
};

const answer = (id, outcome) => console.log(JSON.stringify({ jsonrpc: '2.0', id, ...outcome }));
const fail = (id, code, message) => answer(id, { error: { code, message } });

const methods = {
  handshake: async () => ({
    protocol: '0.1',
    sessionId: 'text',
    bindings: Object.entries(bindings).map(([name, { declaration }]) => ({ name, ...declaration })),
    metadata: { server: { name: 'text', version: '0.1.0' } },
  }),
  invoke: async ({ binding, input }) => ({ value: await bindings[binding].run(input) }),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined || method === undefined) continue;
  if (!Object.hasOwn(methods, method)) fail(id, -32601, `no method ${method}`);
  else methods[method](params).then((result) => answer(id, { result }), (error) => fail(id, -32000, error.message));
}
