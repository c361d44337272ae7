// The parts that need no page.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { niceMax } from '../src/charts.js';
import { signature } from '../src/completion.js';
import { ago } from '../src/moments.js';
import { parseMetrics, pointBetween, quantile } from '../src/metrics.js';
import { charsOf, positionIn } from '../src/position.js';
import { resolved, typeText } from '../src/schema.js';
import { masked, summaryOf, transcriptOf } from '../src/transcript.js';
import { preview } from '../src/tree.js';

test('a schema reads as a type', () => {
  const schema = {
    type: 'object',
    required: ['id', 'visit'],
    properties: {
      id: { type: 'string' },
      tags: { type: 'array', items: { enum: ['a', 'b'] } },
      at: { type: ['integer', 'null'] },
      visit: { type: 'object', required: ['$fn'] },
      to: { $ref: '#/$defs/Place' },
      any: {},
    },
    $defs: { Place: { type: 'object', properties: { x: { type: 'number' } } } },
  };
  assert.equal(
    typeText(schema),
    '{ id: string; tags?: "a" | "b"[]; at?: number | null; visit: Function; to?: Place; any?: unknown }',
  );
  assert.deepEqual(resolved({ $ref: '#/$defs/Place' }, schema), schema.$defs.Place);
  assert.deepEqual(resolved({ $ref: '#/$defs/None' }, schema), {});
  assert.equal(signature({ name: 'f' }), 'f(input?: unknown): Promise<unknown>');
});

test('a place is found in the stack of its own run, and bytes become characters', () => {
  const stack = '    at g (run-1.ts:9:9)\n    at <eval> (run-12.ts:3:7)';
  assert.deepEqual(positionIn(stack, 'run-12.ts'), { line: 3, column: 7 });
  assert.deepEqual(positionIn(stack, 'run-1.ts'), { line: 9, column: 9 });
  assert.equal(positionIn(stack, 'run-2.ts'), undefined);
  assert.equal(positionIn(undefined, 'run-2.ts'), undefined);
  assert.equal(charsOf('äö😀x', 8), 4);
});

test('a copied transcript has no token in it', () => {
  const answer = '{"jsonrpc":"2.0","id":1,"result":{"metadata":{"session":{"token":"abc"}}}}';
  const text = transcriptOf([
    { direction: 'out', text: '{"params":{"session":{"token":"old"}}}' },
    { direction: 'in', text: answer },
  ]);
  assert.equal(
    text,
    [
      '# Copied from the web console.',
      '>> {"params":{"session":{"token":"${token}"}}}',
      '<< {"jsonrpc":"2.0","id":1,"result":{"metadata":{"session":{"token":"${token}"}}}}',
      '',
    ].join('\n'),
  );
  assert.ok(!masked(answer).includes('abc'));
});

test('a frame says in a line what it is about', () => {
  const of = (frame: unknown) => summaryOf(JSON.stringify(frame));
  assert.deepEqual(of({ id: 2, method: 'eval', params: { code: 'a\n  b' } }), { what: '#2 eval a b', isError: false });
  assert.deepEqual(of({ method: 'release_ref', params: { ref: 'f1' } }), { what: 'release_ref f1', isError: false });
  assert.deepEqual(of({ id: 2, error: { message: 'no' } }), { what: '#2 error no', isError: true });
  assert.deepEqual(summaryOf('{'), { what: 'not JSON', isError: true });
});

test('points come from the difference of two scrapes, and a restart has no negative rate', () => {
  const look = (ok: number, fast: number, all: number) =>
    parseMetrics(
      [
        '# HELP x',
        `scomp_evals_total{outcome="ok"} ${ok}`,
        'scomp_evals_total{outcome="Timeout"} 1',
        `scomp_eval_duration_seconds_bucket{le="0.001"} ${fast}`,
        `scomp_eval_duration_seconds_bucket{le="0.002"} ${all}`,
        `scomp_eval_duration_seconds_bucket{le="+Inf"} ${all}`,
        'scomp_memory_bytes 1000',
      ].join('\n'),
    );
  const point = pointBetween(look(10, 0, 0), look(30, 10, 20), 2);
  assert.ok(Math.abs((point.p95 ?? 0) - 1.9) < 1e-9);
  assert.deepEqual({ ...point, p95: undefined }, { evalsPerSecond: 10, p50: 1, p95: undefined, memoryBytes: 1000 });
  assert.equal(pointBetween(look(30, 10, 20), look(4, 0, 0), 1).evalsPerSecond, 5);
  assert.equal(pointBetween(look(1, 1, 1), look(1, 1, 1), 1).p50, undefined);
  assert.equal(
    quantile(
      [
        { upToSeconds: 1, count: 0 },
        { upToSeconds: Infinity, count: 5 },
      ],
      0.5,
    ),
    1000,
  );
});

test('an axis ends at a round number', () => {
  assert.deepEqual(
    [0, 0.3, 1, 9.5, 11, 480].map((value) => niceMax(value)),
    [1, 0.5, 1, 10, 20, 500],
  );
  assert.equal(niceMax(40 << 20, 2), 64 << 20);
});

test('a value fits in a line', () => {
  assert.equal(preview({ a: [1], b: {}, c: 1n, d: 'x' }), '{a: […], b: {}, c: 1n, d: "x"}');
  assert.equal(preview(new Map([[1, 2]])), 'Map(1)');
  assert.equal(preview(new Uint8Array([1, 255])), 'Uint8Array(2) 01 ff');
  assert.equal(preview(-0), '-0');
  assert.equal(preview('x'.repeat(200)).length, 81);
});

test('an age is shown in one unit', () => {
  assert.deepEqual([5, 1500, 119_000, 7_200_000].map(ago), ['5 ms ago', '1 s ago', '1 min ago', '2 h ago']);
});
