// JSON-RPC 2.0 as scomp uses it. Pure: a text in, what it means out.

import type { ErrorObject } from './errors.js';

export type Id = number | string;

export type Message =
  | { type: 'request'; id: Id; method: string; params: unknown }
  | { type: 'notification'; method: string; params: unknown }
  | { type: 'success'; id: Id; result: unknown }
  | { type: 'failure'; id: Id; error: ErrorObject }
  /** An error about something of ours that the peer could not read. Never answered. */
  | { type: 'complaint'; error: ErrorObject }
  /** No message of the protocol; with the id to answer to, if it has one. */
  | { type: 'unreadable'; id: Id | undefined; reason: string };

export function decode(text: string): Message {
  let frame: unknown;
  try {
    frame = JSON.parse(text);
  } catch {
    return { type: 'unreadable', id: undefined, reason: 'not JSON' };
  }
  if (!isRecord(frame)) return { type: 'unreadable', id: undefined, reason: 'not an object' };
  const { jsonrpc, id, method, params, result, error } = frame;
  const usable = isId(id) ? id : undefined;
  if (jsonrpc !== '2.0')
    return { type: 'unreadable', id: method === undefined ? undefined : usable, reason: '`jsonrpc` is not "2.0"' };
  if (typeof method === 'string') {
    if (!('id' in frame)) return { type: 'notification', method, params };
    if (usable === undefined) return { type: 'unreadable', id: undefined, reason: 'no usable `id`' };
    return { type: 'request', id: usable, method, params };
  }
  const failed = 'error' in frame;
  if (failed === 'result' in frame)
    return { type: 'unreadable', id: undefined, reason: 'expected `result` or `error`' };
  if (failed && !isErrorObject(error)) return { type: 'unreadable', id: undefined, reason: 'a malformed `error`' };
  if (failed && id === null) return { type: 'complaint', error: error as ErrorObject };
  if (usable === undefined) return { type: 'unreadable', id: undefined, reason: 'no usable `id`' };
  return failed
    ? { type: 'failure', id: usable, error: error as ErrorObject }
    : { type: 'success', id: usable, result };
}

export const request = (id: number, method: string, params: unknown): string =>
  JSON.stringify({ jsonrpc: '2.0', id, method, params });

export const notification = (method: string, params: unknown): string =>
  JSON.stringify({ jsonrpc: '2.0', method, params });

export const success = (id: Id, result: unknown): string => JSON.stringify({ jsonrpc: '2.0', id, result });

export const failure = (id: Id, error: ErrorObject): string => JSON.stringify({ jsonrpc: '2.0', id, error });

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function isId(value: unknown): value is Id {
  return typeof value === 'string' || Number.isSafeInteger(value);
}

function isErrorObject(value: unknown): value is ErrorObject {
  return isRecord(value) && Number.isInteger(value['code']) && typeof value['message'] === 'string';
}
