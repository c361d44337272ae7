// Functions as values: those sent to the server, those received from it. Both end with the connection.

import { ScompError } from './errors.js';
import type { AnyFunction, WireFunction } from './values.js';

/** Live references, each way: the protocol's own limit. */
export const REFERENCES_MAX = 10_000;

/** The functions that were sent. Each sending counts one; the server releases them by count. */
export class Exports {
  private idsUsed = 0;
  private readonly byId = new Map<string, { fn: AnyFunction; sent: number }>();
  private readonly ids = new Map<AnyFunction, string>();

  /**
   * Runs `encode` with a function that names functions. Nothing counts as sent when it throws: a value that could not
   * be encoded was never on the wire.
   */
  sending<T>(encode: (name: (fn: AnyFunction) => WireFunction) => T): T {
    const named: string[] = [];
    try {
      return encode((fn) => {
        const id = this.add(fn);
        named.push(id);
        return fn.name === '' ? { $fn: id } : { $fn: id, name: fn.name };
      });
    } catch (error) {
      for (const id of named) this.release(id, 1);
      throw error;
    }
  }

  get(id: string): AnyFunction | undefined {
    return this.byId.get(id)?.fn;
  }

  get size(): number {
    return this.byId.size;
  }

  /** The server releases `count` sendings. More than there were, or an unknown id, is harmless. */
  release(id: string, count: number): void {
    const entry = this.byId.get(id);
    if (entry === undefined) return;
    entry.sent -= count;
    if (entry.sent > 0) return;
    this.byId.delete(id);
    this.ids.delete(entry.fn);
  }

  private add(fn: AnyFunction): string {
    const known = this.ids.get(fn);
    const entry = known === undefined ? undefined : this.byId.get(known);
    if (known !== undefined && entry !== undefined) {
      entry.sent += 1;
      return known;
    }
    if (this.byId.size >= REFERENCES_MAX) {
      throw new ScompError('TooManyRefs', `${REFERENCES_MAX} functions are with the server already`);
    }
    this.idsUsed += 1;
    const id = `c${this.idsUsed}`;
    this.byId.set(id, { fn, sent: 1 });
    this.ids.set(fn, id);
    return id;
  }
}

/** One function object on this side, and how often the server sent its reference. */
interface Holder {
  readonly id: string;
  received: number;
}

/** The functions that were received. When the collector drops one, its reference is released. */
export class Imports {
  private readonly live = new Map<string, { holder: Holder; fn: WeakRef<AnyFunction> }>();
  private readonly holders = new WeakMap<AnyFunction, Holder>();
  private readonly dropped = new FinalizationRegistry<Holder>((holder) => this.drop(holder));

  /** `call` calls the server; `onRelease` releases `count` receipts. */
  constructor(
    private readonly call: (id: string, args: unknown[]) => Promise<unknown>,
    private readonly onRelease: (id: string, count: number) => void,
  ) {}

  receive({ $fn: id, name }: WireFunction): AnyFunction {
    const known = this.live.get(id);
    const fn = known?.fn.deref();
    if (known !== undefined && fn !== undefined) {
      known.holder.received += 1;
      return fn;
    }
    return this.make({ id, received: 1 }, name);
  }

  /** Releases a function before the collector does; `false` if it did not come from the server. */
  release(fn: AnyFunction): boolean {
    const holder = this.holders.get(fn);
    if (holder === undefined) return false;
    this.dropped.unregister(holder);
    this.holders.delete(fn);
    this.drop(holder);
    return true;
  }

  private make(holder: Holder, name: string | undefined): AnyFunction {
    const { id } = holder;
    const call = this.call;
    const holders = this.holders;
    const fn = async (...args: unknown[]): Promise<unknown> => {
      if (!holders.has(fn)) throw new ScompError('UnknownRef', `${name ?? id} was released`, -32601);
      return call(id, args);
    };
    Object.defineProperty(fn, 'name', { value: name ?? '', configurable: true });
    this.live.set(id, { holder, fn: new WeakRef(fn) });
    this.holders.set(fn, holder);
    this.dropped.register(fn, holder, holder);
    return fn;
  }

  // A function may have come again between its collection and this call: then another holder has its place.
  private drop(holder: Holder): void {
    if (this.live.get(holder.id)?.holder === holder) this.live.delete(holder.id);
    this.onRelease(holder.id, holder.received);
  }
}
