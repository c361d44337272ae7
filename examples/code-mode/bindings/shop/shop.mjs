// The bindings of the example: twelve customers with five orders each, and mail that is only counted.
import { createInterface } from 'node:readline';

const object = (properties) => ({ type: 'object', properties, required: Object.keys(properties), additionalProperties: false });
const [text, number, flag] = [{ type: 'string' }, { type: 'number' }, { type: 'boolean' }];
const order = object({ id: text, placed: text, total: number, paid: flag, items: { type: 'array', items: object({ sku: text, quantity: number }) } });

const bindings = [
  { name: 'shop.customers', description: 'All customers.', input: object({}), effects: ['read'],
    output: { type: 'array', items: object({ id: text, name: text, email: text, city: text, since: text }) } },
  { name: 'shop.orders', description: 'The orders of a customer.', input: object({ customer: text }), effects: ['read'],
    output: { type: 'array', items: order } },
  { name: 'mail.send', description: 'Sends a mail.', input: object({ to: text, subject: text, text }), effects: ['external'],
    output: object({ id: text }) },
];

const names = ['Ada', 'Ben', 'Cleo', 'Dan', 'Eva', 'Finn', 'Gia', 'Hugo', 'Ines', 'Jon', 'Kim', 'Lea'];
const customers = names.map((name, at) => ({
  id: `c${at + 1}`, name, email: `${name.toLowerCase()}@shop.example`, city: ['Oslo', 'Lyon', 'Graz'][at % 3], since: `20${10 + at}-03-01`,
}));
const orders = (customer) => [1, 2, 3, 4, 5].map((at) => {
  const n = Number(customer.slice(1));
  return {
    id: `${customer}-o${at}`, placed: `2026-0${at}-1${n % 10}`, total: (n * 17 + at * 29) % 90 + 5, paid: (n + at) % 3 !== 0,
    items: [{ sku: `sku-${(n * at) % 40}`, quantity: at }, { sku: `sku-${n + at}`, quantity: 1 }],
  };
});

let sent = 0;
const handlers = {
  'shop.customers': () => customers,
  'shop.orders': ({ customer }) => orders(customer),
  'mail.send': () => ({ id: `m${++sent}` }),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined || method === undefined) continue;
  const result = method === 'handshake'
    ? { protocol: '0.1', sessionId: 'shop', bindings }
    : { value: handlers[params.binding](params.input) };
  console.log(JSON.stringify({ jsonrpc: '2.0', id, result }));
}
