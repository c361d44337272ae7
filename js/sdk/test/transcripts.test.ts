// The same transcripts as the Rust suite: once over a bare socket, and once with each eval made through the library.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { RemoteError, connect } from '../src/index.js';
import type { Client } from '../src/index.js';
import { encode } from '../src/values.js';
import { difference } from '../src/conformance/pattern.js';
import type { Memory } from '../src/conformance/pattern.js';
import { Player, lenient } from '../src/conformance/player.js';
import { parse, settingsFile, settingsOf } from '../src/conformance/script.js';
import type { Step } from '../src/conformance/script.js';
import { TestServer, transcripts } from './support/server.js';

// They call `relay`, with which a handler calls a binding of the client: an executable cannot.
const NEED_RUST_HANDLERS = new Set([
  'invoke/worked_example.txt',
  'invoke/errors_pass_through.txt',
  'values/malformed_answers.txt',
]);

const files = readdirSync(transcripts, { encoding: 'utf8', recursive: true })
  .filter((name) => name.endsWith('.txt') && !NEED_RUST_HANDLERS.has(name))
  .sort();

function steps(name: string): Step[] {
  const text = readFileSync(join(transcripts, name), 'utf8');
  // The suite's own server has a name of its own.
  return parse(text.replaceAll('"orders-scomp"', '"scomp-serve"'));
}

let shared: TestServer;
before(async () => {
  shared = await TestServer.start();
});
after(() => shared.kill());

for (const name of files) {
  test(`the server says what ${name} says`, async () => {
    const settings = settingsFile(settingsOf(steps(name)));
    const own = settings === '' ? undefined : await TestServer.start({ settings });
    try {
      await new Player((own ?? shared).url, steps(name)).play();
    } finally {
      await own?.kill();
    }
  });
}

/** A transcript that is nothing but evals can be played by any client. */
const evalsOnly = files.filter((name) => {
  const all = steps(name);
  return (
    settingsFile(settingsOf(all)) === '' &&
    all.every(({ word, rest }) => word.startsWith('js') || (word === '#!' && rest === 'live'))
  );
});

test('there are transcripts of evals alone', () => assert.ok(evalsOnly.length >= 10, evalsOnly.join()));

for (const name of evalsOnly) {
  test(`the library gets from the server what ${name} says`, async () => {
    const client = await connect(shared.url);
    try {
      await playEvals(client, steps(name));
    } finally {
      await client.close();
    }
  });
}

async function playEvals(client: Client, all: Step[]): Promise<void> {
  const outcomes: { line: number; outcome: Promise<unknown> }[] = [];
  const memory: Memory = new Map();
  for (const { word, rest, line } of all) {
    if (word === 'js>') {
      const outcome = client.eval(rest);
      outcome.catch(() => undefined);
      outcomes.push({ line, outcome });
      continue;
    }
    const next = outcomes.shift();
    if (next === undefined) continue;
    const expected = JSON.parse(word === 'js<' ? rest : lenient(rest)) as unknown;
    const got = await next.outcome.then(
      (value) => ({ word: 'js<', form: withoutFunctions(value) }),
      (error: RemoteError) => ({ word: 'js!', form: { code: error.code, message: error.message, data: error.data } }),
    );
    assert.equal(got.word, word, `line ${line}: ${JSON.stringify(got.form)}`);
    assert.equal(difference(functionsLoose(expected), got.form, memory), undefined, `line ${line}`);
  }
}

/** What was decoded, encoded again: both codecs must agree with the server's. */
function withoutFunctions(value: unknown): unknown {
  return encode(value, (fn) => ({ $fn: 'any', name: fn.name }));
}

/** Ids of references are the connection's own; only that there is a function is the transcript's business here. */
function functionsLoose(expected: unknown): unknown {
  if (Array.isArray(expected)) return expected.map(functionsLoose);
  if (typeof expected !== 'object' || expected === null) return expected;
  if ('$fn' in expected && typeof expected.$fn === 'string' && '...' in expected) return { $fn: '*', '...': '*' };
  if ('$fn' in expected && typeof expected.$fn === 'string' && 'name' in expected) return { ...expected, $fn: '*' };
  return Object.fromEntries(Object.entries(expected).map(([key, value]) => [key, functionsLoose(value)]));
}
