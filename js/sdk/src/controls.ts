// The session's own controls, which the server offers as bindings: `session.*` and `bindings.*`.

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
}
