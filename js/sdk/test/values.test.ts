// Values to the wire and back.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ScompError } from '../src/errors.js';
import { VALUE_DEPTH_MAX, decode, encode } from '../src/values.js';

const noFunction = () => assert.fail('expected no function');
const wire = (value: unknown) => encode(value, noFunction);
const back = (form: unknown) => decode(form, noFunction);
const refusal = (act: () => unknown): ScompError => {
  try {
    act();
  } catch (error) {
    assert.ok(error instanceof ScompError);
    return error;
  }
  assert.fail('it was accepted');
};

test('what JSON lacks has a tag, and comes back as itself', () => {
  const cases: [unknown, unknown][] = [
    [undefined, { $undefined: true }],
    [-12n, { $bigint: '-12' }],
    [new Date(0), { $date: '1970-01-01T00:00:00.000Z' }],
    [new Uint8Array([1, 2, 255]), { $bytes: 'AQL/' }],
    [new Map([[1n, new Set(['x'])]]), { $map: [[{ $bigint: '1' }, { $set: ['x'] }]] }],
    [Number.NaN, { $number: 'NaN' }],
    [-0, { $number: '-0' }],
    [-Infinity, { $number: '-Infinity' }],
    [{ $fn: 1, a: 2 }, { $object: { $fn: 1, a: 2 } }],
    [{ $date: 'x' }, { $object: { $date: 'x' } }],
    [
      { $date: 'x', b: 1 },
      { $date: 'x', b: 1 },
    ],
    [
      [1, 'x', null, { a: [true] }],
      [1, 'x', null, { a: [true] }],
    ],
  ];
  for (const [value, form] of cases) {
    assert.deepStrictEqual(wire(value), form);
    assert.deepStrictEqual(back(form), value);
  }
});

test('views and buffers arrive as bytes, however they were cut', () => {
  const buffer = new Uint8Array([9, 1, 2, 9]).buffer;
  assert.deepStrictEqual(wire(new DataView(buffer, 1, 2)), { $bytes: 'AQI=' });
  assert.deepStrictEqual(wire(buffer.slice(1, 3)), { $bytes: 'AQI=' });
  const long = new Uint8Array(100_000).map((_, index) => index);
  assert.deepStrictEqual(back(wire(long)), long);
});

test('an error keeps its name, message, stack and cause', () => {
  const form = wire(new TypeError('bad', { cause: [1n] })) as { $error: Record<string, unknown> };
  assert.deepStrictEqual(form.$error['cause'], [{ $bigint: '1' }]);
  const error = back(form) as Error;
  assert.ok(error instanceof Error);
  assert.deepStrictEqual([error.name, error.message, error.cause], ['TypeError', 'bad', [1n]]);
});

test('undefined is left out of objects and null in arrays, toJSON is honoured', () => {
  assert.deepStrictEqual(wire({ a: undefined, b: [undefined], c: new URL('http://x/') }), {
    b: [null],
    c: 'http://x/',
  });
});

test('a key of the wire cannot reach a prototype', () => {
  const object = back(JSON.parse('{"__proto__":{"a":1}}')) as { a?: number };
  assert.equal(object.a, undefined);
  assert.ok(Object.hasOwn(object, '__proto__'));
});

test('what has no form is refused with its path', () => {
  const cycle: { a: unknown[] } = { a: [] };
  cycle.a.push(cycle);
  const cases: [unknown, string][] = [
    [cycle, '/a/0'],
    [{ 'a/b': Symbol() }, '/a~1b'],
    [[new Date(Number.NaN)], '/0'],
  ];
  for (const [value, path] of cases) {
    const { kind, data } = refusal(() => wire(value));
    assert.deepStrictEqual([kind, data], ['Unserializable', { kind: 'Unserializable', path }]);
  }
});

test('a malformed tag is refused', () => {
  for (const form of [
    { $bigint: 'x' },
    { $bigint: '' },
    { $date: 'yesterday' },
    { $bytes: '*' },
    { $map: [[1]] },
    { $set: 5 },
    { $number: '7' },
    { $error: 5 },
    { $object: 5 },
    { $undefined: false },
    { $fn: 5 },
    { a: [{ $bigint: 1 }] },
  ]) {
    assert.equal(refusal(() => back(form)).kind, 'InvalidParams', JSON.stringify(form));
  }
});

test('a value at the depth limit passes, one deeper does not', () => {
  const nested = (depth: number) => {
    let value: unknown[] = [];
    for (let i = 1; i < depth; i += 1) value = [value];
    return value;
  };
  assert.deepStrictEqual(back(wire(nested(VALUE_DEPTH_MAX))), nested(VALUE_DEPTH_MAX));
  assert.equal(refusal(() => wire(nested(VALUE_DEPTH_MAX + 1))).kind, 'Unserializable');
  assert.equal(refusal(() => back(nested(VALUE_DEPTH_MAX + 1))).kind, 'InvalidParams');
});
