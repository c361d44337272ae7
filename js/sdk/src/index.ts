// The client of scomp-serve. Start at `connect`.

export { connect, Client } from './client.js';
export type { Approval, ApprovalRequest, ClientState, ConnectOptions } from './options.js';
export { binding } from './bindings.js';
export type { Binding, BindingTable, CallContext, Handler, TypedBinding, UntypedBindings } from './bindings.js';
export type { Declaration, Ended, Ticket } from './connection.js';
export type { OnConsole, StreamedLine } from './console.js';
export type { Checkpoint, FoundBinding, SessionInfo } from './controls.js';
export { ConnectionError, RemoteError, ScompError, SessionLostError } from './errors.js';
export type { ConsoleLine, ErrorObject, Kind, LocalKind, ServerKind } from './errors.js';
export type { EvalOptions, EvalOutput, EvalStats } from './evals.js';
export type { ReconnectPolicy } from './reconnect.js';
export type { SchemaInput, SchemaOutput, StandardSchema, ValidationIssue, ValidationResult } from './schemas.js';
export type { SocketConstructor, SocketLike } from './socket.js';
export type { AnyFunction } from './values.js';
