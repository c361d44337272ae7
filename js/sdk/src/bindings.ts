// Bindings as code sees them: ours as a table of handlers, the server's as an object of async functions.

import type { Client } from './client.js';
import type { Declaration } from './connection.js';
import { declaredSchema, isStandardSchema, validate } from './schemas.js';
import type { SchemaInput, SchemaOutput } from './schemas.js';

/** What a handler knows of the call, beside its input. */
export interface CallContext {
  client: Client;
  /**
   * Aborts when the answer is not awaited any more: the eval was cancelled, the call took too long, the session was
   * closed, or the connection on which the call came is gone.
   */
  signal: AbortSignal;
}

// Inputs come from the wire; a handler says which type its schema promises.
export type Handler = (input: any, context: CallContext) => unknown;

/** A binding of the client: a handler, or one with its declaration for scripts. */
export type Binding = Handler | (Omit<Declaration, 'name'> & { handler: Handler });

export type BindingTable = Record<string, Binding>;

/** A declaration whose schemas may be JSON Schema, or those of zod and other libraries with Standard Schema. */
export interface TypedBinding<I, O> extends Omit<Declaration, 'name' | 'input' | 'output'> {
  input?: I;
  output?: O;
  handler: (input: SchemaOutput<I>, context: CallContext) => SchemaInput<O> | Promise<SchemaInput<O>>;
}

/** A binding whose handler has the types of its schemas: `binding({ input: z.object({ id: z.string() }), handler })`. */
export function binding<I = unknown, O = unknown>(typed: TypedBinding<I, O>): Binding {
  return typed as Binding;
}

export function declarationsOf(table: BindingTable): Declaration[] {
  return Object.entries(table).map(([name, binding]) => {
    if (typeof binding === 'function') return { name };
    const { handler: _, input, output, ...declaration } = binding;
    const schemas = { input: declaredSchema(input, 'input'), output: declaredSchema(output, 'output') };
    // What is undefined is left out of the message.
    return { name, ...declaration, ...schemas };
  });
}

export function handlerOf(binding: Binding): Handler {
  if (typeof binding === 'function') return binding;
  const { handler, input, output } = binding;
  if (!isStandardSchema(input) && !isStandardSchema(output)) return handler;
  return async (value, context) => {
    const result = await handler(await validate(input, value, 'input'), context);
    return validate(output, result, 'output');
  };
}

/** What is known of bindings without generated types: any path, any input. */
export interface UntypedBindings {
  [name: string]: any;
}

/**
 * `bindings.kv.get({ key })` for the binding `kv.get`. Names are looked up when they are used, so a server that comes
 * back with other bindings is seen as it is; a name that it does not have is `undefined`, as on any object.
 */
export function bindingsProxy(
  names: () => string[],
  invoke: (name: string, input: unknown) => Promise<unknown>,
): unknown {
  const at = (prefix: string): object => {
    const path = (key: string) => (prefix === '' ? key : `${prefix}.${key}`);
    const below = () => names().filter((name) => prefix === '' || name.startsWith(`${prefix}.`));
    const keys = () => [...new Set(below().map((name) => nextSegment(name, prefix)))];
    const member = (key: string | symbol): unknown => {
      if (typeof key !== 'string') return undefined;
      if (names().includes(path(key)))
        return (...args: unknown[]) => invoke(path(key), args.length === 0 ? {} : args[0]);
      return keys().includes(key) ? at(path(key)) : undefined;
    };
    return new Proxy(Object.create(null) as object, {
      get: (_, key) => member(key),
      has: (_, key) => typeof key === 'string' && keys().includes(key),
      ownKeys: () => keys(),
      getOwnPropertyDescriptor(_, key) {
        const value = member(key);
        return value === undefined ? undefined : { value, enumerable: true, configurable: true };
      },
    });
  };
  return at('');
}

function nextSegment(name: string, prefix: string): string {
  const rest = prefix === '' ? name : name.slice(prefix.length + 1);
  return rest.split('.', 1)[0] ?? rest;
}
