// Builds the page into dist/, which is committed so that the server builds without Node.
// `--check` builds into memory and fails when dist/ is something else.
import { readFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { build } from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const at = (...parts) => join(here, ...parts);

const { outputFiles, metafile } = await build({
  absWorkingDir: here,
  entryPoints: { console: 'src/main.ts', styles: 'src/console.css' },
  outdir: 'dist',
  bundle: true,
  minify: true,
  format: 'esm',
  target: 'es2022',
  alias: { 'scomp-client': at('../sdk/src/index.ts') },
  legalComments: 'none',
  metafile: true,
  write: false,
});

/** The licences of what is in the bundle, which ask to be passed on with it. */
function licenses() {
  const folders = Object.keys(metafile.inputs).map((path) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]);
  return [...new Set(folders.filter((folder) => folder !== undefined))].sort().map((folder) => {
    const { name, version } = JSON.parse(readFileSync(at(folder, 'package.json'), 'utf8'));
    return `${name} ${version}\n\n${readFileSync(at(folder, 'LICENSE'), 'utf8').trim()}\n`;
  });
}

const text = (name) => outputFiles.find(({ path }) => path.endsWith(name)).text;
const files = {
  'index.html': readFileSync(at('src/index.html'), 'utf8'),
  'console.js': text('console.js'),
  'console.css': text('styles.css'),
  'licenses.txt': licenses().join('\n----\n\n'),
};

if (process.argv.includes('--check')) {
  const stale = Object.entries(files).filter(([name, content]) => {
    try {
      return readFileSync(at('dist', name), 'utf8') !== content;
    } catch {
      return true;
    }
  });
  if (stale.length > 0) {
    console.error(
      `js/console/dist is not what the sources build to: ${stale.map(([name]) => name).join(', ')}. Run \`npm run build\` in js/console.`,
    );
    process.exit(1);
  }
} else {
  mkdirSync(at('dist'), { recursive: true });
  for (const [name, content] of Object.entries(files)) writeFileSync(at('dist', name), content);
  console.log(
    Object.entries(files)
      .map(([name, content]) => `${name} ${Math.ceil(content.length / 1024)} KiB`)
      .join(', '),
  );
}
