// The library against the real server: values, bindings and functions both ways, cancelling, console, approval.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, test } from 'node:test';

import { WebSocket } from 'ws';

import { RemoteError, ScompError, connect } from '../src/index.js';
import type { Client, ConnectOptions, ConsoleLine, SocketConstructor } from '../src/index.js';
import { TestServer } from './support/server.js';

let server: TestServer;
before(async () => {
  server = await TestServer.start();
});
after(() => server.kill());

async function using<T>(options: ConnectOptions, act: (client: Client) => Promise<T>, url = server.url): Promise<T> {
  const client = await connect(url, options);
  try {
    return await act(client);
  } finally {
    await client.close();
  }
}

async function kindOf(outcome: Promise<unknown>): Promise<string> {
  return outcome.then(
    () => assert.fail('it succeeded'),
    (error: RemoteError) => error.kind,
  );
}

test('an eval returns its value, and its declarations persist', () =>
  using({}, async (client) => {
    assert.equal(await client.eval("const o = await getOrder({ id: 'o_001' }); o.total"), 142.5);
    assert.equal(await client.eval('o.id'), 'o_001');
    assert.equal(await client.eval('undefined'), undefined);
  }));

test('run returns console output and statistics', () =>
  using({}, async (client) => {
    const { value, console, stats } = await client.run("console.warn('careful', [1]); 7n", { stats: true });
    assert.equal(value, 7n);
    assert.deepEqual(
      console.map(({ level, text }) => [level, text]),
      [['warn', 'careful [ 1 ]']],
    );
    assert.equal(typeof stats?.cpuMs, 'number');
  }));

test('an error has its kind, code, stack with position, and suggestions', () =>
  using({}, async (client) => {
    const error = await client.eval('1;\n  getOrdr()', { name: 'job.js' }).catch((error: unknown) => error);
    assert.ok(error instanceof RemoteError);
    assert.deepEqual(
      [error.kind, error.code, error.message],
      ['EvalError', -32000, 'ReferenceError: getOrdr is not defined'],
    );
    assert.match(error.remoteStack ?? '', /job\.js:2:3/);
    assert.deepEqual(error.suggestions, ['getOrder']);
    assert.equal(await kindOf(client.eval('let = ;')), 'SyntaxError');
    assert.equal(await kindOf(client.eval('for(;;);', { timeoutMs: 50 })), 'Timeout');
    assert.equal(await kindOf(client.invoke('nope')), 'UnknownBinding');
    assert.equal(await kindOf(client.invoke('strict', { n: 'x' })), 'InvalidInput');
    assert.equal(await client.eval('1'), 1);
  }));

test('bindings is an object of functions, dotted names nested', () =>
  using({}, async ({ bindings }) => {
    assert.deepEqual(await bindings['getOrder']({ id: 'o_001' }), { id: 'o_001', total: 142.5 });
    assert.deepEqual(await bindings['memory'].transact({ at: new Date(0) }), { ok: { at: new Date(0) } });
    assert.equal(bindings['nope'], undefined);
    assert.equal(bindings['memory'].nope, undefined);
    assert.ok('memory' in bindings && Object.keys(bindings['fail']).includes('coded'));
    assert.equal(await Promise.resolve(bindings).then((same) => same === bindings), true);
  }));

test('scripts call bindings of the client, checked by their schemas, and get its errors', () => {
  const input = { type: 'object', properties: { message: { type: 'string' } }, required: ['message'] };
  const notes: string[] = [];
  const notify = {
    description: 'Tell the user.',
    input,
    handler: ({ message }: { message: string }) => notes.push(message),
  };
  const refuse = () => Promise.reject(Object.assign(new Error('not today'), { code: 7, data: { kind: 'Holiday' } }));
  return using({ bindings: { notify, 'shop.refuse': refuse } }, async (client) => {
    assert.equal(await client.eval("await notify({ message: 'hi' })"), 1);
    assert.deepEqual(notes, ['hi']);
    assert.equal(await client.eval('notify({ message: 5 }).catch(e => e.name)'), 'InvalidInput');
    assert.deepEqual(await client.eval('shop.refuse().catch(e => [e.name, e.message, e.code])'), [
      'Holiday',
      'not today',
      7,
    ]);
  });
});

test('a handler may call back into the session that waits for it', () =>
  using(
    {
      bindings: {
        twice: async ({ step }: { step: (x: number) => Promise<number> }) => (await step(1)) + (await step(2)),
      },
    },
    async (client) => {
      assert.equal(await client.eval('await twice({ step: (x) => x * 10 })'), 30);
    },
  ));

test('functions go both ways, as values in values', () =>
  using({}, async (client) => {
    const counter = await client.eval<{ next: () => Promise<number> }>('let n = 0; ({ next: () => ++n })');
    assert.deepEqual([await counter.next(), await counter.next()], [1, 2]);
    const apply =
      await client.eval<(fn: unknown, ...args: unknown[]) => Promise<unknown>>('(fn, ...args) => fn(...args)');
    assert.equal(await apply((a: number, b: number) => a + b, 2, 3), 5);
    assert.deepEqual(await client.invoke('each', { items: [1, 2], visit: (x: number) => x + 1 }), [2, 3]);
    await assert.rejects(
      apply(() => {
        throw new Error('from here');
      }),
      /from here/,
    );
  }));

test('an abort cancels the eval and the session goes on', () =>
  using({}, async (client) => {
    const abort = new AbortController();
    const running = client.eval('await forever()', { signal: abort.signal });
    const queued = client.eval('1 + 1');
    const never = client.eval('globalThis.ran = true', { signal: AbortSignal.abort(new Error('before')) });
    abort.abort(new Error('enough'));
    await assert.rejects(running, /enough/);
    await assert.rejects(never, /before/);
    assert.equal(await queued, 2);
    assert.equal(await client.eval('globalThis.ran'), undefined);
    const looping = new AbortController();
    const loop = client.eval('for (;;);', { signal: looping.signal });
    looping.abort();
    await assert.rejects(loop, { name: 'AbortError' });
    assert.equal(await client.eval('2'), 2);
  }));

test('an eval with a key runs once', () =>
  using({}, async (client) => {
    const once = () => client.eval('globalThis.runs = (globalThis.runs ?? 0) + 1', { key: 'k' });
    assert.deepEqual(await Promise.all([once(), once()]), [1, 1]);
    assert.equal(await kindOf(client.eval('0', { key: 'k' })), 'KeyConflict');
  }));

test('a thousand concurrent evals keep their order and their answers', () =>
  using({}, async (client) => {
    const codes = Array.from({ length: 1000 }, (_, index) => `(globalThis.all ??= []).push(${index})`);
    const lengths = await Promise.all(codes.map((code) => client.eval(code)));
    assert.deepEqual(
      lengths,
      codes.map((_, index) => index + 1),
    );
  }));

test('console lines come as they are printed', async () => {
  const lines: (ConsoleLine & { evalId?: unknown })[] = [];
  let first = () => {};
  const printed = new Promise<void>((resolve) => (first = resolve));
  await using(
    {
      onConsole: (line) => {
        lines.push(line);
        first();
      },
    },
    async (client) => {
      const running = client.eval("console.log('early'); await forever()", { timeoutMs: 5000 });
      running.catch(() => undefined);
      await printed;
      assert.deepEqual(
        lines.map(({ level, text }) => [level, text]),
        [['log', 'early']],
      );
    },
  );
});

test('an eval gets its own console lines, as they are printed', async () => {
  let printed = () => {};
  const early = new Promise<void>((resolve) => (printed = resolve));
  const mine: string[] = [];
  const all: string[] = [];
  await using({ onConsole: ({ text }) => all.push(text) }, async (client) => {
    const onConsole = ({ text }: ConsoleLine) => {
      mine.push(text);
      printed();
    };
    const others = client.eval("console.log('other')");
    const running = client.run("console.log('a'); await forever().catch(() => 0); 1", { onConsole, timeoutMs: 60_000 });
    running.catch(() => undefined);
    await early;
    assert.deepEqual([mine, all], [['a'], ['other', 'a']]);
    await others;
    await client.cancel();
    await assert.rejects(running, { kind: 'Cancelled' });
    assert.deepEqual(mine, ['a']);
  });
});

test('without streaming the lines of an eval come with its outcome, once', async () => {
  const mine: string[] = [];
  const onConsole = ({ text }: ConsoleLine) => mine.push(text);
  await using({ streamConsole: false }, async (client) => {
    await client.eval("console.log('a'); console.log('a')", { onConsole });
    await assert.rejects(client.eval("console.log('b'); throw 1", { onConsole }));
    assert.deepEqual(mine, ['a', 'a', 'b']);
  });
});

test('the controls of the session are methods', () =>
  using({ bindings: { notify: () => 1 } }, async (client) => {
    assert.match(await client.types(), /getOrder[^]*notify/);
    assert.equal((await client.search('order'))[0]?.name, 'getOrder');
    await client.eval('globalThis.x = 1');
    const running = client.eval('await forever()').catch((error: ScompError) => error.kind);
    assert.equal((await client.cancel()).length, 1);
    assert.equal(await running, 'Cancelled');
    assert.equal((await client.info()).running, false);
    await client.reset();
    assert.equal(await client.eval('typeof x'), 'undefined');
  }));

test('a session goes back to a checkpoint, and a fork goes on from one', () =>
  using({}, async (client) => {
    await client.eval('let n = 1');
    const first = await client.checkpoint('start');
    await client.eval('n = 2');
    assert.deepEqual(
      (await client.checkpoints()).map(({ checkpoint, label }) => [checkpoint, label]),
      [[first, 'start']],
    );
    const now = await client.fork();
    const then = await client.fork(first);
    await client.rewind(first);
    assert.equal(await client.eval('n'), 1);
    await using({ session: now }, async (fork) => {
      assert.equal(fork.session.id, now.id);
      assert.equal(await fork.eval('n += 10'), 12);
    });
    await using({ session: then }, async (fork) => assert.equal(await fork.eval('n += 10'), 11));
    assert.equal(await client.eval('n'), 1);
    const unknown = await client.rewind(99).catch((error: ScompError) => error.kind);
    assert.equal(unknown, 'UnknownCheckpoint');
    await assert.rejects(client.fork(99), { kind: 'UnknownCheckpoint' });
  }));

test('a report has the message, the place and the suggestions; that of the server goes first', async () => {
  await using({}, async (client) => {
    const error = await client.eval('1;\n  getOrdr()', { name: 'job.js' }).catch((error: ScompError) => error);
    assert.ok(error instanceof ScompError);
    assert.match(error.report(), /getOrdr is not defined[^]*job\.js:2:3[^]*getOrder/);
  });
  const cause = { message: 'inner', data: { errors: [{ path: '/id', message: 'expected string' }] } };
  const composed = new ScompError('EvalError', 'outer', -32000, { stack: '  at a.js:1:1', suggestions: ['b'], cause });
  assert.equal(composed.report(), 'outer\n  at a.js:1:1\ndid you mean b?\ncaused by: inner\n  /id: expected string');
  assert.equal(new ScompError('EvalError', 'm', -32000, { report: 'theirs' }).report(), 'theirs');
  assert.equal(new ScompError('EvalError', 'm', -32000, { report: 'x'.repeat(8001) }).report().length, 8000);
  const endless: { message: string; data: Record<string, unknown> } = { message: 'again', data: {} };
  endless.data['cause'] = endless;
  assert.equal(new ScompError('EvalError', 'm', -32000, { cause: endless }).report().split('\n').length, 9);
});

test('await using closes the client', async () => {
  let left: Client | undefined;
  {
    await using client = await connect(server.url);
    left = client;
    assert.equal(await client.eval('1'), 1);
  }
  assert.equal(left.connectionState, 'closed');
});

test('a session is left and come back to with its ticket', async () => {
  const leave = (options: ConnectOptions, code: string) =>
    using(options, async (client) => {
      assert.equal(await client.eval(code), 5);
      return client.detach();
    });
  const ticket = await leave({}, 'globalThis.kept = 5');
  const renewed = await leave({ session: ticket }, 'kept');
  assert.notEqual(renewed.token, ticket.token);
  await assert.rejects(connect(server.url, { session: ticket }), { kind: 'SessionRefused' });
});

test('after close nothing is sent, and waiters are rejected', async () => {
  const client = await connect(server.url);
  const running = kindOf(client.eval('await forever()'));
  await client.close();
  assert.equal(await running, 'Closed');
  assert.equal(await kindOf(client.eval('1')), 'Closed');
  assert.equal(await kindOf(client.invoke('session.info')), 'Closed');
});

test('the server closing the session ends the client', async () => {
  const client = await connect(server.url);
  await client.invoke('session.close').catch(() => undefined);
  assert.equal((await client.closed).code, 1000);
});

test('with tokens, the right one comes in and its approvals are asked', async () => {
  const sha256 = createHash('sha256').update('s3cret').digest('hex');
  const settings = `[[auth.tokens]]\nprincipal = "ci"\nsha256 = "${sha256}"\npolicy = { approve = ["read"] }\n`;
  const guarded = await TestServer.start({ settings });
  try {
    await assert.rejects(connect(guarded.url), { kind: 'Unauthorized', message: /wants a token/ });
    await assert.rejects(connect(guarded.url, { token: 'wrong' }), {
      kind: 'Unauthorized',
      message: /does not accept/,
    });
    // Other sockets do not tell the status of the answer.
    class Silent extends WebSocket {
      override emit(event: string, ...args: unknown[]): boolean {
        return super.emit(event, ...(event === 'error' ? [new Error('')] : args));
      }
    }
    await assert.rejects(connect(guarded.url, { token: 'wrong', WebSocket: Silent as unknown as SocketConstructor }), {
      kind: 'Unauthorized',
    });
    const asked: string[] = [];
    const approve: ConnectOptions['approve'] = ({ binding, input }) => {
      asked.push(binding);
      return (input as { id: string }).id === 'o_001' ? true : { allow: false, reason: 'not that one' };
    };
    await using(
      { token: 's3cret', approve },
      async (client) => {
        assert.equal(await client.eval("(await getOrder({ id: 'o_001' })).total"), 142.5);
        const refused = await client.eval("await getOrder({ id: 'o_2' })").catch((error: RemoteError) => error);
        assert.ok(refused instanceof RemoteError && refused.kind === 'PermissionDenied');
        assert.match(refused.message, /not that one/);
        assert.deepEqual(asked, ['getOrder', 'getOrder']);
      },
      guarded.url,
    );
  } finally {
    await guarded.kill();
  }
});

test('a failed connection is an error with the URL', async () => {
  await assert.rejects(connect('ws://127.0.0.1:9/'), { kind: 'Closed', message: /127\.0\.0\.1:9/ });
});
