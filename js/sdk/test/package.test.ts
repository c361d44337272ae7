// The package as npm makes it: what is in it, how it resolves, and that it runs in every place that it names.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core';
import { build } from 'esbuild';
import { chromium } from 'playwright-core';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';

import { TestServer } from './support/server.js';

const run = promisify(execFile);
const sdk = fileURLToPath(new URL('../', import.meta.url));
const runtimes = fileURLToPath(new URL('../../runtimes/node_modules/.bin/', import.meta.url));

/** A folder of a program that has installed the package, and the tarball it came from. */
let program: string;
let tarball: string;
let server: TestServer;

before(async () => {
  program = mkdtempSync(join(tmpdir(), 'scomp-package-'));
  // The test script has built it; a release is built by `prepack`.
  await run('npm', ['pack', '--ignore-scripts', '--pack-destination', program], { cwd: sdk });
  tarball = join(program, readdirSync(program).find((name) => name.endsWith('.tgz')) ?? '');
  const installed = join(program, 'node_modules/scomp-client');
  mkdirSync(installed, { recursive: true });
  await run('tar', ['xzf', tarball, '--strip-components=1', '-C', installed]);
  for (const name of ['ws', 'typescript', '@types']) {
    symlinkSync(join(sdk, '../node_modules', name), join(program, 'node_modules', name));
  }
  for (const [name, text] of Object.entries(PROGRAM)) writeFileSync(join(program, name), text);
  server = await TestServer.start();
});
after(() => server.kill());

const BODY = `
  const lines = [];
  const bindings = { ask: ({ step }) => step(20) };
  const client = await connect(url, { bindings, onConsole: ({ text }) => lines.push(text) });
  const next = await client.eval("console.log('hi'); let n = await ask({ step: (x) => x * 2 }); () => ++n");
  const value = [await next(), await client.eval('[1n, new Date(0), undefined]'), lines];
  const error = await client.eval('nope()').catch((error) => error.report().split('\\n')[0]);
  await client.close();
  return [value[0], typeof value[1][0], value[1][1].getTime(), lines.join(), error].join(' ');
`;
const EXPECTED = '41 bigint 0 hi ReferenceError: nope is not defined';

const PROGRAM = {
  'main.mjs': `
import { connect } from 'scomp-client';
import { chatTool } from 'scomp-client/openai';
const main = async (url) => {${BODY}};
console.log(await main((globalThis.Deno?.args ?? process.argv.slice(2))[0]));
`,
  'main.cjs': `
const { connect } = require('scomp-client');
const main = async (url) => {${BODY}};
main(process.argv[2]).then(console.log);
`,
  'types.mts': `
import { connect } from 'scomp-client';
import type { Client } from 'scomp-client';
import { chatTool } from 'scomp-client/openai';
export const client: Client = await connect('ws://127.0.0.1:1');
export const name: string = (await chatTool(client)).function.name;
`,
  'types.cts': `
import { connect } from 'scomp-client';
import { messagesTool } from 'scomp-client/anthropic';
export const tool = connect('ws://127.0.0.1:1').then((client) => messagesTool(client));
`,
};

test('publint finds nothing', async () => {
  const { buffer } = new Uint8Array(readFileSync(tarball));
  const { messages, pkg } = await publint({ strict: true, pack: { tarball: buffer } });
  assert.deepEqual(
    messages.map((message) => formatMessage(message, pkg, { color: false })),
    [],
  );
});

test('the types resolve for ES modules, CommonJS and bundlers', async () => {
  const result = await checkPackage(createPackageFromTarballData(new Uint8Array(readFileSync(tarball))));
  assert.deepEqual(result.types === false ? 'no types' : result.problems, []);
});

test('the package has a licence, sources and their maps', () => {
  const installed = join(program, 'node_modules/scomp-client');
  for (const name of ['LICENSE', 'README.md', 'src/client.ts', 'dist/esm/client.js.map', 'dist/cjs/client.d.ts.map']) {
    assert.ok(existsSync(join(installed, name)), name);
  }
  assert.ok(!existsSync(join(installed, 'test')));
  const { scripts } = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>;
  };
  assert.equal(scripts['prepack'], scripts['build']);
});

test('a strict TypeScript program compiles against it, as ES module and as CommonJS', async () => {
  const tsc = join(program, 'node_modules/typescript/bin/tsc');
  const flags = [
    '--noEmit',
    '--strict',
    '--module',
    'nodenext',
    '--target',
    'es2022',
    '--lib',
    'es2022,dom,esnext.disposable',
  ];
  await run(process.execPath, [tsc, ...flags, '--types', 'node', 'types.mts', 'types.cts'], { cwd: program });
});

async function outputOf(command: string, args: string[]): Promise<string> {
  return (await run(command, [...args, server.url], { cwd: program })).stdout.trim();
}

test('this Node runs it, as ES module and as CommonJS', async () => {
  assert.equal(await outputOf(process.execPath, ['main.mjs']), EXPECTED);
  assert.equal(await outputOf(process.execPath, ['main.cjs']), EXPECTED);
});

for (const [name, command, args] of [
  ['Node 22', 'node', []],
  ['Deno', 'deno', ['run', '--no-config', '--node-modules-dir=manual', '--allow-net', '--allow-read', '--allow-env']],
  ['Bun', 'bun', []],
] as const) {
  const path = join(runtimes, command);
  test(`${name} runs it`, { skip: !existsSync(path) && 'js/runtimes is not installed' }, async () => {
    assert.equal(await outputOf(path, [...args, 'main.mjs']), EXPECTED);
  });
}

const browser = process.env['CHROMIUM'] ?? '/usr/bin/chromium';
test('Chromium runs it', { skip: !existsSync(browser) && 'Chromium is not installed' }, async () => {
  const source = `import { connect } from 'scomp-client'; globalThis.main = async (url) => {${BODY}};`;
  const stdin = { contents: source, resolveDir: program };
  const { outputFiles } = await build({ stdin, bundle: true, format: 'iife', write: false });
  const chrome = await chromium.launch({ executablePath: browser, args: ['--no-sandbox', '--disable-gpu'] });
  try {
    const page = await chrome.newPage();
    await page.goto(`http://${server.address}/healthz`);
    await page.addScriptTag({ content: outputFiles[0]?.text ?? '' });
    const main = (url: string) => (globalThis as unknown as { main: (url: string) => Promise<string> }).main(url);
    assert.equal(await page.evaluate(main, server.url), EXPECTED);
  } finally {
    await chrome.close();
  }
});
