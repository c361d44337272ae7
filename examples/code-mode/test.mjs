import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { measure, table } from './run.mjs';

test('both ways do the same, and README.md has what was measured', async () => {
  const rows = await measure();
  assert.equal(rows[0].sent, rows[1].sent);
  assert.ok(rows[0].sent > 0);
  const readme = readFileSync(new URL('README.md', import.meta.url), 'utf8');
  assert.ok(readme.includes(table(rows)), `README.md does not have\n${table(rows)}`);
});
