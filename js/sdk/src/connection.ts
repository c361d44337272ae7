// Opens a connection and shakes hands; then carries texts between the socket and its peer until either ends.

import { ConnectionError, RemoteError, ScompError } from './errors.js';
import { callHook } from './hooks.js';
import { Peer } from './peer.js';
import type { PeerHandler } from './peer.js';
import { isRecord } from './rpc.js';
import { isUnauthorized, subprotocols } from './socket.js';
import type { SocketConstructor, SocketLike } from './socket.js';

/** How long upgrade and handshake may take together: longer than any network needs, short enough for a person to wait. */
export const OPENING_MS_MAX = 15_000;

/** How long a server has to answer our goodbye. */
export const CLOSE_MS_MAX = 2_000;

/** Proof of a session, to come back to it. It changes at every handshake. */
export interface Ticket {
  id: string;
  token: string;
}

/** A binding as either side declares it. */
export interface Declaration {
  name: string;
  description?: string;
  input?: unknown;
  output?: unknown;
  effects?: string[];
  /** How long a call of a binding of ours may take; without it as long as its eval's `timeoutMs`, or 30 s. */
  limits?: { timeoutMs?: number };
  hints?: unknown;
}

/** The server's answer to the handshake. */
export interface Welcome {
  ticket: Ticket;
  resumed: boolean;
  ttlMs: number;
  bindings: Declaration[];
  metadata: Record<string, unknown>;
}

export interface Dial {
  url: string;
  token: string | undefined;
  Socket: SocketConstructor;
  declarations: Declaration[];
  handlers: ReadonlyMap<string, PeerHandler>;
  onFrame: ((direction: 'in' | 'out', text: string) => void) | undefined;
}

export interface Ended {
  code: number;
  reason: string;
}

export class Connection {
  readonly peer: Peer;
  private readonly socket: SocketLike;
  private readonly opened: Promise<void>;
  /** Settles when the socket is gone, however that comes. */
  readonly ended: Promise<Ended>;
  /** Whether something arrived since this was last set to false. */
  heard = true;
  /** Whether it ended; `ended` may not have been handled yet. */
  isOver = false;
  private isOpen = false;
  private endNow!: (ended: Ended) => void;

  private constructor(dial: Dial) {
    const { onFrame } = dial;
    const socket = new dial.Socket(dial.url, subprotocols(dial.token));
    this.socket = socket;
    this.peer = new Peer((text) => {
      callHook(onFrame, 'out', text);
      socket.send(text);
    }, dial.handlers);
    this.ended = new Promise((resolve) => (this.endNow = resolve));
    this.opened = new Promise((resolve, reject) => {
      let trouble = '';
      socket.onopen = () => {
        this.isOpen = true;
        resolve();
      };
      socket.onmessage = ({ data }: { data: unknown }) => {
        // What arrives after the connection was abandoned is dropped: the next connection serves the session.
        if (typeof data !== 'string' || this.isOver) return;
        this.heard = true;
        callHook(onFrame, 'in', data);
        this.peer.onText(data);
      };
      socket.onerror = ({ message }: { message?: string }) => (trouble = message ?? '');
      socket.onclose = ({ code, reason }: { code: number; reason: string }) => {
        const why = reason !== '' ? reason : trouble;
        if (!this.isOpen) void refusal(dial, why, code).then(reject);
        this.finish({ code, reason: why });
      };
    });
  }

  /** Connects and performs the handshake. With `anew`, a session that is gone is replaced by a new one. */
  static async open(dial: Dial, ticket: Ticket | undefined, anew: boolean): Promise<[Connection, Welcome]> {
    const connection = new Connection(dial);
    const timer = setTimeout(() => connection.abandon(1006, 'handshake timed out'), OPENING_MS_MAX);
    try {
      await connection.opened;
      return [connection, await connection.handshake(dial.declarations, ticket, anew)];
    } catch (error) {
      connection.close(false);
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  private async handshake(bindings: Declaration[], ticket: Ticket | undefined, anew: boolean): Promise<Welcome> {
    const metadata = { client: { name: 'scomp-client', version: '0.1.0' } };
    const session = ticket === undefined ? {} : { session: { id: ticket.id, token: ticket.token } };
    const params = { protocol: '0.1', bindings, metadata, notifications: ['cancel_invoke'], ...session };
    try {
      return readWelcome(await this.peer.request('handshake', params).answer);
    } catch (error) {
      const isGone = error instanceof RemoteError && error.kind === 'SessionRefused';
      if (!isGone || ticket === undefined || !anew) throw error;
      return this.handshake(bindings, undefined, false);
    }
  }

  /** Ends the session if it is to end, then closes; without an answer if none comes. */
  close(endsSession: boolean): void {
    const timer = setTimeout(() => this.abandon(1000, 'closed'), CLOSE_MS_MAX);
    void this.ended.then(() => clearTimeout(timer));
    const leave = () => this.socket.close(1000);
    if (endsSession) this.peer.control('session.close', {}).then(leave, leave);
    else leave();
  }

  /** Abandons a connection that may never report its end. */
  abandon(code: number, reason: string): void {
    this.socket.close();
    // Where it exists: a socket that waits for an answer keeps a Node process alive.
    (this.socket as { terminate?: () => void }).terminate?.();
    this.finish({ code, reason });
  }

  private finish(ended: Ended): void {
    if (this.isOver) return;
    this.isOver = true;
    const why = ended.reason === '' ? '' : `: ${ended.reason}`;
    this.peer.end(new ConnectionError('ConnectionLost', `the connection ended (${ended.code})${why}`, ended.code));
    this.endNow(ended);
  }
}

/** Why a connection could not be opened. */
async function refusal({ url, token }: Dial, why: string, code: number): Promise<ConnectionError> {
  if (await isUnauthorized(url, token, why)) {
    const wanted = token === undefined ? 'wants a token' : 'does not accept the token';
    return new ConnectionError('Unauthorized', `cannot connect to ${url}: the server ${wanted}`, code);
  }
  return new ConnectionError('Closed', `cannot connect to ${url}${why === '' ? '' : `: ${why}`}`, code);
}

function readWelcome(result: unknown): Welcome {
  const metadata = isRecord(result) ? result['metadata'] : undefined;
  const session = isRecord(metadata) ? metadata['session'] : undefined;
  if (!isRecord(result) || !isRecord(metadata) || typeof result['sessionId'] !== 'string') {
    throw new ScompError('BadAnswer', 'the answer to the handshake is malformed');
  }
  const { token, resumed, ttlMs } = isRecord(session) ? session : {};
  return {
    ticket: { id: result['sessionId'], token: String(token ?? '') },
    resumed: resumed === true,
    ttlMs: typeof ttlMs === 'number' ? ttlMs : 0,
    bindings: Array.isArray(result['bindings']) ? (result['bindings'] as Declaration[]) : [],
    metadata,
  };
}
