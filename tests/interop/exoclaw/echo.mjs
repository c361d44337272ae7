// The tool `echo` of the interop profiles, a package over stdin and stdout.
import { createInterface } from 'node:readline';

const echo = {
  name: 'echo',
  description: 'Returns its message.',
  input: { type: 'object', properties: { message: { type: 'string' } }, required: ['message'] },
  output: { type: 'string' },
  effects: ['read'],
};
const methods = {
  handshake: () => ({ protocol: '0.1', sessionId: 'echo', bindings: [echo], metadata: { server: { name: 'echo', version: '0.1.0' } } }),
  invoke: ({ input }) => ({ value: `echo: ${input.message}` }),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined || method === undefined) continue;
  const response = Object.hasOwn(methods, method)
    ? { result: methods[method](params) }
    : { error: { code: -32601, message: `unknown method ${method}` } };
  console.log(JSON.stringify({ jsonrpc: '2.0', id, ...response }));
}
