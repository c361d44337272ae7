// What `connect` takes.

import type { BindingTable, CallContext } from './bindings.js';
import type { Ticket } from './connection.js';
import type { OnConsole } from './console.js';
import type { ReconnectPolicy } from './reconnect.js';
import type { SocketConstructor } from './socket.js';

/** What the server asks before a binding runs whose effects need approval. */
export interface ApprovalRequest {
  binding: string;
  input: unknown;
  effects: string[];
  evalId?: number | string;
}

export type Approval = boolean | { allow: boolean; reason?: string };

export type ClientState = 'connected' | 'reconnecting' | 'closed';

export interface ConnectOptions {
  /** Functions that scripts may call, by their (dotted) names. */
  bindings?: BindingTable;
  /** The bearer token, if the server wants one. */
  token?: string;
  /** A session to come back to, as `client.session` or `client.detach()` gave it. */
  session?: Ticket;
  /** Gets console lines as they are printed. */
  onConsole?: OnConsole;
  /** `false`: console lines come with the outcome of their eval alone. */
  streamConsole?: boolean;
  /** Decides over calls that need approval, within 10 minutes by default; without it they are refused. */
  approve?: (request: ApprovalRequest, context: CallContext) => Approval | Promise<Approval>;
  /** `false` ends the client with its connection. */
  reconnect?: Partial<ReconnectPolicy> | false;
  /**
   * The connection came back; `resumed: false` means that the session and its state are gone. Without this hook, the next
   * eval after such a loss fails with `SessionLost`, once.
   */
  onReconnect?: (event: { resumed: boolean }) => void;
  onState?: (state: ClientState) => void;
  /** Sees every frame, for a view of the wire. */
  onFrame?: (direction: 'in' | 'out', text: string) => void;
  /** Needed where WebSocket is not a global. */
  WebSocket?: SocketConstructor;
  heartbeatMs?: number;
}
