#!/usr/bin/env node
// scomp-conformance ws://127.0.0.1:7400 [--token TOKEN] [--only eval/]

import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

import { ANSWER_WAIT_MS } from './conformance/player.js';
import { runSuite } from './conformance/suite.js';

const USAGE = `usage: scomp-conformance URL [--token TOKEN] [--only PREFIX] [--relay] [--wait-ms MS] [--folder TRANSCRIPTS]
Plays the transcripts of the protocol against a server, which has to serve their bindings.
`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    token: { type: 'string' },
    only: { type: 'string' },
    'wait-ms': { type: 'string' },
    folder: { type: 'string' },
    relay: { type: 'boolean' },
  },
});
const [url, ...others] = positionals;
const answerWaitMs = Number(values['wait-ms'] ?? ANSWER_WAIT_MS);
if (url === undefined || others.length > 0 || !(answerWaitMs > 0)) {
  process.stderr.write(USAGE);
  process.exit(2);
}

const { token, only, relay } = values;
const folder = values.folder ?? fileURLToPath(new URL('../transcripts', import.meta.url));
const counts = { passed: 0, failed: 0, skipped: 0 };
for await (const { name, result, reason } of runSuite({ url, folder, token, only, answerWaitMs, relay })) {
  counts[result] += 1;
  const mark = { passed: 'ok    ', failed: 'FAILED', skipped: 'skip  ' }[result];
  process.stdout.write(`${mark} ${name}${reason === undefined ? '' : `: ${reason}`}\n`);
}
process.stdout.write(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped\n`);
process.exit(counts.failed > 0 || counts.passed === 0 ? 1 : 0);
