// Frames as a transcript of the test suite's language, and as one line each.

import type { Frame } from './link.js';

const TOKEN = /("token":)"(?!\$\{)[^"]*"/g;

/**
 * What passed, as `tests/support` plays it. The token of a session opens that session, so it is never copied: it is a
 * name that the player remembers.
 */
export function transcriptOf(frames: Pick<Frame, 'direction' | 'text'>[]): string {
  const lines = frames.map(
    ({ direction, text }) => `${direction === 'out' ? '>>' : '<<'} ${text.replace(TOKEN, '$1"${token}"')}`,
  );
  return `# Copied from the web console.\n${lines.join('\n')}\n`;
}

/** A frame without the secret in it. */
export function masked(text: string): string {
  return text.replace(TOKEN, '$1"…"');
}

export interface Summary {
  what: string;
  isError: boolean;
}

/** What a frame is about. */
export function summaryOf(text: string): Summary {
  let frame: Record<string, unknown>;
  try {
    frame = JSON.parse(text) as Record<string, unknown>;
  } catch {
    return { what: 'not JSON', isError: true };
  }
  const { id, method, params, error } = frame as {
    id?: unknown;
    method?: string;
    params?: Record<string, unknown>;
    error?: { message?: string };
  };
  const number = id === undefined ? '' : `#${String(id)} `;
  if (method !== undefined) {
    const target = params?.['binding'] ?? params?.['ref'] ?? params?.['code'] ?? '';
    return { what: `${number}${method} ${String(target).replace(/\s+/g, ' ').slice(0, 80)}`.trim(), isError: false };
  }
  if (error !== undefined) return { what: `${number}error ${error.message ?? ''}`, isError: true };
  return { what: `${number}result`, isError: false };
}
