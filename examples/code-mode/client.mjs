// A session over stdin and stdout of a scomp-serve: one message per line.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

export async function connect(program, folder) {
  const child = spawn(program, ['--stdio', '--bindings', folder], { stdio: ['pipe', 'pipe', 'inherit'] });
  const waiting = new Map();
  let last = 0;
  createInterface({ input: child.stdout }).on('line', (line) => {
    const message = JSON.parse(line);
    const settle = waiting.get(message.id);
    waiting.delete(message.id);
    settle?.(message);
  });
  child.on('exit', () => waiting.forEach((settle) => settle({ error: { message: 'the server ended' } })));
  const request = async (method, params) => {
    const id = ++last;
    const answer = new Promise((settle) => waiting.set(id, settle));
    child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`);
    const { result, error } = await answer;
    if (error) throw new Error(error.message);
    return result;
  };
  const { bindings } = await request('handshake', { protocol: '0.1' });
  return {
    bindings: bindings.filter(({ name }) => !/^(session|bindings)\./.test(name)),
    types: async () => (await request('invoke', { binding: 'bindings.types', input: {} })).value,
    call: async (binding, input) => (await request('invoke', { binding, input })).value,
    evaluate: async (code) => (await request('eval', { code })).value,
    close: () => child.stdin.end(),
  };
}
