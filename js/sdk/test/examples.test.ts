// The example harnesses print what their headers say.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { TestServer } from './support/server.js';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const run = promisify(execFile);

let server: TestServer;
before(async () => {
  server = await TestServer.start({ bindings: join(root, 'bindings') });
});
after(() => server.kill());

/** The lines of the leading comment that show the output. */
function promised(file: string): string {
  const lines = readFileSync(file, 'utf8')
    .split('\n')
    .map((line) => /^(?:\/\/|#) ((?:attempt|notified).*)$/.exec(line)?.[1]);
  return lines.filter((line) => line !== undefined).join('\n');
}

async function check(file: string, command: string, args: string[]): Promise<void> {
  const path = join(root, 'examples', file);
  const { stdout } = await run(command, [...args, path, server.url]);
  assert.equal(stdout.trim(), promised(path));
}

test('harness.ts', () => check('harness.ts', process.execPath, ['--import', 'tsx']));

// `SCOMP_PYTHON` is a Python that has `websockets` and the Python client; the test script makes one.
const python = process.env['SCOMP_PYTHON'];
test('harness.py', { skip: python === undefined && 'SCOMP_PYTHON names no Python with websockets' }, () =>
  check('harness.py', python ?? '', []),
);
