// Values on the wire: JSON as it is, what JSON lacks under a tag. The same rules both ways, see docs/protocol.md.

import { ScompError } from './errors.js';
import { isRecord } from './rpc.js';

/** Deepest value that is walked. The server allows 100, and reports more; this only protects the stack of this side. */
export const VALUE_DEPTH_MAX = 200;

export type AnyFunction = (...args: never[]) => unknown;

/** A function in its wire form. */
export interface WireFunction {
  $fn: string;
  name?: string;
}

const TAGS = new Set(['$undefined', '$bigint', '$date', '$bytes', '$map', '$set', '$number', '$error', '$object']);

/** The wire form of a value; `exportFunction` names the functions in it. */
export function encode(value: unknown, exportFunction: (fn: AnyFunction) => WireFunction): unknown {
  const encoded = new Encoder(exportFunction).value(value, '');
  return encoded === undefined ? { $undefined: true } : encoded;
}

/** The value of a wire form; `importFunction` makes its functions callable. */
export function decode(wire: unknown, importFunction: (reference: WireFunction) => AnyFunction): unknown {
  return decodeAt(wire, importFunction, 0);
}

class Encoder {
  private readonly ancestors = new Set<object>();
  constructor(private readonly exportFunction: (fn: AnyFunction) => WireFunction) {}

  /** `undefined` stands for itself here; each place treats it in its own way. */
  value(value: unknown, path: string): unknown {
    switch (typeof value) {
      case 'undefined':
      case 'boolean':
        return value;
      case 'string':
        return wellFormed(value);
      case 'number':
        return encodeNumber(value);
      case 'bigint':
        return { $bigint: value.toString() };
      case 'symbol':
        throw unserializable('a symbol cannot be serialized', path);
      case 'function':
        return this.exportFunction(value as AnyFunction);
      default:
        return value === null ? null : this.object(value as object, path);
    }
  }

  private object(object: object, path: string): unknown {
    if (this.ancestors.has(object)) throw unserializable('the value contains itself', path);
    if (this.ancestors.size >= VALUE_DEPTH_MAX) throw unserializable(`deeper than ${VALUE_DEPTH_MAX}`, path);
    this.ancestors.add(object);
    try {
      return this.members(object, path);
    } finally {
      this.ancestors.delete(object);
    }
  }

  private members(object: object, path: string): unknown {
    const tagged = this.tagged(object, path);
    if (tagged !== undefined) return tagged;
    const toJSON = (object as { toJSON?: unknown }).toJSON;
    if (typeof toJSON === 'function') return this.value(toJSON.call(object, ''), path);
    if (Array.isArray(object)) return object.map((item, index) => this.value(item, `${path}/${index}`) ?? null);
    const entries: [string, unknown][] = [];
    for (const key of Object.keys(object)) {
      const encoded = this.value((object as Record<string, unknown>)[key], `${path}/${escaped(key)}`);
      if (encoded !== undefined) entries.push([wellFormed(key), encoded]);
    }
    const plain = Object.fromEntries(entries);
    return readsAsTag(plain) ? { $object: plain } : plain;
  }

  private tagged(object: object, path: string): unknown {
    if (object instanceof Date) {
      if (Number.isNaN(object.getTime())) throw unserializable('an invalid date', path);
      return { $date: object.toISOString() };
    }
    if (object instanceof ArrayBuffer) return { $bytes: toBase64(new Uint8Array(object)) };
    if (ArrayBuffer.isView(object)) {
      return { $bytes: toBase64(new Uint8Array(object.buffer, object.byteOffset, object.byteLength)) };
    }
    const item = (value: unknown) => this.value(value, path) ?? null;
    if (object instanceof Map) return { $map: [...object].map(([key, value]) => [item(key), item(value)]) };
    if (object instanceof Set) return { $set: [...object].map(item) };
    if (object instanceof Error) return { $error: this.error(object, path) };
    return undefined;
  }

  private error(error: Error, path: string): Record<string, unknown> {
    const { name, message, stack } = error;
    const form: Record<string, unknown> = { name: String(name), message: String(message) };
    if (typeof stack === 'string') form['stack'] = stack;
    if (error.cause !== undefined) form['cause'] = this.value(error.cause, `${path}/cause`);
    return form;
  }
}

function encodeNumber(value: number): unknown {
  if (Number.isFinite(value) && !Object.is(value, -0)) return value;
  return { $number: Object.is(value, -0) ? '-0' : String(value) };
}

function readsAsTag(object: Record<string, unknown>): boolean {
  if (Object.hasOwn(object, '$fn')) return true;
  const [first, ...others] = Object.keys(object);
  return first !== undefined && others.length === 0 && TAGS.has(first);
}

type Import = (reference: WireFunction) => AnyFunction;

function decodeAt(wire: unknown, importFunction: Import, depth: number): unknown {
  if (typeof wire !== 'object' || wire === null) return wire;
  if (depth >= VALUE_DEPTH_MAX) throw malformed(`a value deeper than ${VALUE_DEPTH_MAX}`);
  const inner = (value: unknown) => decodeAt(value, importFunction, depth + 1);
  if (Array.isArray(wire)) return wire.map(inner);
  const object = wire as Record<string, unknown>;
  if (Object.hasOwn(object, '$fn')) return decodeFunction(object, importFunction);
  if (readsAsTag(object)) {
    const [tag, content] = Object.entries(object)[0] as [string, unknown];
    return decodeTag(tag, content, inner);
  }
  return plainObject(object, inner);
}

/** Own members only: `__proto__` from the wire is a key like any other. */
function plainObject(object: Record<string, unknown>, inner: (value: unknown) => unknown): unknown {
  return Object.fromEntries(Object.entries(object).map(([key, value]) => [key, inner(value)]));
}

function decodeFunction(object: Record<string, unknown>, importFunction: Import): AnyFunction {
  const { $fn, name } = object;
  if (typeof $fn !== 'string') throw malformed('`$fn` must be a string');
  return importFunction(typeof name === 'string' ? { $fn, name } : { $fn });
}

function decodeTag(tag: string, content: unknown, inner: (value: unknown) => unknown): unknown {
  switch (tag) {
    case '$undefined':
      if (content !== true) break;
      return undefined;
    case '$bigint':
      if (typeof content !== 'string' || !/^-?\d+$/.test(content)) break;
      return BigInt(content);
    case '$date': {
      const date = new Date(typeof content === 'string' ? content : Number.NaN);
      if (Number.isNaN(date.getTime())) break;
      return date;
    }
    case '$bytes':
      if (typeof content !== 'string') break;
      return fromBase64(content);
    case '$map':
      if (!Array.isArray(content) || !content.every((pair) => Array.isArray(pair) && pair.length === 2)) break;
      return new Map(content.map(([key, value]) => [inner(key), inner(value)]));
    case '$set':
      if (!Array.isArray(content)) break;
      return new Set(content.map(inner));
    case '$number':
      if (content !== 'NaN' && content !== 'Infinity' && content !== '-Infinity' && content !== '-0') break;
      return Number(content);
    case '$error':
      if (!isRecord(content)) break;
      return decodeError(content, inner);
    case '$object':
      if (!isRecord(content)) break;
      return plainObject(content, inner);
  }
  throw malformed(`a malformed \`${tag}\``);
}

function decodeError(form: Record<string, unknown>, inner: (value: unknown) => unknown): Error {
  const { name, message, stack, cause } = form;
  const error = new Error(String(message ?? ''), cause === undefined ? undefined : { cause: inner(cause) });
  const hide = (key: string, value: unknown) =>
    Object.defineProperty(error, key, { value, writable: true, configurable: true });
  if (typeof name === 'string' && name !== 'Error') hide('name', name);
  if (typeof stack === 'string') hide('stack', stack);
  return error;
}

/** Characters converted per call: `fromCharCode` takes them as arguments, of which an engine has a maximum. */
const CHUNK_BYTES_MAX = 0x8000;

export function toBase64(bytes: Uint8Array): string {
  let text = '';
  for (let at = 0; at < bytes.length; at += CHUNK_BYTES_MAX) {
    text += String.fromCharCode(...bytes.subarray(at, at + CHUNK_BYTES_MAX));
  }
  return btoa(text);
}

function fromBase64(text: string): Uint8Array {
  try {
    return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  } catch {
    throw malformed('`$bytes` is not base64');
  }
}

// `toWellFormed` itself came with Node 20 and 2023's browsers; its types come with ES2024.
function wellFormed(text: string): string {
  return (text as string & { toWellFormed(): string }).toWellFormed();
}

function escaped(key: string): string {
  return key.replaceAll('~', '~0').replaceAll('/', '~1');
}

function unserializable(why: string, path: string): ScompError {
  return new ScompError('Unserializable', `${why}, at ${path === '' ? 'the top' : path}`, -32000, {
    kind: 'Unserializable',
    path,
  });
}

function malformed(what: string): ScompError {
  return new ScompError('InvalidParams', what, -32602, { kind: 'InvalidParams' });
}
