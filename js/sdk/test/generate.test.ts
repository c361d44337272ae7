// What `scomp-serve types` prints becomes a module that the compiler accepts, and that catches wrong calls.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import ts from 'typescript';

import { generate } from '../src/generate.js';
import { TestServer, binary } from './support/server.js';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const client = fileURLToPath(new URL('../src/index.ts', import.meta.url));

function problems(use: string): string[] {
  const declarations = execFileSync(binary, ['types', '--bindings', join(root, 'bindings')], { encoding: 'utf8' });
  const folder = mkdtempSync(join(tmpdir(), 'scomp-types-'));
  writeFileSync(join(folder, 'bindings.ts'), generate(declarations));
  writeFileSync(
    join(folder, 'use.ts'),
    `import { connect } from './bindings.js';\nconst { bindings } = await connect('ws://x');\n${use}`,
  );
  const program = ts.createProgram([join(folder, 'use.ts')], {
    strict: true,
    noEmit: true,
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.ESNext,
    lib: ['lib.es2023.d.ts', 'lib.dom.d.ts'],
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    types: [],
    paths: { 'scomp-client': [client] },
    skipLibCheck: true,
  });
  const found = ts.getPreEmitDiagnostics(program).filter(({ file }) => file?.fileName.startsWith(folder));
  return found.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, ' '));
}

test('right calls compile, reserved names included', () => {
  const use = `
    const order = await bindings.getOrder({ id: 'o_001' });
    const total: number | undefined = order?.total;
    const gone: boolean = await bindings.kv.delete({ key: 'k' });
    const { keys } = await bindings.kv.list();
    const names: string[] = keys;
    export { total, gone, names };`;
  assert.deepEqual(problems(use), []);
});

test('a wrong input, a wrong use of the output and a missing binding do not compile', () => {
  assert.match(problems('await bindings.getOrder({ id: 5 });').join(), /'number' is not assignable to type 'string'/);
  assert.match(problems('(await bindings.getOrder({ id: "x" })).total;').join(), /possibly 'null'/);
  assert.match(problems('await bindings.getOrdr({});').join(), /getOrdr/);
});

test('the types of a running server are those of its folder, and --only selects', async () => {
  const server = await TestServer.start({ bindings: join(root, 'bindings') });
  try {
    const types = (...args: string[]) => execFileSync(binary, ['types', ...args], { encoding: 'utf8', stdio: 'pipe' });
    const all = types('--url', server.url);
    assert.equal(all, types('--bindings', join(root, 'bindings')));
    const kv = types('--url', server.url, '--only', 'kv');
    assert.match(kv, /namespace kv/);
    assert.doesNotMatch(kv, /getOrder/);
    assert.throws(() => types('--url', server.url, '--only', 'nope'), /no bindings in nope/);
  } finally {
    await server.kill();
  }
});
