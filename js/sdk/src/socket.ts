// Where a WebSocket comes from, and what is asked of it.
//
// Browsers, Deno, Bun and Node 22 have a global one. Node 20 has none: there the `ws` package is used if the program
// has it, or whatever constructor the caller passes. The library itself depends on nothing.

import { ScompError } from './errors.js';

/** The part of the standard WebSocket that is used; the `ws` package has it too. */
export interface SocketLike {
  onopen: ((event: never) => void) | null;
  onmessage: ((event: never) => void) | null;
  onclose: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
  send(text: string): void;
  close(code?: number, reason?: string): void;
}

export type SocketConstructor = new (url: string, protocols: string[]) => SocketLike;

const SUBPROTOCOL = 'scomp.v0';

// The module's name is a variable so that a bundler for browsers does not look for it.
const PACKAGE_FOR_NODE = 'ws';

export async function socketConstructor(given: SocketConstructor | undefined): Promise<SocketConstructor> {
  const found = given ?? (globalThis as { WebSocket?: SocketConstructor }).WebSocket;
  if (found !== undefined) return found;
  try {
    const module = (await import(PACKAGE_FOR_NODE)) as { WebSocket: SocketConstructor };
    return module.WebSocket;
  } catch {
    throw new ScompError('Closed', 'WebSocket is not available: pass one as `WebSocket`, install `ws`, or use Node 22');
  }
}

/**
 * What is offered at the upgrade. A browser cannot set `Authorization` on a WebSocket, so the token travels as a
 * subprotocol, which the server never echoes; done so everywhere, one way is tested.
 */
export function subprotocols(token: string | undefined): string[] {
  if (token === undefined) return [SUBPROTOCOL];
  const base64 = btoa(String.fromCharCode(...new TextEncoder().encode(token)));
  return [SUBPROTOCOL, `bearer.${base64.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')}`];
}

/** How long the server may take to say why it refused: it has just answered. */
const REFUSAL_MS_MAX = 2_000;

/**
 * Whether the upgrade was refused for want of a token. Only the `ws` package tells the status of the answer; elsewhere the
 * same page is requested over HTTP. Where a browser does not allow that, the answer is `false`.
 */
export async function isUnauthorized(url: string, token: string | undefined, why: string): Promise<boolean> {
  if (/\b401\b/.test(why)) return true;
  try {
    const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const signal = AbortSignal.timeout(REFUSAL_MS_MAX);
    const { status } = await fetch(url.replace(/^ws/, 'http'), { headers, signal, redirect: 'manual' });
    return status === 401;
  } catch {
    return false;
  }
}
