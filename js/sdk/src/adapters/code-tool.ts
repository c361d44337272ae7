// One tool for a model: it writes code, the session runs it. The adapters give it the form of each SDK.

import type { Client } from '../client.js';
import { RemoteError, SessionLostError } from '../errors.js';
import type { ConsoleLine } from '../errors.js';
import type { EvalOptions } from '../evals.js';
import { isRecord } from '../rpc.js';

/** What a model gets of one run at most: results beyond it belong into a variable of the session. */
export const RESULT_CHARS_MAX_DEFAULT = 20_000;

export interface CodeToolOptions extends Pick<EvalOptions, 'timeoutMs' | 'name' | 'fresh'> {
  /** The tool's name, `run_javascript` by default. */
  toolName?: string;
  /** Replaces the description, which has the TypeScript declarations of all bindings. */
  description?: string;
  resultCharsMax?: number;
}

export interface CodeInput {
  code: string;
}

/** What goes back to the model. */
export interface CodeResult {
  text: string;
  /** The script failed; the text says how to repair it. */
  isError: boolean;
}

export interface CodeTool {
  name: string;
  description: string;
  inputSchema: typeof INPUT_SCHEMA;
  /**
   * Runs code. What the script did wrong comes back as a result for the model; what is the harness's own problem (no
   * connection, a full server) is thrown.
   */
  run(input: unknown, signal?: AbortSignal | null): Promise<CodeResult>;
}

const INPUT_SCHEMA = {
  type: 'object' as const,
  properties: {
    code: {
      type: 'string' as const,
      description:
        'JavaScript or TypeScript. The value of the last expression is the result; await works at the top level.',
    },
  },
  required: ['code' as const],
  additionalProperties: false as const,
};

/** Refused for now, whatever the script: nothing that a model could repair. */
const NOT_THE_SCRIPT = new Set(['Busy', 'QueueFull', 'SessionClosed', 'NotReady', 'Internal']);

/** Makes the tool; the declarations of the server's bindings are asked for once, here. */
export async function codeTool<B>(client: Client<B>, options: CodeToolOptions = {}): Promise<CodeTool> {
  const {
    toolName = 'run_javascript',
    description,
    resultCharsMax = RESULT_CHARS_MAX_DEFAULT,
    ...evalOptions
  } = options;
  return {
    name: toolName,
    description: description ?? describe(await client.types()),
    inputSchema: INPUT_SCHEMA,
    async run(input, signal) {
      const code = readCode(input);
      if (code === undefined) return { text: 'expected an object with `code`, a string', isError: true };
      try {
        const output = await client.run(code, { ...evalOptions, ...(signal ? { signal } : {}) });
        return { text: cut(join(output.console, render(output.value)), resultCharsMax), isError: false };
      } catch (error) {
        if (error instanceof SessionLostError) return { text: `${error.report()}. Declare it again.`, isError: true };
        if (!(error instanceof RemoteError) || NOT_THE_SCRIPT.has(error.kind)) throw error;
        return { text: cut(join(error.console, error.report()), resultCharsMax), isError: true };
      }
    },
  };
}

export function readCode(input: unknown): string | undefined {
  return isRecord(input) && typeof input['code'] === 'string' ? input['code'] : undefined;
}

function describe(declarations: string): string {
  return [
    'Runs code in a JavaScript session and returns the value of its last expression, with what it printed.',
    'Variables persist from call to call. There is no network and no file system: only these functions reach out:',
    '',
    declarations.trim(),
  ].join('\n');
}

function join(lines: ConsoleLine[], result: string): string {
  return [...lines.map(({ level, text }) => (level === 'log' ? text : `[${level}] ${text}`)), result].join('\n');
}

function cut(text: string, charsMax: number): string {
  if (text.length <= charsMax) return text;
  return `${text.slice(0, charsMax)}\n… cut at ${charsMax} of ${text.length} characters; keep large results in variables.`;
}

/** A value as a model reads it: strings as they are, all else as JSON with a word for what JSON lacks. */
export function render(value: unknown): string {
  if (typeof value === 'string') return value;
  return JSON.stringify(plain(value), undefined, 1) ?? 'undefined';
}

function plain(value: unknown): unknown {
  if (typeof value === 'bigint') return `${value}n`;
  if (typeof value === 'function') return `[function ${value.name || 'anonymous'}]`;
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value);
  if (typeof value !== 'object' || value === null) return value;
  if (value instanceof Date) return value.toISOString();
  if (value instanceof Uint8Array) return `[${value.length} bytes]`;
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  if (value instanceof Map) return [...value].map((entry) => entry.map(plain));
  if (value instanceof Set) return [...value].map(plain);
  if (Array.isArray(value)) return value.map(plain);
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, plain(inner)]));
}
