// Console lines as they arrive on the wire: one in a call, or several.

import type { ConsoleLine } from './errors.js';
import { isRecord } from './rpc.js';

/** A line as it is streamed, with the id of the request that its eval is on the wire. */
export type StreamedLine = ConsoleLine & { evalId?: number | string };

export type OnConsole = (line: StreamedLine) => void;

/** `entries` tells the server that lines may come in batches; one that does not know of them sends one at a time. */
export const CONSOLE_INPUT = { type: 'object', properties: { entries: { type: 'array' } } };

/** The lines in the input of `console.write`; what is not a line is left out. */
export function readLines(input: unknown): StreamedLine[] {
  const entries: unknown[] = isRecord(input) && Array.isArray(input['entries']) ? input['entries'] : [input];
  return entries.filter((entry): entry is Record<string, unknown> => isRecord(entry)).filter(isLine);
}

function isLine(entry: Record<string, unknown>): entry is Record<string, unknown> & StreamedLine {
  return typeof entry['text'] === 'string' && typeof entry['level'] === 'string';
}
