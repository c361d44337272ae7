// Messages, the peer and its limits, without a socket.

import assert from 'node:assert/strict';
import { mock, test } from 'node:test';

import { callHook } from '../src/hooks.js';
import { Peer } from '../src/peer.js';
import type { PeerHandler } from '../src/peer.js';
import { INVOKES_QUEUED_MAX, INVOKES_RUNNING_MAX } from '../src/calls.js';
import { INVOKES_IN_FLIGHT_MAX, INVOKES_WAITING_MAX, MESSAGE_CHARS_MAX, REQUESTS_WAITING_MAX } from '../src/peer.js';
import { REFERENCES_MAX } from '../src/references.js';
import { isUnexpected, waitMs } from '../src/reconnect.js';
import { decode } from '../src/rpc.js';
import { subprotocols } from '../src/socket.js';

function scripted(handlers: Record<string, PeerHandler> = {}) {
  const sent: Record<string, unknown>[] = [];
  const peer = new Peer(
    (text) => sent.push(JSON.parse(text) as Record<string, unknown>),
    new Map(Object.entries(handlers)),
  );
  return {
    peer,
    sent,
    receive: (message: unknown) => peer.onText(JSON.stringify({ jsonrpc: '2.0', ...(message as object) })),
  };
}
const settled = () => new Promise((resolve) => setImmediate(resolve));

test('a frame is what it is, or unreadable', () => {
  const type = (frame: unknown) => decode(typeof frame === 'string' ? frame : JSON.stringify(frame)).type;
  const v = { jsonrpc: '2.0' };
  assert.equal(type({ ...v, id: 1, method: 'invoke' }), 'request');
  assert.equal(type({ ...v, method: 'release_ref' }), 'notification');
  assert.equal(type({ ...v, id: 1, result: null }), 'success');
  assert.equal(type({ ...v, id: 1, error: { code: 1, message: 'm' } }), 'failure');
  assert.equal(type({ ...v, id: null, error: { code: 1, message: 'm' } }), 'complaint');
  for (const bad of [
    '{',
    '[]',
    'null',
    { id: 1, result: 1 },
    { ...v, id: 1 },
    { ...v, id: 1, result: 1, error: { code: 1, message: 'm' } },
    { ...v, id: 1.5, result: 1 },
    { ...v, id: null, method: 'x' },
    { ...v, id: 1, error: 'no' },
  ]) {
    assert.equal(type(bad), 'unreadable', JSON.stringify(bad));
  }
});

test('unexpected answers are dropped, and an error without id is never answered', async () => {
  const { peer, sent, receive } = scripted();
  const { id, answer } = peer.request('eval', {});
  receive({ id: 7, result: {} });
  receive({ id: String(id), result: {} });
  receive({ id: null, error: { code: -32700, message: 'what?' } });
  peer.onText('no JSON');
  receive({ id, result: 5 });
  receive({ id, result: 6 });
  assert.equal(await answer, 5);
  assert.equal(sent.length, 1);
});

test('what the server may not ask is refused by kind', async () => {
  const { sent, receive } = scripted({ known: () => 1 });
  const kinds = ['UnknownMethod', 'UnknownBinding', 'UnknownRef', 'InvalidParams', 'InvalidParams'];
  const params = [
    undefined,
    { binding: 'none', input: 1 },
    { ref: 'c9', args: [] },
    { binding: 'known', input: { $bigint: 'x' } },
    {},
  ];
  params.forEach((one, index) => receive({ id: index, method: index === 0 ? 'eval' : 'invoke', params: one }));
  await settled();
  const byId = [...sent].sort((a, b) => (a['id'] as number) - (b['id'] as number));
  assert.deepStrictEqual(
    byId.map(({ error }) => (error as { data: { kind: string } }).data.kind),
    kinds,
  );
});

test('a handler that throws keeps its code and data; without them it is a BindingError', async () => {
  const own = Object.assign(new Error('no such order'), { code: -7, data: { order: 1 } });
  const { sent, receive } = scripted({
    own: () => Promise.reject(own),
    plain: () => {
      throw new Error('oops');
    },
  });
  receive({ id: 1, method: 'invoke', params: { binding: 'own', input: 1 } });
  await settled();
  receive({ id: 2, method: 'invoke', params: { binding: 'plain', input: 1 } });
  await settled();
  assert.deepStrictEqual(
    sent.map(({ error }) => error),
    [
      { code: -7, message: 'no such order', data: { order: 1 } },
      { code: -32000, message: 'oops', data: { kind: 'BindingError' } },
    ],
  );
});

/** Handlers that wait until they are released, in the order in which they started. */
function gate() {
  const started: { input: unknown; signal: AbortSignal; finish: (value?: unknown) => void }[] = [];
  const handler: PeerHandler = (input, signal) =>
    new Promise((finish) => started.push({ input, signal, finish: (value = null) => finish(value) }));
  return { started, handler };
}
const call = (id: number | string, binding: string) => ({ id, method: 'invoke', params: { binding, input: id } });

test('handlers at the limit run, further calls wait in order, and console lines do not', async () => {
  const { started, handler } = gate();
  const lines: unknown[] = [];
  const { sent, receive } = scripted({ wait: handler, 'console.write': (line) => void lines.push(line) });
  for (let id = 0; id < INVOKES_RUNNING_MAX + 2; id += 1) receive(call(id, 'wait'));
  receive(call('line', 'console.write'));
  await settled();
  assert.equal(started.length, INVOKES_RUNNING_MAX);
  assert.deepStrictEqual(lines, ['line']);
  started[5]?.finish();
  await settled();
  assert.equal(started.at(-1)?.input, INVOKES_RUNNING_MAX);
  for (const one of started) one.finish();
  await settled();
  started.at(-1)?.finish();
  await settled();
  assert.equal(sent.length, INVOKES_RUNNING_MAX + 3);
  assert.ok(sent.every(({ error }) => error === undefined));
});

test('handlers that wait for the server lend their places to the calls they may wait for', async () => {
  const { started, handler } = gate();
  const { peer, receive } = scripted({
    nest: (input) => peer.invoke({ binding: 'back' }, [input]),
    wait: handler,
  });
  for (let id = 0; id < INVOKES_RUNNING_MAX; id += 1) receive(call(id, 'nest'));
  for (let id = 0; id < 10; id += 1) receive(call(`nested ${id}`, 'wait'));
  await settled();
  assert.equal(started.length, 10);
});

test('calls that wait at the limit are kept, one more is Busy', () => {
  const { sent, receive } = scripted({ wait: () => new Promise(() => undefined) });
  for (let id = 0; id < INVOKES_RUNNING_MAX + INVOKES_QUEUED_MAX; id += 1) receive(call(id, 'wait'));
  assert.equal(sent.length, 0);
  receive(call('more', 'wait'));
  assert.equal((sent[0]?.['error'] as { data: { kind: string } }).data.kind, 'Busy');
});

test('a cancelled call aborts its signal, is not answered, and does not begin if it waits', async () => {
  const { started, handler } = gate();
  const { peer, sent, receive } = scripted({ wait: handler });
  for (let id = 0; id < INVOKES_RUNNING_MAX + 1; id += 1) receive(call(id, 'wait'));
  receive({ method: 'cancel_invoke', params: { id: 3 } });
  receive({ method: 'cancel_invoke', params: { id: INVOKES_RUNNING_MAX } });
  receive({ method: 'cancel_invoke', params: { id: 'unknown' } });
  receive({ method: 'cancel_invoke' });
  assert.deepStrictEqual(
    started.filter(({ signal }) => signal.aborted).map(({ input }) => input),
    [3],
  );
  started[3]?.finish(() => 'a function that would never be released');
  await settled();
  assert.equal(started.length, INVOKES_RUNNING_MAX);
  assert.deepStrictEqual([sent.length, peer.exports.size], [0, 0]);
  peer.end(new Error('gone'));
  assert.ok(started.every(({ signal }) => signal.aborted));
});

test('calls past the window go out as answers come, in order, and past the limit are Busy', async () => {
  const { peer, sent, receive } = scripted();
  const invoke = (n: number) => peer.invoke({ binding: 'b' }, [n]);
  const answers = Array.from({ length: INVOKES_IN_FLIGHT_MAX + INVOKES_WAITING_MAX }, (_, n) => invoke(n));
  assert.equal(sent.length, INVOKES_IN_FLIGHT_MAX);
  await assert.rejects(invoke(-1), { kind: 'Busy' });
  const info = peer.control('session.info', {});
  assert.equal(sent.length, INVOKES_IN_FLIGHT_MAX + 1, 'a ping does not wait');
  for (let next = 0; next < sent.length; next += 1) {
    const { id, params } = sent[next] as { id: number; params: { input: unknown } };
    receive({ id, result: { value: params.input } });
  }
  assert.deepStrictEqual(
    await Promise.all(answers),
    answers.map((_, n) => n),
  );
  assert.deepStrictEqual(await info, {});
});

test('requests at the limit wait, one more is refused here', () => {
  const { peer } = scripted();
  for (let i = 0; i < REQUESTS_WAITING_MAX; i += 1) peer.request('eval', {}).answer.catch(() => undefined);
  assert.throws(() => peer.request('eval', {}), { kind: 'Busy' });
});

test('a message at the limit is sent, a longer one is refused here, and so is a longer answer', async () => {
  const { peer, sent, receive } = scripted({ long: () => 'x'.repeat(MESSAGE_CHARS_MAX) });
  const around = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eval', params: '' }).length;
  peer.request('eval', 'x'.repeat(MESSAGE_CHARS_MAX - around)).answer.catch(() => undefined);
  assert.throws(() => peer.request('eval', 'x'.repeat(MESSAGE_CHARS_MAX - around + 1)), { kind: 'TooLong' });
  assert.equal(sent.length, 1);
  await assert.rejects(peer.invoke({ binding: 'b' }, [{ fn: () => 1, long: 'x'.repeat(MESSAGE_CHARS_MAX) }]), {
    kind: 'TooLong',
  });
  assert.equal(peer.exports.size, 0);
  receive({ id: 1, method: 'invoke', params: { binding: 'long', input: 1 } });
  await settled();
  assert.equal((sent[1]?.['error'] as { data: { kind: string } }).data.kind, 'ResultTooLarge');
});

test('a function keeps its id while it is held, and a value that fails to encode counts nothing', () => {
  const { peer } = scripted();
  const fn = () => 1;
  const name = () => peer.exports.sending((exported) => exported(fn).$fn);
  assert.deepStrictEqual([name(), name()], ['c1', 'c1']);
  assert.throws(
    () =>
      peer.exports.sending((exported) => {
        exported(fn);
        throw new Error('later');
      }),
    /later/,
  );
  peer.exports.release('c1', 1);
  assert.equal(peer.exports.get('c1'), fn);
  peer.exports.release('c1', 5);
  assert.equal(peer.exports.get('c1'), undefined);
  assert.equal(name(), 'c2');
});

test('functions at the limit are named, one more is refused', () => {
  const { peer } = scripted();
  const send = () => peer.exports.sending((exported) => exported(() => 1));
  for (let i = 0; i < REFERENCES_MAX; i += 1) send();
  assert.throws(send, { kind: 'TooManyRefs' });
});

test('the end of a connection rejects all waiters, and nothing is sent after it', async () => {
  const { peer, sent } = scripted();
  const { answer } = peer.request('eval', {});
  peer.end(new Error('gone'));
  await assert.rejects(answer, /gone/);
  assert.throws(() => peer.request('eval', {}), /gone/);
  assert.equal(sent.length, 1);
});

test('the wait doubles up to its maximum, and a close on purpose is final', () => {
  const policy = { initialMs: 100, maxMs: 1000, attempts: 9 };
  assert.deepStrictEqual(
    [0, 1, 3, 4, 60].map((attempt) => waitMs(policy, attempt, 1)),
    [100, 200, 800, 1000, 1000],
  );
  assert.equal(waitMs(policy, 1, 0), 100);
  for (const code of [1000, 1002, 1003, 1008, 1009, 4001]) assert.ok(!isUnexpected(code), String(code));
  for (const code of [1001, 1005, 1006, 1011, 1012, 1013]) assert.ok(isUnexpected(code), String(code));
});

test('a token travels as a subprotocol in base64url', () => {
  assert.deepStrictEqual(subprotocols(undefined), ['scomp.v0']);
  assert.deepStrictEqual(subprotocols('ä?~'), ['scomp.v0', 'bearer.w6Q_fg']);
});

test('a hook that throws is reported outside, and the caller goes on', () => {
  const later: (() => void)[] = [];
  const queue = mock.method(globalThis, 'queueMicrotask', (task: () => void) => later.push(task));
  callHook(() => {
    throw new Error('of the hook');
  });
  queue.mock.restore();
  assert.equal(later.length, 1);
  assert.throws(() => later[0]?.(), /of the hook/);
});
