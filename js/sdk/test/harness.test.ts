// A whole harness, written from docs/sdk.md alone: tools, a repair loop, a slow approval, a cut connection, a restart.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';

import { z } from 'zod';

import { RemoteError, ScompError, binding, connect } from '../src/index.js';
import type { Client } from '../src/index.js';
import { CutPoint, TestServer } from './support/server.js';

const TOKEN = 's3cret';
// An eval has a second, and a person more: ten minutes by default.
const SETTINGS = `[limits]
wall_ms_max = 1000
[[auth.tokens]]
principal = "harness"
sha256 = "${createHash('sha256').update(TOKEN).digest('hex')}"
policy = { approve = ["read"] }
`;

/** Stands for a model: it repairs its code when it is shown what was wrong. */
function model(reports: string[]): string {
  if (reports.length === 0) return "const order = await getOrdr({ id: 'o_001' }); order.total";
  assert.match(reports.at(-1) ?? '', /getOrder/);
  return "const order = await getOrder({ id: 'o_001' }); await shop.note({ text: `it is ${order.total}` }); order.total";
}

/** Asks the model until its code runs. */
async function solve(client: Client): Promise<unknown> {
  const reports: string[] = [];
  for (;;) {
    try {
      return await client.eval(model(reports));
    } catch (error) {
      if (!(error instanceof RemoteError) || reports.length >= 3) throw error;
      reports.push(error.report());
    }
  }
}

test('a harness goes through everything that happens to it', async () => {
  const server = await TestServer.start({ settings: SETTINGS });
  const point = await CutPoint.before(server);
  const notes: string[] = [];
  const client = await connect(point.url, {
    token: TOKEN,
    reconnect: { initialMs: 5, maxMs: 40, attempts: 200 },
    bindings: {
      'shop.note': binding({
        input: z.object({ text: z.string() }),
        handler: ({ text }) => {
          notes.push(text);
        },
      }),
    },
    // Longer than an eval may take.
    approve: () => new Promise((resolve) => setTimeout(resolve, 1200, true)),
  });
  try {
    assert.equal(await solve(client), 142.5);
    assert.deepEqual(notes, ['it is 142.5']);

    // The connection is cut in the middle of an eval, which runs once all the same.
    await client.eval('globalThis.runs = 0');
    const running = client.eval('runs++; await new Promise((done) => setTimeout(done, 100)); runs');
    await client.info();
    point.cut();
    assert.equal(await running, 1);

    // The server restarts: the session is gone, and the harness learns of it once.
    await server.kill();
    const next = await TestServer.start({ settings: SETTINGS, listen: server.address });
    try {
      const outcomes = [];
      for (let attempt = 0; attempt < 2; attempt += 1) {
        outcomes.push(await client.eval('typeof runs').catch((error: ScompError) => error.kind));
      }
      assert.deepEqual(outcomes, ['SessionLost', 'undefined']);
      assert.equal(await solve(client), 142.5);
    } finally {
      await client.close();
      await next.kill();
    }
  } finally {
    point.close();
    await server.kill();
  }
});
