// One connection as this side sees it: our requests and who waits for them, the server's requests and who runs them.
//
// Texts in, texts out; no socket, no clock, no thought of reconnecting. A peer ends with its connection and is never
// used again, so that nothing of an old connection can leak into the next.

import { IncomingCalls } from './calls.js';
import { RemoteError, ScompError, toErrorObject } from './errors.js';
import type { ErrorObject } from './errors.js';
import { Exports, Imports } from './references.js';
import * as rpc from './rpc.js';
import { isRecord } from './rpc.js';
import type { Id } from './rpc.js';
import * as values from './values.js';
import type { AnyFunction } from './values.js';

/** Requests of ours that wait for their answers: the server's own default for one connection. */
export const REQUESTS_WAITING_MAX = 1024;

/** Calls of ours that are with the server; others wait here. It leaves room for evals, cancels and pings. */
export const INVOKES_IN_FLIGHT_MAX = 512;

/** Calls of ours that wait here. Past it a caller that never looks back would fill the memory: `Busy`. */
export const INVOKES_WAITING_MAX = 10_000;

/** Longest message that is sent: what servers accept by default. Past it they end the connection. */
export const MESSAGE_CHARS_MAX = 16 << 20;

/** What runs when the server calls a binding of ours, with the input decoded. */
export type PeerHandler = (input: unknown, signal: AbortSignal) => unknown;

/** Console lines are printed as they arrive: they neither wait for slow handlers nor overtake each other. */
const CONSOLE_WRITE = 'console.write';

interface Waiter {
  resolve(result: unknown): void;
  reject(error: Error): void;
  /** Whether it takes one of the places of `INVOKES_IN_FLIGHT_MAX`. */
  isInvoke: boolean;
}

/** What is called: a binding by its name, or a function by its reference. */
export type Target = { binding: string } | { ref: string };

export class Peer {
  private idsUsed = 0;
  private readonly waiting = new Map<number, Waiter>();
  /** Texts of calls that wait for a place, by their ids. */
  private readonly unsent = new Map<number, string>();
  private invokesInFlight = 0;
  private readonly calls = new IncomingCalls(() => this.waiting.size - this.unsent.size);
  private ended: Error | undefined;
  readonly exports = new Exports();
  readonly imports: Imports;

  constructor(
    private readonly write: (text: string) => void,
    private readonly handlers: ReadonlyMap<string, PeerHandler>,
  ) {
    this.imports = new Imports(
      (id, args) => this.invoke({ ref: id }, args),
      (id, count) => {
        if (this.ended === undefined) this.write(rpc.notification('release_ref', { ref: id, count }));
      },
    );
  }

  /** Sends a request; the id is that on the wire. */
  request(method: string, params: unknown): { id: number; answer: Promise<unknown> } {
    if (this.ended !== undefined) throw this.ended;
    if (this.waiting.size - this.unsent.size >= REQUESTS_WAITING_MAX) {
      throw new ScompError('Busy', `${REQUESTS_WAITING_MAX} requests wait for their answers`);
    }
    const { id, text, answer } = this.open(method, params, false);
    this.send(text);
    return { id, answer };
  }

  /** Calls a binding with its one input, or a function with its arguments; if too many are under way, later. */
  async invoke(target: Target, args: unknown[]): Promise<unknown> {
    if (this.ended !== undefined) throw this.ended;
    if (this.unsent.size >= INVOKES_WAITING_MAX) {
      throw new ScompError('Busy', `${INVOKES_WAITING_MAX} calls wait here already`);
    }
    // The request is made inside, so that functions in one that cannot be sent do not count as sent.
    const { id, text, answer } = this.exports.sending((name) => {
      const encoded = args.map((arg) => values.encode(arg, name));
      const params = encoded.length === 1 ? { ...target, input: encoded[0] } : { ...target, args: encoded };
      return this.open('invoke', params, true);
    });
    this.unsent.set(id, text);
    this.sendUnsent();
    return this.value(await answer);
  }

  /** Calls a binding of the session itself, which does not wait behind other calls. */
  async control(binding: string, input: unknown): Promise<unknown> {
    return this.value(await this.request('invoke', { binding, input }).answer);
  }

  private open(method: string, params: unknown, isInvoke: boolean) {
    const id = this.idsUsed + 1;
    const text = rpc.request(id, method, params);
    if (text.length > MESSAGE_CHARS_MAX)
      throw new ScompError(
        'TooLong',
        `${method}: a message of ${text.length} characters; ${MESSAGE_CHARS_MAX} may be sent`,
      );
    this.idsUsed = id;
    const answer = new Promise<unknown>((resolve, reject) => this.waiting.set(id, { resolve, reject, isInvoke }));
    return { id, text, answer };
  }

  private send(text: string): void {
    this.write(text);
    // A handler that waits for this one has lent its place.
    this.calls.pump();
  }

  private sendUnsent(): void {
    for (const [id, text] of this.unsent) {
      if (this.invokesInFlight >= INVOKES_IN_FLIGHT_MAX) return;
      this.unsent.delete(id);
      this.invokesInFlight += 1;
      this.send(text);
    }
  }

  /** The value in the result of an `invoke` or `eval`. */
  value(result: unknown): unknown {
    if (!isRecord(result) || !('value' in result)) throw new ScompError('BadAnswer', 'the answer has no value');
    return this.decode(result['value']);
  }

  onText(text: string): void {
    const message = rpc.decode(text);
    switch (message.type) {
      case 'request':
        this.onRequest(message.id, message.method, message.params);
        break;
      case 'notification':
        this.onNotification(message.method, message.params);
        break;
      case 'success':
        this.settle(message.id)?.resolve(message.result);
        break;
      case 'failure':
        this.settle(message.id)?.reject(RemoteError.from(message.error));
        break;
      case 'unreadable':
        if (message.id !== undefined) this.fail(message.id, -32600, 'InvalidRequest', message.reason);
        break;
      // An answer to an error without an id could itself be unreadable: two peers would refuse each other for ever.
      case 'complaint':
        break;
    }
  }

  /** Ends the connection: every waiter is rejected with the reason. */
  end(reason: Error): void {
    this.ended ??= reason;
    for (const waiter of this.waiting.values()) waiter.reject(reason);
    this.waiting.clear();
    this.unsent.clear();
    this.calls.end(reason);
  }

  private decode(wire: unknown): unknown {
    return values.decode(wire, (reference) => this.imports.receive(reference));
  }

  /** Takes the waiter of an answer. An answer without one, or whose waiter has given up, is dropped. */
  private settle(id: Id): Waiter | undefined {
    if (typeof id !== 'number') return undefined;
    const waiter = this.waiting.get(id);
    if (waiter === undefined || this.unsent.has(id)) return undefined;
    this.waiting.delete(id);
    if (waiter.isInvoke) {
      this.invokesInFlight -= 1;
      this.sendUnsent();
    }
    return waiter;
  }

  private onRequest(id: Id, method: string, params: unknown): void {
    if (method !== 'invoke') return this.fail(id, -32601, 'UnknownMethod', `a client has no method ${method}`);
    if (this.calls.has(id)) return;
    const run = (signal: AbortSignal) => this.runAndAnswer(id, params, signal);
    if (isRecord(params) && params['binding'] === CONSOLE_WRITE) return void this.calls.runNow(id, run);
    if (!this.calls.add(id, run)) this.fail(id, -32000, 'Busy', 'too many calls wait for their handlers');
  }

  private async runAndAnswer(id: Id, params: unknown, signal: AbortSignal): Promise<void> {
    let answer: string;
    try {
      const value = await this.run(params, signal);
      // The server drops the answer, and would never release the functions in it.
      if (signal.aborted) return;
      answer = this.exports.sending((name) => {
        const text = rpc.success(id, { value: values.encode(value, name) });
        if (text.length > MESSAGE_CHARS_MAX)
          throw new ScompError(
            'ResultTooLarge',
            `an answer of ${text.length} characters; ${MESSAGE_CHARS_MAX} may be sent`,
          );
        return text;
      });
    } catch (thrown) {
      if (signal.aborted) return;
      answer = rpc.failure(id, toErrorObject(thrown));
    }
    this.answer(answer);
  }

  private async run(params: unknown, signal: AbortSignal): Promise<unknown> {
    if (!isRecord(params)) throw invalid('expected an object');
    const { binding, ref } = params;
    if (typeof binding === 'string') {
      const handler = this.handlers.get(binding);
      if (handler === undefined) throw unknown('UnknownBinding', binding);
      return handler(this.decode(params['input']), signal);
    }
    if (typeof ref !== 'string') throw invalid('expected `binding` or `ref`');
    const fn = this.exports.get(ref) as AnyFunction | undefined;
    if (fn === undefined) throw unknown('UnknownRef', ref);
    const args = Array.isArray(params['args']) ? params['args'] : [params['input']];
    return fn(...(args.map((arg) => this.decode(arg)) as never[]));
  }

  private onNotification(method: string, params: unknown): void {
    if (!isRecord(params)) return;
    const { ref, count, id } = params;
    if (method === 'release_ref' && typeof ref === 'string') {
      this.exports.release(ref, typeof count === 'number' ? count : 1);
    } else if (method === 'cancel_invoke' && rpc.isId(id)) {
      this.calls.cancel(id, new ScompError('Cancelled', 'the server does not wait for this call any more'));
    }
  }

  private fail(id: Id, code: number, kind: string, message: string): void {
    this.answer(rpc.failure(id, { code, message, data: { kind } } satisfies ErrorObject));
  }

  private answer(text: string): void {
    if (this.ended === undefined) this.write(text);
  }
}

function invalid(message: string): ScompError {
  return new ScompError('InvalidParams', `invoke: ${message}`, -32602, { kind: 'InvalidParams' });
}

function unknown(kind: 'UnknownBinding' | 'UnknownRef', name: string): ScompError {
  return new ScompError(kind, `the client has no ${name}`, -32601, { kind });
}
