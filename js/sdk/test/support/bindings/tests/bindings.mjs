// The handlers of the transcripts' bindings: values stay in their wire form, functions are called by their references.
import { readFileSync } from 'node:fs';

import { send, serve } from '../../../../../../tests/bindings/wire.mjs';

const file = JSON.parse(readFileSync(new URL('declaration.json', import.meta.url), 'utf8'));
const never = new Promise(() => {});
const counters = new Map();
let kept;

const handlers = {
  getOrder: ({ id }) => (id === 'o_001' ? { id, total: 142.5 } : null),
  limited: () => never,
  echo: (input) => input,
  forever: () => never,
  'fail.coded': () =>
    Promise.reject({ code: -7, message: 'no such order', data: { order: 'o_9', kind: 'NoSuchOrder' } }),
  'fail.plain': () => Promise.reject({ message: 'out of paper', data: { kind: 'BindingError' } }),
  'fail.bare': () => Promise.reject({ code: 5, message: 'bare' }),
  'fail.panic': () => Promise.reject({ message: 'the handler panicked', data: { kind: 'BindingError' } }),
  apply: async ({ fn, args }, call) => {
    const value = await call({ ref: fn.$fn, args: args ?? [] });
    send({ method: 'release_ref', params: { ref: fn.$fn } });
    return value;
  },
  'memory.transact': (input) => ({ ok: input }),
  'counter.make': () => {
    const id = `n${counters.size + 1}`;
    counters.set(id, 0);
    return { $fn: id, name: 'next' };
  },
  'keeper.keep': ({ fn }) => void (kept = fn.$fn) ?? null,
  'keeper.call': (input, call) => call({ ref: kept, args: [input] }),
  strict: ({ n }) => n,
  each: async ({ items, visit }, call) => {
    const out = [];
    for (const item of items) out.push(await call({ ref: visit.$fn, args: [item] }));
    return out;
  },
};

const next = (id) => {
  counters.set(id, counters.get(id) + 1);
  return counters.get(id);
};

serve(
  file.bindings.map(({ limits, ...declaration }) => declaration),
  async ({ binding, ref, input }, call) => (ref === undefined ? handlers[binding](input, call) : next(ref)),
);
