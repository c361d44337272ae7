// The server's calls that run here: a bounded number at the same time, the others in the order in which they came.

import type { Id } from './rpc.js';

/** Handlers that run at the same time: every call that one eval may make by default. Others wait. */
export const INVOKES_RUNNING_MAX = 1024;

/** Calls that wait for a handler to end. As many as a server may have open; past it: `Busy`. */
export const INVOKES_QUEUED_MAX = 16_384;

/** Runs a handler and answers; does not throw. */
type Run = (signal: AbortSignal) => Promise<void>;

export class IncomingCalls {
  /** Running and waiting. */
  private readonly open = new Map<Id, AbortController>();
  private readonly queued = new Map<Id, Run>();
  private running = 0;

  /**
   * `borrowed` says how many requests of ours wait for the server. A handler that waits for one does nothing, and what
   * it waits for may be a call that is queued here: so each lends its place.
   */
  constructor(private readonly borrowed: () => number) {}

  has(id: Id): boolean {
    return this.open.has(id);
  }

  /** Runs it now or later; `false` if too many wait. */
  add(id: Id, run: Run): boolean {
    if (this.queued.size >= INVOKES_QUEUED_MAX) return false;
    this.open.set(id, new AbortController());
    this.queued.set(id, run);
    this.pump();
    return true;
  }

  /** Runs it now, whatever else runs. */
  async runNow(id: Id, run: Run): Promise<void> {
    const controller = this.open.get(id) ?? new AbortController();
    this.open.set(id, controller);
    await run(controller.signal);
    this.open.delete(id);
  }

  /** Starts calls that wait, as far as there are places. */
  pump(): void {
    for (const [id, run] of this.queued) {
      if (this.running >= INVOKES_RUNNING_MAX + this.borrowed()) return;
      this.queued.delete(id);
      this.running += 1;
      void this.runNow(id, run).then(() => {
        this.running -= 1;
        this.pump();
      });
    }
  }

  /** The server does not wait for this answer any more. A call that has not begun never does. */
  cancel(id: Id, reason: Error): void {
    const controller = this.open.get(id);
    if (this.queued.delete(id)) this.open.delete(id);
    controller?.abort(reason);
  }

  /** The connection is over. */
  end(reason: Error): void {
    this.queued.clear();
    for (const controller of this.open.values()) controller.abort(reason);
  }
}
