// The conformance suite as a program: our server passes it, and one that answers everything with errors does not.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { WebSocketServer } from 'ws';

import { transcriptsIn } from '../src/conformance/suite.js';
import { TestServer, transcripts } from './support/server.js';

const program = fileURLToPath(new URL('../src/scomp-conformance.ts', import.meta.url));

function play(...args: string[]): Promise<{ code: number; lines: string[] }> {
  const command = ['--import', 'tsx', program, '--folder', transcripts, ...args];
  return new Promise((resolve) => {
    execFile(process.execPath, command, (error, stdout) => {
      resolve({ code: error === null ? 0 : Number(error.code), lines: stdout.trim().split('\n') });
    });
  });
}

test('this server passes every transcript that needs no settings', async () => {
  const server = await TestServer.start();
  try {
    const { code, lines } = await play(server.url);
    assert.deepEqual(
      lines.filter((line) => line.startsWith('FAILED')),
      [],
    );
    assert.equal(code, 0);
    assert.equal(lines.length, transcriptsIn(transcripts).length + 1);
    assert.match(lines.at(-1) ?? '', /^[6-9]\d passed, 0 failed, \d+ skipped$|^\d{3} passed, 0 failed/);
  } finally {
    await server.kill();
  }
});

test('a server that answers everything with errors fails every transcript', async () => {
  const wrong = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  await once(wrong, 'listening');
  wrong.on('connection', (socket) => {
    socket.on('message', (data) => {
      let id: unknown = null;
      try {
        id = (JSON.parse(String(data)) as { id?: unknown }).id ?? null;
      } catch {
        // Not JSON: an error without id.
      }
      const error = { code: -32000, message: 'no', data: { kind: 'EvalError' } };
      socket.send(JSON.stringify({ jsonrpc: '2.0', id, error }));
    });
  });
  try {
    const { port } = wrong.address() as AddressInfo;
    const { code, lines } = await play(`ws://127.0.0.1:${port}/`, '--wait-ms', '100');
    assert.equal(code, 1);
    assert.deepEqual(
      lines.filter((line) => line.startsWith('ok')),
      [],
    );
  } finally {
    for (const socket of wrong.clients) socket.terminate();
    wrong.close();
  }
});

test('a server that is not there fails the suite, and a wrong call says how it is called', async () => {
  assert.equal((await play('ws://127.0.0.1:9/', '--only', 'eval/v')).code, 1);
  assert.equal((await play()).code, 2);
});
