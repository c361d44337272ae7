// An error as a text from which a model can repair its code: message, place, suggestions, cause.

import { isRecord } from './rpc.js';

/** Longest report: a few screens. A model needs no more, and its context is not filled by one error. */
export const REPORT_CHARS_MAX = 8_000;

/** Causes that are followed. Scripts can nest them without end. */
export const REPORT_CAUSES_MAX = 8;

/** The server's own report where it sent one, otherwise one that is composed here. */
export function reportOf(message: string, data: unknown): string {
  const report = isRecord(data) ? data['report'] : undefined;
  return (typeof report === 'string' ? report : compose(message, data)).slice(0, REPORT_CHARS_MAX);
}

function compose(message: string, data: unknown): string {
  const lines = [message];
  for (let depth = 0; depth < REPORT_CAUSES_MAX && isRecord(data); depth += 1) {
    lines.push(...details(data));
    const { cause } = data;
    if (cause === undefined || cause === null) break;
    const text = String(isRecord(cause) ? (cause['message'] ?? '') : cause);
    if (!message.includes(text)) lines.push(`caused by: ${text}`);
    data = isRecord(cause) ? cause['data'] : undefined;
  }
  return lines.join('\n');
}

function details({ stack, errors, suggestions }: Record<string, unknown>): string[] {
  const lines: string[] = [];
  if (typeof stack === 'string') {
    const places = stack.split('\n').map((line) => line.trim());
    lines.push(...places.filter((line) => line !== '').map((line) => `  ${line}`));
  }
  for (const problem of Array.isArray(errors) ? errors : []) {
    if (isRecord(problem)) lines.push(`  ${String(problem['path'] || '/')}: ${String(problem['message'])}`);
  }
  if (Array.isArray(suggestions) && suggestions.length > 0) lines.push(`did you mean ${suggestions.join(', ')}?`);
  return lines;
}
