// What the children have in common: lines in, lines out, and the methods of a child.
import { createInterface } from 'node:readline';

export const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);

export function serve(bindings, invoke, greet = () => {}) {
  const waiting = new Map();
  let next = 1;
  const call = (params) => new Promise((resolve, reject) => {
    waiting.set(next, { resolve, reject });
    send({ id: next++, method: 'invoke', params });
  });
  const methods = {
    handshake: async (params) => {
      greet(params);
      return { protocol: '0.1', sessionId: 'child', bindings, metadata: {} };
    },
    invoke: async (params) => ({ value: await invoke(params, call) }),
  };
  createInterface({ input: process.stdin }).on('line', (line) => {
    const { id, method, params, result, error } = JSON.parse(line);
    if (method === undefined) {
      const waiter = waiting.get(id);
      waiting.delete(id);
      if (error) waiter.reject(error);
      else waiter.resolve(result.value);
    } else if (id !== undefined) {
      methods[method](params).then(
        (result) => send({ id, result }),
        ({ code = -32000, message, data }) => send({ id, error: { code, message, data } }),
      );
    }
  });
}
