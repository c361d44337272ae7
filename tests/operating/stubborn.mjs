// A command that outlives its input and ignores signals, and has a child that does the same.
// Both hold `alive` open, so its reader sees an end only when both are gone.
import { spawn } from 'node:child_process';
import { openSync } from 'node:fs';
import { createInterface } from 'node:readline';

const alive = openSync('alive', 'w');
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, () => {});
const endless = "trap '' TERM INT HUP; while :; do sleep 1000; done";
spawn('/bin/sh', ['-c', endless], { stdio: ['ignore', 'ignore', 'ignore', alive] });
setInterval(() => {}, 1000);
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method } = JSON.parse(line);
  if (method !== 'handshake') return;
  const result = { protocol: '0.1', sessionId: 'child', bindings: [{ name: 'child.noop' }], metadata: {} };
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, result })}\n`);
});
