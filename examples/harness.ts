// An agent loop: a model writes code, the server runs it, the model reads the error and repairs its code.
//
//   cargo run -- --bindings ./bindings            (in another terminal)
//   npx --prefix js tsx examples/harness.ts
//
// attempt 1: ReferenceError: getOrdr is not defined (did you mean getOrder?)
// attempt 2: TypeError: cannot read property 'total' of null: order is null
// notified: order o_001 is 142.5
// attempt 3: 142.5
import { RemoteError, connect } from '../js/sdk/src/index.js';

interface Turn {
  code: string;
  outcome: string;
}

/** Stands for a model. A real one is given the types of the bindings, the task, and what came of its code so far. */
function model(types: string, _task: string, turns: Turn[]): string {
  if (!types.includes('getOrder')) throw new Error('there is nothing to work with');
  const drafts = [
    `const order = await getOrdr({ id: 'o_001' }); order.total`,
    `const order = await getOrder({ id: '1' }); order.total`,
    `const order = await getOrder({ id: 'o_001' });
     await notify({ message: \`order \${order.id} is \${order.total}\` });
     order.total`,
  ];
  return drafts[turns.length] ?? '';
}

const notify = {
  description: 'Tell the user something.',
  input: { type: 'object', properties: { message: { type: 'string' } }, required: ['message'] },
  handler: ({ message }: { message: string }) => console.log(`notified: ${message}`) ?? null,
};

const client = await connect(process.argv[2] ?? 'ws://127.0.0.1:7400', { bindings: { notify } });
const types = await client.invoke<string>('bindings.types');
const turns: Turn[] = [];
for (let attempt = 1; attempt <= 5; attempt += 1) {
  const code = model(types, 'What did order o_001 cost?', turns);
  try {
    const value = await client.eval(code, { timeoutMs: 10_000, name: `attempt-${attempt}.js` });
    console.log(`attempt ${attempt}: ${String(value)}`);
    break;
  } catch (error) {
    if (!(error instanceof RemoteError)) throw error;
    const [hint] = error.suggestions;
    const outcome = error.message + (hint === undefined ? '' : ` (did you mean ${hint}?)`);
    turns.push({ code, outcome });
    console.log(`attempt ${attempt}: ${outcome}`);
  }
}
await client.close();
