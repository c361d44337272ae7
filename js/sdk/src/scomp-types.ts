#!/usr/bin/env node
// scomp-serve types --bindings DIR | scomp-types > bindings.ts

import { readFileSync } from 'node:fs';

import { generate } from './generate.js';

const [file, ...others] = process.argv.slice(2);
if (file?.startsWith('-') || others.length > 0) {
  process.stderr.write(
    'usage: scomp-serve types --bindings DIR | scomp-types > bindings.ts\n' +
      '       scomp-types declarations.d.ts > bindings.ts\n',
  );
  process.exit(2);
}
process.stdout.write(generate(readFileSync(file ?? 0, 'utf8')));
