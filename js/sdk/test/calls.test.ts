// Calls of the server to the client against the real server: how many, how long, and how they end.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';

import { RemoteError, connect } from '../src/index.js';
import type { CallContext, Client, ConnectOptions } from '../src/index.js';
import { TestServer } from './support/server.js';

async function using(settings: string, options: ConnectOptions, act: (client: Client, server: TestServer) => unknown) {
  const server = await TestServer.start({ settings });
  try {
    const client = await connect(server.url, options);
    await act(client, server);
    await client.close();
  } finally {
    await server.kill();
  }
}

/** How many sessions the server has, by its metrics. */
async function sessionsOf(server: TestServer): Promise<number> {
  const text = await (await fetch(`http://${server.address}/metrics`)).text();
  return Number(/^scomp_sessions(?:\{\})? (\d+)$/m.exec(text)?.[1]);
}

/** Settles when the signal aborts, with its reason. */
const aborted = (signal: AbortSignal): Promise<unknown> =>
  new Promise((resolve) => signal.addEventListener('abort', () => resolve(signal.reason), { once: true }));

const kindOf = (outcome: Promise<unknown>): Promise<unknown> =>
  outcome.then(
    () => 'it succeeded',
    (error: RemoteError) => error.kind,
  );

test('a thousand concurrent calls of a script are all answered', () => {
  let release = () => {};
  let waiting = 0;
  const all = new Promise<void>((resolve) => (release = resolve));
  const tool = async ({ n }: { n: number }) => {
    waiting += 1;
    if (waiting === 1000) release();
    await all;
    return n * 2;
  };
  return using('', { bindings: { tool } }, async (client) => {
    const code = 'const all = Array.from({ length: 1000 }, (_, n) => tool({ n })); await Promise.all(all)';
    assert.deepEqual(
      await client.eval(code),
      Array.from({ length: 1000 }, (_, n) => n * 2),
    );
  });
});

test('calls past what the client may have open wait for a place', () => {
  let running = 0;
  let most = 0;
  const tool = async ({ n }: { n: number }) => {
    running += 1;
    most = Math.max(most, running);
    await new Promise((resolve) => setImmediate(resolve));
    running -= 1;
    return n;
  };
  return using('[limits]\nclient_calls_open_max = 8\n', { bindings: { tool } }, async (client) => {
    const sum = await client.eval(
      'const all = Array.from({ length: 500 }, (_, n) => tool({ n })); (await Promise.all(all)).reduce((a, b) => a + b)',
    );
    assert.deepEqual([sum, most <= 8], [124_750, true]);
  });
});

test('three thousand calls of the client are all answered', () =>
  using('', {}, async (client) => {
    const double = await client.eval<(n: number) => Promise<number>>('(n) => n * 2');
    const all = Array.from({ length: 3000 }, (_, n) => double(n));
    assert.deepEqual(
      await Promise.all(all),
      all.map((_, n) => n * 2),
    );
  }));

for (const [name, settings] of [
  ['the default limits', ''],
  ['seven lines at a time', '[limits]\nclient_calls_open_max = 7\n'],
] as const) {
  test(`console lines arrive complete, in order, and before the value, with ${name}`, () => {
    const lines: string[] = [];
    const evalIds = new Set<unknown>();
    const onConsole: ConnectOptions['onConsole'] = ({ text, evalId }) => {
      lines.push(text);
      evalIds.add(evalId);
    };
    return using(settings, { onConsole }, async (client) => {
      const print = (from: number) => `for (let n = ${from}; n < ${from} + 5000; n++) console.log(n)`;
      const evals = [0, 5000, 10_000].map(async (from) => {
        const { console } = await client.run(print(from));
        assert.deepEqual([console.length, lines.length >= from + 5000], [5000, true]);
      });
      await Promise.all(evals);
      assert.deepEqual(
        lines,
        Array.from({ length: 15_000 }, (_, n) => String(n)),
      );
      assert.equal(evalIds.size, 3);
    });
  });
}

test('five thousand console lines cost a few frames', () => {
  let frames = 0;
  let lines = 0;
  const options: ConnectOptions = { onFrame: () => (frames += 1), onConsole: () => (lines += 1) };
  return using('', options, async (client) => {
    await client.eval('for (let n = 0; n < 5000; n++) console.log(n)');
    assert.equal(lines, 5000);
    // One line at a time they would be ten thousand. How many batches there are depends on the speed of the machine.
    assert.ok(frames < 1000, String(frames));
  });
});

test('a tool may take what it declares, or what its eval says, and otherwise the default', () => {
  const slow = async (_: unknown, { signal }: CallContext) => {
    const timer = new Promise((resolve) => setTimeout(resolve, 1500, 'done'));
    return Promise.race([timer, aborted(signal)]);
  };
  const settings = '[limits]\nbinding_ms_max = 50\nwall_ms_max = 1000\n';
  const bindings = { slow, patient: { handler: slow, limits: { timeoutMs: 60_000 } } };
  return using(settings, { bindings }, async (client) => {
    assert.equal(await client.eval('slow({}).catch((e) => e.name)'), 'Timeout');
    // A limit of its own holds although the eval has less time, which stands still meanwhile.
    assert.equal(await client.eval('await patient({})'), 'done');
    assert.equal(await kindOf(client.eval('await patient({})', { timeoutMs: 100 })), 'Timeout');
    assert.equal(await client.eval('await patient({})', { timeoutMs: 30_000 }), 'done');
  });
});

test('a tool without a limit of its own may take as long as its eval', () => {
  const slow = () => new Promise((resolve) => setTimeout(resolve, 200, 'done'));
  return using('[limits]\nbinding_ms_max = 50\n', { bindings: { slow } }, async (client) => {
    assert.equal(await client.eval('slow({}).catch((e) => e.name)'), 'Timeout');
    assert.equal(await client.eval('await slow({})', { timeoutMs: 30_000 }), 'done');
  });
});

test('a tool gets no more time than the server allows', () => {
  const tool = { handler: () => new Promise(() => undefined), limits: { timeoutMs: 60_000 } };
  return using('[limits]\nclient_call_ms_max = 50\n', { bindings: { tool } }, async (client) => {
    assert.equal(await client.eval('tool({}).catch((e) => e.name)'), 'Timeout');
  });
});

test('a bad limit in a declaration is refused with its place', async () => {
  const server = await TestServer.start();
  try {
    for (const timeoutMs of [0, -1, 1.5, 'long'] as number[]) {
      const bindings = { tool: { handler: () => 1, limits: { timeoutMs } } };
      const refused = await connect(server.url, { bindings }).catch((error: unknown) => error);
      assert.ok(refused instanceof RemoteError && refused.kind === 'InvalidParams', String(timeoutMs));
      assert.deepEqual((refused.data as { path: string }).path, '/bindings/0/limits/timeoutMs');
    }
  } finally {
    await server.kill();
  }
});

function withApprovals(limits: string): string {
  const sha256 = createHash('sha256').update('s3cret').digest('hex');
  return `[limits]\n${limits}\n[[auth.tokens]]\nprincipal = "ci"\nsha256 = "${sha256}"\npolicy = { approve = ["read"] }\n`;
}

test('a person has time to approve, which is neither the eval time nor that of the binding', () => {
  const approve = () => new Promise<boolean>((resolve) => setTimeout(resolve, 1500, true));
  const limits = 'binding_ms_max = 1000\nwall_ms_max = 1000';
  return using(withApprovals(limits), { token: 's3cret', approve }, async (client) => {
    const code = "(await getOrder({ id: 'o_001' })).total";
    assert.equal(await client.eval(code), 142.5);
    const ask = await client.eval<() => Promise<number>>(`async () => ${code}`);
    assert.equal(await ask(), 142.5);
  });
});

test('an approval that does not come in its time is a refusal, and is withdrawn', async () => {
  let withdrawn: Promise<unknown> | undefined;
  const approve: ConnectOptions['approve'] = (_, { signal }) => {
    withdrawn = aborted(signal);
    return new Promise<boolean>(() => undefined);
  };
  await using(withApprovals('approve_ms_max = 50'), { token: 's3cret', approve }, async (client) => {
    assert.equal(await kindOf(client.eval("await getOrder({ id: 'o_001' })")), 'PermissionDenied');
    assert.equal(((await withdrawn) as Error).message, 'the server does not wait for this call any more');
  });
});

test('cancel, timeout and the end of the session reach the handlers', async () => {
  const starts: AbortSignal[] = [];
  let started = () => {};
  const next = () => new Promise<void>((resolve) => (started = resolve));
  const tool = (_: unknown, { signal }: CallContext) => {
    starts.push(signal);
    started();
    return new Promise(() => undefined);
  };
  const reasonOf = async (index: number) => {
    const signal = starts[index] as AbortSignal;
    return (signal.aborted ? signal.reason : await aborted(signal)) as { kind: string };
  };
  await using('', { bindings: { tool } }, async (client) => {
    const controller = new AbortController();
    let begun = next();
    const running = client.eval('await tool({})', { signal: controller.signal });
    running.catch(() => undefined);
    await begun;
    assert.equal(starts[0]?.aborted, false);
    controller.abort();
    assert.equal((await reasonOf(0)).kind, 'Cancelled');

    assert.equal(await kindOf(client.eval('await tool({})', { timeoutMs: 50 })), 'Timeout');
    assert.equal((await reasonOf(1)).kind, 'Cancelled');

    begun = next();
    client.eval('await tool({})').catch(() => undefined);
    await begun;
    await client.invoke('session.reset');
    assert.equal((await reasonOf(2)).kind, 'Cancelled');

    begun = next();
    client.eval('await tool({})').catch(() => undefined);
    await begun;
    await client.close();
    assert.ok(starts[3]?.aborted);
  });
});

test('a cancelled eval withdraws the approval that it waits for', async () => {
  let asked: (signal: AbortSignal) => void = () => {};
  const question = new Promise<AbortSignal>((resolve) => (asked = resolve));
  const approve: ConnectOptions['approve'] = (_, { signal }) => {
    asked(signal);
    return new Promise<boolean>(() => undefined);
  };
  await using(withApprovals(''), { token: 's3cret', approve }, async (client) => {
    const controller = new AbortController();
    client.eval("await getOrder({ id: 'o_001' })", { signal: controller.signal }).catch(() => undefined);
    const signal = await question;
    const withdrawn = aborted(signal);
    controller.abort();
    await withdrawn;
    assert.equal(await client.eval('1 + 1'), 2);
  });
});

test('close ends the session, unless it is to be kept', () =>
  using('', {}, async (first, server) => {
    await first.eval('globalThis.kept = 1');
    const kept = await connect(server.url);
    await kept.eval('globalThis.kept = 2');
    assert.equal(await sessionsOf(server), 2);
    await first.close();
    assert.equal(await sessionsOf(server), 1);
    const session = await kept.detach();
    assert.equal(await sessionsOf(server), 1);
    const again = await connect(server.url, { session });
    assert.equal(await again.eval('kept'), 2);
    await again.close();
    assert.equal(await sessionsOf(server), 0);
    await assert.rejects(connect(server.url, { session: first.session }), { kind: 'SessionRefused' });
  }));

test('close frees the place in the quota, also while a script loops', () =>
  using('[sessions]\nsessions_max = 1\n', {}, async (first, server) => {
    first.eval('for (;;);').catch(() => undefined);
    await first.invoke('session.info');
    await first.close();
    const second = await connect(server.url);
    assert.equal(await second.eval('1'), 1);
    await second.close();
  }));
