// Does what it says.
import { serve } from './wire.mjs';

const numbers = { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] };
const bindings = [
  { name: 'child.add', input: numbers, output: { type: 'number' } },
  ...['meet', 'fail', 'die', 'call', 'adder', 'surroundings', 'pid'].map((name) => ({ name: `child.${name}` })),
  { name: 'session.info', description: 'A control binding, which is not for scripts.' },
];

const met = [];
let config;

const run = {
  add: ({ a, b }) => a + b,
  meet: () => new Promise((resolve) => {
    met.push(resolve);
    if (met.length === 2) met.forEach((answer) => answer(2));
  }),
  fail: () => { throw { code: 77, message: 'as I said', data: { kind: 'Mine' } }; },
  die: () => process.exit(3),
  call: ({ fn, arg }, call) => call({ ref: fn.$fn, args: [arg] }),
  adder: ({ n }) => ({ $fn: `add${n}`, name: 'add' }),
  surroundings: () => ({ config, env: Object.keys(process.env).sort() }),
  pid: () => process.pid,
};

serve(bindings, async ({ binding, ref, input, args }, call) => {
  if (ref) return Number(ref.slice('add'.length)) + args[0];
  return run[binding.slice('child.'.length)](input, call);
}, ({ metadata }) => { config = metadata.config; });
