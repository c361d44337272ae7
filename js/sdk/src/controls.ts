// The session's own controls, which the server offers as bindings: `session.*` and `bindings.*`.

import type { Ticket } from './connection.js';

/** A moment of the session that it can go back to. */
export interface Checkpoint {
  checkpoint: number;
  label?: string;
  /** What its heap takes on the server. */
  bytes: number;
  ageMs: number;
}

/** A binding that a search found. */
export interface FoundBinding {
  name: string;
  description?: string;
  /** How well it matches. */
  score: number;
}

/** What the server knows of the session. */
export interface SessionInfo {
  id: string;
  running: boolean;
  evalsQueued: number;
  memoryBytes: number;
  [member: string]: unknown;
}

export abstract class Controls {
  abstract invoke<T = unknown>(binding: string, input?: unknown): Promise<T>;

  /** TypeScript declarations of all bindings, for a prompt. */
  types(): Promise<string> {
    return this.invoke('bindings.types');
  }

  /** Bindings whose names or descriptions match, best first. */
  search(query: string): Promise<FoundBinding[]> {
    return this.invoke('bindings.search', { query });
  }

  info(): Promise<SessionInfo> {
    return this.invoke('session.info');
  }

  /** Cancels an eval by its id on the wire, or all of them; returns the ids of those that were cancelled. */
  cancel(evalId?: number | string): Promise<(number | string)[]> {
    return this.invoke('session.cancel', evalId === undefined ? {} : { evalId });
  }

  /** Starts over with a fresh context: what runs is cancelled, what was declared is gone. */
  async reset(): Promise<void> {
    await this.invoke('session.reset');
  }

  /** Marks this moment of an idle session; returns the number for `rewind` and `fork`. The server keeps the last 16. */
  async checkpoint(label?: string): Promise<number> {
    const input = label === undefined ? {} : { label };
    return (await this.invoke<{ checkpoint: number }>('session.checkpoint', input)).checkpoint;
  }

  /** The moments that the session can go back to, oldest first. */
  checkpoints(): Promise<Checkpoint[]> {
    return this.invoke('session.checkpoints');
  }

  /** Takes an idle session back to a checkpoint. Functions that scripts have sent since fail with `UnknownRef`. */
  async rewind(checkpoint: number): Promise<void> {
    await this.invoke('session.rewind', { checkpoint });
  }

  /**
   * Makes a second session that goes on from this moment of an idle session, or from a checkpoint. `connect(url, { session })`
   * with what it returns resumes it.
   */
  async fork(checkpoint?: number): Promise<Ticket> {
    const input = checkpoint === undefined ? {} : { checkpoint };
    const forked = await this.invoke<{ sessionId: string; token: string }>('session.fork', input);
    return { id: forked.sessionId, token: forked.token };
  }
}
