// The queue of evals over peers that come and go, without a socket.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ConnectionError, SessionLostError } from '../src/errors.js';
import { EVALS_IN_FLIGHT_MAX, EVALS_WAITING_MAX, Evals } from '../src/evals.js';
import { Peer } from '../src/peer.js';

interface Sent {
  id: number;
  method: string;
  params: { code: string; key?: string; input?: unknown };
}

function scripted() {
  const sent: Sent[] = [];
  const peer = new Peer((text) => sent.push(JSON.parse(text) as Sent), new Map());
  const answer = (index: number, value: unknown) =>
    peer.onText(JSON.stringify({ jsonrpc: '2.0', id: sent[index]?.id, result: { value } }));
  return { peer, sent, answer };
}

const lost = () => new ConnectionError('ConnectionLost', 'cut', 1006);
const keys = () => {
  let made = 0;
  return () => `k${(made += 1)}`;
};
const codes = (sent: Sent[]) => sent.map(({ params }) => params.code);
const settled = () => new Promise((resolve) => setImmediate(resolve));

/** Cuts a connection as a client sees it: everything on it fails, then the client is notified. */
async function cut(evals: Evals, peer: Peer): Promise<void> {
  peer.end(lost());
  await settled();
  evals.detach(lost());
}

test('after a break what was sent goes first, under the same keys and in order', async () => {
  const evals = new Evals(keys());
  const first = scripted();
  evals.attach(first.peer);
  const outcomes = ['a', 'b'].map((code) => evals.run(code, {}));
  await cut(evals, first.peer);
  outcomes.push(evals.run('c', {}));
  const second = scripted();
  evals.attach(second.peer);
  assert.deepEqual(codes(second.sent), ['a', 'b', 'c']);
  assert.deepEqual(
    second.sent.map(({ params }) => params.key),
    ['k1', 'k2', 'k3'],
  );
  [0, 1, 2].forEach((index) => second.answer(index, index));
  assert.deepEqual(
    (await Promise.all(outcomes)).map(({ value }) => value),
    [0, 1, 2],
  );
});

test('an eval asked for on a connection that is over, before that is known, waits for the next', async () => {
  const evals = new Evals(keys());
  const first = scripted();
  evals.attach(first.peer);
  first.peer.end(lost());
  const outcome = evals.run('late', {});
  evals.detach(lost());
  const second = scripted();
  evals.attach(second.peer);
  second.answer(0, 7);
  assert.equal((await outcome).value, 7);
});

test('without keys an eval that was sent fails with its connection, and one that was not waits', async () => {
  const evals = new Evals(undefined);
  const first = scripted();
  evals.attach(first.peer);
  const sent = evals.run('sent', {});
  sent.catch(() => undefined);
  await cut(evals, first.peer);
  const waiting = evals.run('waiting', {});
  await assert.rejects(sent, { kind: 'ConnectionLost' });
  const second = scripted();
  evals.attach(second.peer);
  assert.deepEqual(codes(second.sent), ['waiting']);
  second.answer(0, 1);
  assert.equal((await waiting).value, 1);
});

test('an eval aborted without a connection is cancelled on the next, and one never sent is not sent', async () => {
  const evals = new Evals(keys());
  const first = scripted();
  evals.attach(first.peer);
  const [sentAbort, waitingAbort] = [new AbortController(), new AbortController()];
  const sent = evals.run('sent', { signal: sentAbort.signal });
  sent.catch(() => undefined);
  await cut(evals, first.peer);
  const waiting = evals.run('waiting', { signal: waitingAbort.signal });
  waiting.catch(() => undefined);
  sentAbort.abort();
  waitingAbort.abort();
  await assert.rejects(sent, { name: 'AbortError' });
  await assert.rejects(waiting, { name: 'AbortError' });
  const second = scripted();
  evals.attach(second.peer);
  await settled();
  assert.deepEqual(
    second.sent.map(({ method }) => method),
    ['eval', 'invoke'],
  );
  assert.deepEqual(second.sent[1]?.params.input, { evalId: second.sent[0]?.id });
});

test('as many evals as the limit are with the server, and an answer lets the next one out', async () => {
  const evals = new Evals(keys());
  const { peer, sent, answer } = scripted();
  evals.attach(peer);
  const outcomes = Array.from({ length: EVALS_IN_FLIGHT_MAX + 1 }, (_, index) => evals.run(String(index), {}));
  assert.equal(sent.length, EVALS_IN_FLIGHT_MAX);
  answer(0, 'first');
  assert.equal((await outcomes[0])?.value, 'first');
  assert.equal(sent.length, EVALS_IN_FLIGHT_MAX + 1);
});

test('evals at the limit wait, one more is refused, and a lost session fails them all', async () => {
  const evals = new Evals(keys());
  const outcomes = Array.from({ length: EVALS_WAITING_MAX }, () => evals.run('1', {}));
  for (const outcome of outcomes) outcome.catch(() => undefined);
  await assert.rejects(evals.run('1', {}), { kind: 'QueueFull' });
  evals.failAll(new SessionLostError());
  const failures = await Promise.allSettled(outcomes);
  assert.ok(
    failures.every((one) => one.status === 'rejected' && (one.reason as SessionLostError).kind === 'SessionLost'),
  );
});
