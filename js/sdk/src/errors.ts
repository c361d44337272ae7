// What goes wrong, by a stable name: `kind`. The message is for people, `report()` for models.

import { reportOf } from './report.js';

/** Kinds that the server answers with; handlers may bring their own. */
export type ServerKind =
  | 'ParseError'
  | 'InvalidRequest'
  | 'UnknownMethod'
  | 'InvalidParams'
  | 'Internal'
  | 'UnsupportedProtocol'
  | 'NotReady'
  | 'SessionRefused'
  | 'InvalidInput'
  | 'InvalidOutput'
  | 'ValidationLimit'
  | 'KeyConflict'
  | 'UnknownBinding'
  | 'UnknownRef'
  | 'BindingError'
  | 'PeerGone'
  | 'SyntaxError'
  | 'EvalError'
  | 'Timeout'
  | 'MemoryLimit'
  | 'StackOverflow'
  | 'Cancelled'
  | 'Deadlock'
  | 'ResultTooLarge'
  | 'Unserializable'
  | 'QueueFull'
  | 'SessionClosed'
  | 'UnknownCheckpoint'
  | 'Forked'
  | 'ImagesUnavailable'
  | 'Busy'
  | 'TooManyRefs'
  | 'TooManyCalls'
  | 'TooDeep'
  | 'PermissionDenied';

/** Kinds that arise on this side of the connection. */
export type LocalKind =
  /** The connection ended for good, or could not be opened. */
  | 'Closed'
  /** The server does not accept the token, or wants one. */
  | 'Unauthorized'
  /** The connection broke while a call was under way; whether it ran is unknown. */
  | 'ConnectionLost'
  /** The session, with all its state, is gone: it expired, or the server restarted. */
  | 'SessionLost'
  /** What was to be sent is longer than a message may be. */
  | 'TooLong'
  /** The server said something that is not the protocol. */
  | 'BadAnswer';

// `string & {}` keeps the known names in an editor's completion and lets any other in.
export type Kind = ServerKind | LocalKind | (string & {});

/** `error` of a JSON-RPC response. */
export interface ErrorObject {
  code: number;
  message: string;
  data?: unknown;
}

export interface ConsoleLine {
  level: 'log' | 'info' | 'warn' | 'error' | 'debug' | (string & {});
  /** As it would stand on a terminal. */
  text: string;
  /** Milliseconds since the start of the eval. */
  atMs: number;
  /** It came after the end of the eval that caused it. */
  late?: boolean;
}

/** Every failure of this library. */
export class ScompError extends Error {
  override readonly name: string = 'ScompError';
  constructor(
    readonly kind: Kind,
    message: string,
    readonly code: number = -32000,
    readonly data?: unknown,
  ) {
    super(message);
  }

  /** What a model or a person needs for the repair: message, place, suggestions, cause. At most 8,000 characters. */
  report(): string {
    return reportOf(this.message, this.data);
  }

  /** Milliseconds after which a refused request may be sent again. */
  get retryAfterMs(): number | undefined {
    const after = member(this.data, 'retryAfterMs');
    return typeof after === 'number' ? after : undefined;
  }
}

/** The server answered with an error. */
export class RemoteError extends ScompError {
  override readonly name: string = 'RemoteError';

  static from({ code, message, data }: ErrorObject): RemoteError {
    const kind = member(data, 'kind');
    return new RemoteError(typeof kind === 'string' ? kind : 'BindingError', message, code, data);
  }

  /** The script's stack trace, for an error that a script threw. */
  get remoteStack(): string | undefined {
    const stack = member(this.data, 'stack');
    return typeof stack === 'string' ? stack : undefined;
  }

  /** What an eval printed before it failed. */
  get console(): ConsoleLine[] {
    const lines = member(this.data, 'console');
    return Array.isArray(lines) ? (lines as ConsoleLine[]) : [];
  }

  /** Names of bindings close to one that the script missed. */
  get suggestions(): string[] {
    const names = member(this.data, 'suggestions');
    return Array.isArray(names) ? names.map(String) : [];
  }

  /** Whether the session's state went with the failed eval. */
  get sessionLost(): boolean {
    return member(this.data, 'sessionLost') === true;
  }
}

/** The connection ended, or could not be opened. */
export class ConnectionError extends ScompError {
  override readonly name: string = 'ConnectionError';
  constructor(
    kind: 'Closed' | 'ConnectionLost' | 'Unauthorized',
    message: string,
    readonly closeCode: number,
  ) {
    super(kind, message);
  }
}

/** The session is gone; a new one has taken its place on this client. */
export class SessionLostError extends ScompError {
  override readonly name: string = 'SessionLostError';
  constructor() {
    super('SessionLost', 'the session is gone, and what the script had declared with it');
  }
}

/** What a handler of ours threw, as the server hears it. */
export function toErrorObject(thrown: unknown): ErrorObject {
  if (thrown instanceof ScompError) {
    return { code: thrown.code, message: thrown.message, data: thrown.data ?? { kind: thrown.kind } };
  }
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  const code = member(thrown, 'code');
  const data = member(thrown, 'data');
  if (Number.isInteger(code)) return { code: code as number, message, ...(data === undefined ? {} : { data }) };
  return { code: -32000, message, data: { kind: 'BindingError' } };
}

function member(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[key] : undefined;
}
