// One connection as this side sees it: our requests and who waits for them, the server's requests and who runs them.
//
// Texts in, texts out; no socket, no clock, no thought of reconnecting. A peer ends with its connection and is never
// used again, so that nothing of an old connection can leak into the next.

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

/** Calls of the server that run here at once; one more is answered with `Busy`. Far more than one script starts. */
export const INVOKES_RUNNING_MAX = 256;

/** Longest message that we send: what servers accept unless told otherwise, and past it they end the connection. */
export const MESSAGE_CHARS_MAX = 16 << 20;

/** What runs when the server calls a binding of ours, with the input decoded. */
export type PeerHandler = (input: unknown) => unknown;

interface Waiter {
  resolve(result: unknown): void;
  reject(error: Error): void;
}

/** What is called: a binding by its name, or a function by its reference. */
export type Target = { binding: string } | { ref: string };

export class Peer {
  private idsUsed = 0;
  private readonly waiting = new Map<number, Waiter>();
  private readonly running = new Set<Id>();
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
    if (this.waiting.size >= REQUESTS_WAITING_MAX) {
      throw new ScompError('Busy', `${REQUESTS_WAITING_MAX} requests wait for their answers`);
    }
    const id = this.idsUsed + 1;
    const text = rpc.request(id, method, params);
    if (text.length > MESSAGE_CHARS_MAX)
      throw new ScompError(
        'TooLong',
        `${method}: a message of ${text.length} characters; ${MESSAGE_CHARS_MAX} may be sent`,
      );
    this.idsUsed = id;
    const answer = new Promise<unknown>((resolve, reject) => this.waiting.set(id, { resolve, reject }));
    this.write(text);
    return { id, answer };
  }

  /** Calls a binding with its one input, or a function with its arguments. */
  async invoke(target: Target, args: unknown[]): Promise<unknown> {
    // The request is made inside, so that functions in one that could not be sent do not count as sent.
    const { answer } = this.exports.sending((name) => {
      const encoded = args.map((arg) => values.encode(arg, name));
      return this.request(
        'invoke',
        encoded.length === 1 ? { ...target, input: encoded[0] } : { ...target, args: encoded },
      );
    });
    return this.value(await answer);
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
        void this.onRequest(message.id, message.method, message.params);
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
      // An answer to a complaint could itself be unreadable: two peers would refuse each other for ever.
      case 'complaint':
        break;
    }
  }

  /** The connection is over: everybody who waits hears why. */
  end(reason: Error): void {
    this.ended ??= reason;
    for (const waiter of this.waiting.values()) waiter.reject(reason);
    this.waiting.clear();
  }

  private decode(wire: unknown): unknown {
    return values.decode(wire, (reference) => this.imports.receive(reference));
  }

  /** An answer that nobody waits for, or no longer, is dropped. */
  private settle(id: Id): Waiter | undefined {
    if (typeof id !== 'number') return undefined;
    const waiter = this.waiting.get(id);
    this.waiting.delete(id);
    return waiter;
  }

  private async onRequest(id: Id, method: string, params: unknown): Promise<void> {
    if (method !== 'invoke') return this.fail(id, -32601, 'UnknownMethod', `a client has no method ${method}`);
    if (this.running.has(id)) return;
    if (this.running.size >= INVOKES_RUNNING_MAX) {
      return this.fail(id, -32000, 'Busy', `${INVOKES_RUNNING_MAX} calls run already`);
    }
    this.running.add(id);
    try {
      const value = await this.run(params);
      const answer = this.exports.sending((name) => {
        const text = rpc.success(id, { value: values.encode(value, name) });
        if (text.length > MESSAGE_CHARS_MAX)
          throw new ScompError(
            'ResultTooLarge',
            `an answer of ${text.length} characters; ${MESSAGE_CHARS_MAX} may be sent`,
          );
        return text;
      });
      this.answer(answer);
    } catch (thrown) {
      this.answer(rpc.failure(id, toErrorObject(thrown)));
    } finally {
      this.running.delete(id);
    }
  }

  private async run(params: unknown): Promise<unknown> {
    if (!isRecord(params)) throw invalid('expected an object');
    const { binding, ref } = params;
    if (typeof binding === 'string') {
      const handler = this.handlers.get(binding);
      if (handler === undefined) throw unknown('UnknownBinding', binding);
      return handler(this.decode(params['input']));
    }
    if (typeof ref !== 'string') throw invalid('expected `binding` or `ref`');
    const fn = this.exports.get(ref) as AnyFunction | undefined;
    if (fn === undefined) throw unknown('UnknownRef', ref);
    const args = Array.isArray(params['args']) ? params['args'] : [params['input']];
    return fn(...(args.map((arg) => this.decode(arg)) as never[]));
  }

  private onNotification(method: string, params: unknown): void {
    if (method !== 'release_ref' || !isRecord(params)) return;
    const { ref, count } = params;
    if (typeof ref === 'string') this.exports.release(ref, typeof count === 'number' ? count : 1);
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
