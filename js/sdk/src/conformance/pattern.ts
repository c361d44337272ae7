// Whether a message is what a transcript expects; the rules are those of tests/support/pattern.rs.

import { isRecord } from '../rpc.js';

export type Memory = Map<string, unknown>;

/** Where and how they differ, or undefined. */
export function difference(expected: unknown, got: unknown, memory: Memory, path = ''): string | undefined {
  const differ = `${path}: expected ${JSON.stringify(expected)}, got ${JSON.stringify(got)}`;
  if (typeof expected === 'string') return textMatches(expected, got, memory) ? undefined : differ;
  if (Array.isArray(expected)) {
    const isOpen = expected.at(-1) === '...';
    const wanted = isOpen ? expected.slice(0, -1) : expected;
    if (!Array.isArray(got) || got.length < wanted.length || (got.length > wanted.length && !isOpen)) return differ;
    return first(wanted.map((one, index) => () => difference(one, got[index], memory, `${path}/${index}`)));
  }
  if (!isRecord(expected)) return expected === got ? undefined : differ;
  if (!isRecord(got)) return differ;
  const isOpen = '...' in expected;
  const keys = Object.keys(expected).filter((key) => key !== '...');
  const missing = keys.find((key) => !Object.hasOwn(got, key));
  if (missing !== undefined) return `${path}: no \`${missing}\` in ${JSON.stringify(got)}`;
  const extra = Object.keys(got).find((key) => !Object.hasOwn(expected, key));
  if (extra !== undefined && !isOpen) return `${path}: unexpected \`${extra}\` in ${JSON.stringify(got)}`;
  return first(keys.map((key) => () => difference(expected[key], got[key], memory, `${path}/${key}`)));
}

function first(checks: (() => string | undefined)[]): string | undefined {
  for (const check of checks) {
    const found = check();
    if (found !== undefined) return found;
  }
  return undefined;
}

function textMatches(pattern: string, got: unknown, memory: Memory): boolean {
  if (pattern === '*') return true;
  const name = /^\$\{(.*)\}$/.exec(pattern)?.[1];
  if (name !== undefined) {
    if (!memory.has(name)) memory.set(name, got);
    return JSON.stringify(memory.get(name)) === JSON.stringify(got);
  }
  if (typeof got !== 'string') return false;
  const [starts, ends] = [pattern.endsWith('*'), pattern.startsWith('*')];
  if (starts && ends) return got.includes(pattern.slice(1, -1));
  if (ends) return got.endsWith(pattern.slice(1));
  return starts ? got.startsWith(pattern.slice(0, -1)) : got === pattern;
}

/** The text with everything remembered put in. */
export function filled(text: string, memory: Memory): string {
  return [...memory].reduce(
    (text, [name, value]) => text.replaceAll(`\${${name}}`, typeof value === 'string' ? value : JSON.stringify(value)),
    text,
  );
}
