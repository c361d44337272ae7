// Connections that are cut, swallowed, refused, and a server that dies: every eval runs once or says that it did not.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, test } from 'node:test';

import { CALLS_WAITING_MAX } from '../src/client.js';
import { connect } from '../src/index.js';
import type { Client, ClientState, ConnectOptions } from '../src/index.js';
import { CutPoint, TestServer } from './support/server.js';

const QUICK = { initialMs: 5, maxMs: 40, attempts: 200 };

let server: TestServer;
before(async () => {
  server = await TestServer.start();
});
after(() => server.kill());

async function behindCutPoint(
  act: (client: Client, point: CutPoint, events: boolean[]) => Promise<void>,
  options: ConnectOptions = {},
): Promise<void> {
  const point = await CutPoint.before(server);
  const events: boolean[] = [];
  const client = await connect(point.url, {
    reconnect: QUICK,
    onReconnect: ({ resumed }) => events.push(resumed),
    ...options,
  });
  try {
    await act(client, point, events);
  } finally {
    await client.close();
    point.close();
  }
}

const slow = (ms: number, result: string) => `await new Promise(r => setTimeout(r, ${ms})); ${result}`;
const reported = () => {
  let report = () => {};
  const happened = new Promise<void>((resolve) => (report = resolve));
  return { report: () => report(), happened };
};

test('an eval that runs while the connection is cut is answered after it, and ran once', async () => {
  const { report, happened } = reported();
  await behindCutPoint(
    async (client, point, events) => {
      await client.eval('globalThis.starts = 0');
      const running = client.eval(`starts++; begun().catch(() => 0); ${slow(100, 'starts')}`);
      await happened;
      point.cut();
      assert.equal(await running, 1);
      assert.deepEqual(events, [true]);
      assert.equal(await client.eval('starts'), 1);
    },
    { bindings: { begun: report } },
  );
});

test('an answer that was lost on its way is asked for again, not run again', () =>
  behindCutPoint(async (client, point) => {
    await client.eval('globalThis.runs = 0');
    const swallowed = point.swallowAnswers();
    const answered = client.eval('++runs');
    await swallowed;
    point.cut();
    assert.equal(await answered, 1);
    assert.equal(await client.eval('runs'), 1);
  }));

test('evals in a storm of cuts each run once, in order', () =>
  behindCutPoint(async (client, point) => {
    await client.eval('globalThis.log = []');
    const storm = setInterval(() => point.cut(), 25);
    const indexes = Array.from({ length: 300 }, (_, index) => index);
    const answers = await Promise.all(indexes.map((index) => client.eval(`log.push(${index})`)));
    clearInterval(storm);
    assert.deepEqual(
      answers,
      indexes.map((index) => index + 1),
    );
    assert.deepEqual(await client.eval('log'), indexes);
  }));

test('requests without a connection wait for it', async () => {
  const { report, happened } = reported();
  const onState = (state: ClientState) => state === 'reconnecting' && report();
  await behindCutPoint(
    async (client, point) => {
      await client.eval('globalThis.x = 20');
      point.refuse();
      await happened;
      const [value, order] = [client.eval('x + 1'), client.invoke('getOrder', { id: 'o_001' })];
      const abort = new AbortController();
      const aborted = client.eval('x = 0', { signal: abort.signal });
      abort.abort(new Error('changed my mind'));
      await assert.rejects(aborted, /changed my mind/);
      point.accept();
      assert.equal(await value, 21);
      assert.deepEqual(await order, { id: 'o_001', total: 142.5 });
      assert.equal(await client.eval('x'), 20);
    },
    { onState },
  );
});

test('calls at the limit wait for the connection, one more is refused', async () => {
  const { report, happened } = reported();
  const onState = (state: ClientState) => state === 'reconnecting' && report();
  await behindCutPoint(
    async (client, point) => {
      await client.eval('1');
      point.refuse();
      await happened;
      const calls = Array.from({ length: CALLS_WAITING_MAX }, () => client.invoke('session.info'));
      for (const call of calls) call.catch(() => undefined);
      await assert.rejects(client.invoke('session.info'), { kind: 'Busy' });
      point.accept();
      assert.ok((await calls.at(-1)) !== undefined);
    },
    { onState },
  );
});

test('an eval aborted without a connection is cancelled on reconnect', async () => {
  const { report, happened } = reported();
  await behindCutPoint(
    async (client, point) => {
      const abort = new AbortController();
      const running = client.eval('await begun(); await forever()', { signal: abort.signal });
      running.catch(() => undefined);
      await happened;
      point.refuse();
      abort.abort();
      point.accept();
      await assert.rejects(running, { name: 'AbortError' });
      // The queue behind it moves on long before its own time limit.
      assert.equal(await client.eval('1 + 1'), 2);
    },
    { bindings: { begun: report } },
  );
});

test('a call and a reference in flight fail when the connection is lost', () =>
  behindCutPoint(async (client, point) => {
    const fn = await client.eval<() => Promise<number>>('() => 1');
    const lost = client.invoke('forever');
    point.cut();
    await assert.rejects(lost, { kind: 'ConnectionLost' });
    assert.equal(await client.eval('2'), 2);
    await assert.rejects(fn(), { kind: 'ConnectionLost' });
  }));

test('bindings of the client are there again after a cut', () =>
  behindCutPoint(
    async (client, point) => {
      await client.eval('globalThis.x = 1');
      point.cut();
      assert.equal(await client.eval('await ask()'), 'yes');
    },
    { bindings: { ask: () => 'yes' } },
  ));

test('a connection that fell silent is given up and replaced', () =>
  behindCutPoint(
    async (client, point, events) => {
      await client.eval('globalThis.x = 7');
      void point.swallowAnswers();
      assert.equal(await client.eval('x'), 7);
      assert.deepEqual(events, [true]);
    },
    { heartbeatMs: 50 },
  ));

test('a client leaves a server that has fallen silent', async () => {
  const point = await CutPoint.before(server);
  const client = await connect(point.url);
  void point.swallowAnswers();
  await client.close();
  assert.equal(client.connectionState, 'closed');
  point.close();
});

test('a server that died takes the session along, and says so', async () => {
  const mortal = await TestServer.start();
  const events: boolean[] = [];
  const client = await connect(mortal.url, { reconnect: QUICK, onReconnect: ({ resumed }) => events.push(resumed) });
  await client.eval('globalThis.x = 1');
  const running = client.eval('await forever()');
  running.catch(() => undefined);
  await mortal.kill();
  const waiting = client.eval('x');
  waiting.catch(() => undefined);
  const next = await TestServer.start({ listen: mortal.address });
  try {
    await assert.rejects(running, { kind: 'SessionLost' });
    await assert.rejects(waiting, { kind: 'SessionLost' });
    assert.deepEqual(events, [false]);
    assert.equal(await client.eval('typeof x'), 'undefined');
  } finally {
    await client.close();
    await next.kill();
  }
});

test('without onReconnect the first eval after a lost session says so, once', async () => {
  const mortal = await TestServer.start();
  const { report, happened } = reported();
  let connections = 0;
  const onState = (state: ClientState) => {
    if (state === 'connected') connections += 1;
    if (connections === 2) report();
  };
  const client = await connect(mortal.url, { reconnect: QUICK, onState });
  await client.eval('globalThis.x = 1');
  await mortal.kill();
  const next = await TestServer.start({ listen: mortal.address });
  try {
    await happened;
    await assert.rejects(client.eval('x'), { kind: 'SessionLost' });
    assert.equal(await client.eval('typeof x'), 'undefined');
  } finally {
    await client.close();
    await next.kill();
  }
});

test('lines that a broken connection missed come with the outcome', async () => {
  const mine: string[] = [];
  const { report, happened } = reported();
  await behindCutPoint(
    async (client, point) => {
      const onConsole = ({ text }: { text: string }) => {
        mine.push(text);
        if (text === 'before') report();
      };
      const code = `console.log('before'); ${slow(100, "console.log('between'); await ask(); console.log('after')")}`;
      const running = client.eval(`${code}; 1`, { onConsole });
      await happened;
      point.refuse();
      setTimeout(() => point.accept(), 200);
      assert.equal(await running.catch((error: { kind: string }) => error.kind), 'EvalError');
      assert.deepEqual(mine, ['before', 'between']);
    },
    { bindings: { ask: () => 1 } },
  );
});

test('a token that is refused on reconnect ends the client', async () => {
  const tokens = (token: string) =>
    `[[auth.tokens]]\nprincipal = "ci"\nsha256 = "${createHash('sha256').update(token).digest('hex')}"\n`;
  const mortal = await TestServer.start({ settings: tokens('old') });
  const client = await connect(mortal.url, { reconnect: QUICK, token: 'old' });
  await client.eval('1');
  await mortal.kill();
  const next = await TestServer.start({ listen: mortal.address, settings: tokens('new') });
  try {
    await assert.rejects(client.eval('1'), { kind: 'Unauthorized' });
    assert.equal(client.connectionState, 'closed');
  } finally {
    await next.kill();
  }
});

test('without reconnect the client ends with its connection', async () => {
  const point = await CutPoint.before(server);
  const client = await connect(point.url, { reconnect: false });
  const running = client.eval('await forever()');
  running.catch(() => undefined);
  point.cut();
  await assert.rejects(running, { kind: 'Closed' });
  assert.equal((await client.closed).code, 1006);
  point.close();
});

test('attempts that are used up end the client', async () => {
  const point = await CutPoint.before(server);
  const client = await connect(point.url, { reconnect: { initialMs: 1, maxMs: 2, attempts: 3 } });
  point.refuse();
  await assert.rejects(client.eval('1'), { kind: 'Closed' });
  assert.equal(client.connectionState, 'closed');
  point.close();
});

test('a session taken over elsewhere is not fought for', async () => {
  const client = await connect(server.url, { reconnect: QUICK });
  await client.eval('1');
  const thief = await connect(server.url, { session: client.session });
  assert.equal((await client.closed).code, 4001);
  assert.equal(await thief.eval('2'), 2);
  await thief.close();
});
