// Schemas of zod and other libraries on bindings of the client: types, declarations, checks on both sides.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import * as v from 'valibot';
import { z } from 'zod';

import { declarationsOf } from '../src/bindings.js';
import { binding, connect } from '../src/index.js';
import type { BindingTable, Client } from '../src/index.js';
import { TestServer } from './support/server.js';

let server: TestServer;
before(async () => {
  server = await TestServer.start();
});
after(() => server.kill());

async function using(bindings: BindingTable, act: (client: Client) => Promise<void>): Promise<void> {
  const client = await connect(server.url, { bindings });
  try {
    await act(client);
  } finally {
    await client.close();
  }
}

const order = binding({
  description: 'Orders a thing.',
  input: z.object({ sku: z.string().min(2), count: z.number().int().default(1), at: z.date().optional() }),
  output: z.object({ total: z.number() }),
  handler: ({ sku, count, at }) => {
    // The types come from the schema: these would not compile otherwise.
    const text: string = sku;
    const number: number = count;
    const date: Date | undefined = at;
    return { total: number * 10 + text.length + (date?.getUTCFullYear() ?? 0) };
  },
});

test('a handler gets what its zod schema makes, with defaults, and scripts see the types', () =>
  using({ 'shop.order': order }, async (client) => {
    assert.deepEqual(await client.eval("await shop.order({ sku: 'ab' })"), { total: 12 });
    assert.deepEqual(await client.eval("await shop.order({ sku: 'ab', count: 2, at: new Date(0) })"), { total: 1992 });
    const types = await client.types();
    assert.match(types, /sku: string/);
    assert.match(types, /count\?: number/);
  }));

test('the server checks what JSON Schema can say, and the library the rest', () => {
  const even = binding({
    input: z.object({ n: z.number().refine((n) => n % 2 === 0, 'expected an even number') }),
    handler: ({ n }) => n / 2,
  });
  return using({ even, 'shop.order': order }, async (client) => {
    const name = (call: string) =>
      client.eval<string[]>(`${call}.catch((e) => [e.name, e.code, e.message, e.data.errors[0].path])`);
    assert.deepEqual((await name("shop.order({ sku: 'a' })")).slice(0, 2), ['InvalidInput', -32602]);
    assert.deepEqual(await name('even({ n: 3 })'), ['InvalidInput', -32602, 'input/n: expected an even number', '/n']);
    assert.equal(await client.eval('await even({ n: 4 })'), 2);
  });
});

test('an output that its schema refuses is InvalidOutput', () => {
  const wrong = binding({
    output: z.object({ n: z.number() }),
    handler: () => ({ n: 'x' }) as unknown as { n: number },
  });
  return using({ wrong }, async (client) => {
    assert.deepEqual(await client.eval('wrong({}).catch((e) => [e.name, e.code, e.data.errors[0].path])'), [
      'InvalidOutput',
      -32004,
      '/n',
    ]);
  });
});

test('a schema of a library without JSON Schema is checked here alone', () => {
  const greet = binding({
    input: v.object({ who: v.pipe(v.string(), v.trim()) }),
    handler: ({ who }) => `hi ${who}`,
  });
  assert.deepEqual(declarationsOf({ greet }), [{ name: 'greet', input: undefined, output: undefined }]);
  return using({ greet }, async (client) => {
    assert.equal(await client.eval("await greet({ who: ' you ' })"), 'hi you');
    assert.equal(await client.eval('greet({ who: 5 }).catch((e) => e.name)'), 'InvalidInput');
  });
});

test('a plain JSON Schema is declared as it is', () => {
  const input = { type: 'object', properties: { a: { type: 'string' } } };
  const [declared] = declarationsOf({ plain: { input, handler: () => 1 } });
  assert.equal(declared?.input, input);
});
