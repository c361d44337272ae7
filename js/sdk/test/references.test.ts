// Functions that the collector drops are given up on the other side. Needs --expose-gc.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { connect } from '../src/index.js';
import type { Client } from '../src/index.js';
import { TestServer } from './support/server.js';

let server: TestServer;
let client: Client;
before(async () => {
  server = await TestServer.start();
  client = await connect(server.url);
});
after(async () => {
  await client.close();
  await server.kill();
});

const held = async (): Promise<number> =>
  (await client.invoke<{ functionsHeld: number }>('session.info')).functionsHeld;

/** Collections until `done`; each comes with a round trip, in which finalizers run. */
async function collectUntil(done: () => Promise<boolean>): Promise<boolean> {
  for (let round = 0; round < 100; round += 1) {
    globalThis.gc?.();
    if (await done()) return true;
  }
  return false;
}

test('a function of the script that we dropped is released there', async () => {
  assert.ok(globalThis.gc !== undefined, 'run with --expose-gc');
  const use = async () => {
    const fn = await client.eval<() => Promise<number>>('() => 1');
    assert.equal(await fn(), 1);
    assert.equal(await held(), 1);
  };
  await use();
  assert.ok(await collectUntil(async () => (await held()) === 0));
});

test('a function that came twice is one function, released with both receipts', async () => {
  const use = async () => {
    const first = await client.eval('globalThis.same = () => 1; same');
    const second = await client.eval('same');
    assert.equal(first, second);
  };
  await use();
  assert.ok(await collectUntil(async () => (await held()) === 0));
  await client.eval('delete globalThis.same');
});

test('a function can be given up by hand', async () => {
  const fn = await client.eval<() => Promise<number>>('() => 1');
  assert.equal(client.release(fn), true);
  assert.equal(await held(), 0);
  await assert.rejects(fn(), { kind: 'UnknownRef' });
  assert.equal(client.release(fn), false);
  assert.equal(
    client.release(() => 1),
    false,
  );
});

test('a function of ours that the script dropped is released here', async () => {
  const keep = await client.eval<(fn: unknown) => Promise<void>>('(fn) => { globalThis.kept = fn }');
  let dropped = new WeakRef({});
  const send = async () => {
    const mine = () => 5;
    dropped = new WeakRef(mine);
    await keep(mine);
    assert.equal(await client.eval('await kept()'), 5);
  };
  await send();
  await client.eval('delete globalThis.kept');
  const allocate = 'const garbage = []; for (let i = 0; i < 20000; i++) garbage.push({ i }); 0';
  assert.ok(await collectUntil(async () => (await client.eval(allocate), dropped.deref() === undefined)));
});
