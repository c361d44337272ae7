// Builds dist/: ES modules and CommonJS, each with its own types.
import { execFileSync } from 'node:child_process';
import { cpSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc');

rmSync('dist', { recursive: true, force: true });
for (const config of ['tsconfig.build.json', 'tsconfig.cjs.json']) {
  execFileSync(process.execPath, [tsc, '-p', config], { stdio: 'inherit' });
}
// The package is one of ES modules; this folder is not.
writeFileSync('dist/cjs/package.json', '{ "type": "commonjs" }\n');
// The conformance suite travels with its runner.
cpSync('../../tests/transcripts', 'dist/transcripts', { recursive: true });
