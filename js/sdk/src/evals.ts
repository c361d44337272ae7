// The evals of a client, in order, from the call to the outcome, across as many connections as that takes.
//
// Each has a key, so that the server runs it once however often it is sent. An eval stays here until it is answered;
// after a break those that were sent are sent again, first and in their order.

import type { OnConsole, StreamedLine } from './console.js';
import { ConnectionError, RemoteError, ScompError } from './errors.js';
import type { ConsoleLine } from './errors.js';
import { callHook } from './hooks.js';
import type { Peer } from './peer.js';
import { isRecord } from './rpc.js';

/**
 * Evals that are with the server at a time; the others wait here. Below the 256 outcomes that a session keeps by key, so
 * that none is forgotten before its answer has arrived, and below the 256 that may queue there.
 */
export const EVALS_IN_FLIGHT_MAX = 128;

/** Evals that wait here. Past it a caller that never looks back would fill the memory. */
export const EVALS_WAITING_MAX = 10_000;

export interface EvalOptions {
  /** Ends the eval after so many milliseconds; the server's own limit holds too. */
  timeoutMs?: number;
  /** The caller's own name for this eval: sent again with the same code it does not run again. */
  key?: string;
  /** Aborting it cancels the eval. */
  signal?: AbortSignal;
  /** The file name in stack traces. */
  name?: string;
  /** What this eval declares does not persist. */
  fresh?: boolean;
  /** Asks for `stats`. */
  stats?: boolean;
  /** Gets the console lines of this eval as they are printed, all of them and in order. */
  onConsole?: OnConsole;
}

export interface EvalStats {
  cpuMs: number;
  wallMs: number;
  bindingCalls: number;
  memoryBytes: number;
}

export interface EvalOutput<T = unknown> {
  value: T;
  /** What the script printed. */
  console: ConsoleLine[];
  /** Lines that were printed beyond the limit. */
  consoleDropped: number;
  /** If asked for. */
  stats?: EvalStats;
}

interface Entry {
  readonly params: Record<string, unknown>;
  readonly resolve: (output: EvalOutput) => void;
  readonly reject: (reason: unknown) => void;
  /** Its id on the current connection, once it is sent there. */
  id: number | undefined;
  wasSent: boolean;
  isAborted: boolean;
  /** Stops listening to the caller's signal. */
  forget: () => void;
  /** The lines of this eval, if its caller listens. */
  lines: EvalLines | undefined;
}

/** Lines of one eval: streamed while its connection holds, and what that missed from the answer. */
class EvalLines {
  private readonly delivered: string[] = [];

  constructor(private readonly hook: OnConsole) {}

  deliver(line: StreamedLine): void {
    this.delivered.push(identityOf(line));
    callHook(this.hook, line);
  }

  /** The answer has every line; those that were delivered are a part of them, in the same order. */
  deliverMissed(lines: ConsoleLine[]): void {
    let next = 0;
    for (const line of lines) {
      if (next < this.delivered.length && this.delivered[next] === identityOf(line)) next += 1;
      else callHook(this.hook, line);
    }
  }
}

const identityOf = ({ level, text, atMs }: ConsoleLine): string => `${level} ${atMs} ${text}`;

export class Evals {
  private readonly entries = new Set<Entry>();
  /** Those that listen to their console, by their ids on the current connection. */
  private readonly listening = new Map<number, Entry>();
  private peer: Peer | undefined;
  private inFlight = 0;

  /** `keyOf` names the evals that have no key of their own; without it they have none and are not sent again. */
  constructor(private readonly keyOf: (() => string) | undefined) {}

  run(code: string, options: EvalOptions): Promise<EvalOutput> {
    const { signal, key, onConsole, ...rest } = options;
    if (signal?.aborted) return Promise.reject(signal.reason);
    if (this.entries.size >= EVALS_WAITING_MAX) {
      return Promise.reject(new ScompError('QueueFull', `${EVALS_WAITING_MAX} evals wait here already`));
    }
    const params = { code, ...rest, key: key ?? this.keyOf?.() };
    return new Promise((resolve, reject) => {
      const entry: Entry = {
        params,
        resolve,
        reject,
        id: undefined,
        wasSent: false,
        isAborted: false,
        forget: () => undefined,
        lines: onConsole === undefined ? undefined : new EvalLines(onConsole),
      };
      this.entries.add(entry);
      if (signal !== undefined) this.abortWith(entry, signal);
      this.pump();
    });
  }

  /** A connection to the session is there: what was sent before goes first, for it stands first. */
  attach(peer: Peer): void {
    this.peer = peer;
    this.inFlight = 0;
    this.listening.clear();
    for (const entry of this.entries) entry.id = undefined;
    this.pump();
  }

  /** The connection is gone; evals wait for the next one, but those without key may have run: they fail. */
  detach(reason: Error): void {
    this.peer = undefined;
    for (const entry of this.entries) {
      if (entry.wasSent && entry.params['key'] === undefined) this.settle(entry, () => entry.reject(reason));
    }
  }

  /** Rejects all evals: no answer will come any more. Returns how many there were. */
  failAll(reason: Error): number {
    this.peer = undefined;
    const failed = this.entries.size;
    for (const entry of this.entries) this.settle(entry, () => entry.reject(reason));
    return failed;
  }

  /** Passes a line on to the eval that printed it, if that listens. */
  onConsole(line: StreamedLine): void {
    if (typeof line.evalId === 'number') this.listening.get(line.evalId)?.lines?.deliver(line);
  }

  private abortWith(entry: Entry, signal: AbortSignal): void {
    const onAbort = () => {
      entry.reject(signal.reason);
      entry.lines = undefined;
      if (!entry.wasSent) return void this.entries.delete(entry);
      entry.isAborted = true;
      this.cancel(entry);
    };
    signal.addEventListener('abort', onAbort, { once: true });
    entry.forget = () => signal.removeEventListener('abort', onAbort);
  }

  private pump(): void {
    for (const entry of this.entries) {
      if (this.peer === undefined || this.inFlight >= EVALS_IN_FLIGHT_MAX) return;
      if (entry.id === undefined) this.send(entry, this.peer);
    }
  }

  private send(entry: Entry, peer: Peer): void {
    let sent: ReturnType<Peer['request']>;
    try {
      sent = peer.request('eval', entry.params);
    } catch (error) {
      // The connection is over and we have yet to hear of it: the next one takes the eval along.
      if (error instanceof ConnectionError) return;
      return this.settle(entry, () => entry.reject(error));
    }
    const { id, answer } = sent;
    entry.id = id;
    entry.wasSent = true;
    this.inFlight += 1;
    if (entry.lines !== undefined) this.listening.set(id, entry);
    answer.then(
      (result) =>
        this.onAnswer(entry, peer, () => {
          const output = readOutput(result, peer);
          entry.lines?.deliverMissed(output.console);
          entry.resolve(output);
        }),
      (error: unknown) => {
        // The end of a connection fails everything on it; what becomes of an eval is decided by attach and detach.
        if (error instanceof ConnectionError) return;
        this.onAnswer(entry, peer, () => {
          if (error instanceof RemoteError) entry.lines?.deliverMissed(error.console);
          entry.reject(error);
        });
      },
    );
    // Aborted while there was no connection: it may be running, and only an eval of this connection can be cancelled.
    if (entry.isAborted) this.cancel(entry);
  }

  private onAnswer(entry: Entry, peer: Peer, complete: () => void): void {
    if (this.peer !== peer) return;
    this.inFlight -= 1;
    this.settle(entry, complete);
    this.pump();
  }

  private settle(entry: Entry, complete: () => void): void {
    this.entries.delete(entry);
    if (entry.id !== undefined) this.listening.delete(entry.id);
    entry.forget();
    try {
      complete();
    } catch (error) {
      entry.reject(error);
    }
  }

  private cancel(entry: Entry): void {
    if (this.peer === undefined || entry.id === undefined) return;
    // The result is ignored: the eval's own answer reports the cancellation.
    this.peer.control('session.cancel', { evalId: entry.id }).catch(() => undefined);
  }
}

function readOutput(result: unknown, peer: Peer): EvalOutput {
  const value = peer.value(result);
  const { console, consoleDropped, stats } = isRecord(result) ? result : {};
  return {
    value,
    console: Array.isArray(console) ? (console as ConsoleLine[]) : [],
    consoleDropped: typeof consoleDropped === 'number' ? consoleDropped : 0,
    ...(isRecord(stats) ? { stats: stats as unknown as EvalStats } : {}),
  };
}
