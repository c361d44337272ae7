// A session on a server, held over as many connections as it takes.

import { bindingsProxy, declarationsOf, handlerOf } from './bindings.js';
import type { BindingTable, CallContext, UntypedBindings } from './bindings.js';
import { Connection } from './connection.js';
import type { Declaration, Dial, Ended, Ticket, Welcome } from './connection.js';
import { ConnectionError, ScompError, SessionLostError } from './errors.js';
import type { ConsoleLine } from './errors.js';
import { Evals } from './evals.js';
import type { EvalOptions, EvalOutput } from './evals.js';
import { callHook } from './hooks.js';
import type { Peer, PeerHandler } from './peer.js';
import { RECONNECT_DEFAULT, isUnexpected, waitMs } from './reconnect.js';
import type { ReconnectPolicy } from './reconnect.js';
import { socketConstructor } from './socket.js';
import type { SocketConstructor } from './socket.js';
import { toBase64 } from './values.js';
import type { AnyFunction } from './values.js';

/** Calls that wait for a connection. Past it a caller that never looks back would fill the memory: `Busy`. */
export const CALLS_WAITING_MAX = 10_000;

/** How long a connection may be idle before a ping is sent, and then how long the answer may take. */
const HEARTBEAT_MS_DEFAULT = 30_000;

/** What the server asks before a binding runs whose effects need approval. */
export interface ApprovalRequest {
  binding: string;
  input: unknown;
  effects: string[];
  evalId?: number | string;
}

export type Approval = boolean | { allow: boolean; reason?: string };

export interface ConnectOptions {
  /** Functions that scripts may call, by their (dotted) names. */
  bindings?: BindingTable;
  /** The bearer token, if the server wants one. */
  token?: string;
  /** A session to come back to, as `client.session` gave it. */
  session?: Ticket;
  /** Gets console lines as they are printed. */
  onConsole?: (line: ConsoleLine & { evalId?: number | string }) => void;
  /** Decides over calls that need approval, within 10 minutes by default; without it they are refused. */
  approve?: (request: ApprovalRequest, context: CallContext) => Approval | Promise<Approval>;
  /** `false` ends the client with its connection. */
  reconnect?: Partial<ReconnectPolicy> | false;
  /** The connection came back; `resumed: false` means that the session and its state are gone. */
  onReconnect?: (event: { resumed: boolean }) => void;
  onState?: (state: ClientState) => void;
  /** Sees every frame, for a view of the wire. */
  onFrame?: (direction: 'in' | 'out', text: string) => void;
  /** Needed where WebSocket is not a global. */
  WebSocket?: SocketConstructor;
  heartbeatMs?: number;
}

export interface CloseOptions {
  /** Leaves the session on the server, for `ttlMs`, to be resumed with `client.session`. */
  keepSession?: boolean;
}

export type ClientState = 'connected' | 'reconnecting' | 'closed';

/** Connects, performs the handshake, and returns a client for the session. `B` is the type that `scomp-types` generates. */
export async function connect<B = UntypedBindings>(url: string, options: ConnectOptions = {}): Promise<Client<B>> {
  const Socket = await socketConstructor(options.WebSocket);
  const client = new Client<B>(url, options, Socket);
  await client.start();
  return client;
}

interface Waiting {
  resolve(peer: Peer): void;
  reject(error: Error): void;
}

export class Client<B = UntypedBindings> {
  /** The server's bindings as functions. */
  readonly bindings: B;
  /** Settles when the client is closed for good. */
  readonly closed: Promise<Ended>;
  private state: ClientState = 'reconnecting';
  private connection: Connection | undefined;
  private welcome: Welcome | undefined;
  private readonly waiting = new Set<Waiting>();
  private readonly evals: Evals;
  private readonly dial: Dial;
  private readonly policy: ReconnectPolicy | undefined;
  private readonly closing = new AbortController();
  private readonly handlers = new Map<string, PeerHandler>();
  private keepsSession = false;
  private finish!: (ended: Ended) => void;

  /** Use `connect`. */
  constructor(
    url: string,
    private readonly options: ConnectOptions,
    Socket: SocketConstructor,
  ) {
    const { token, onFrame, reconnect } = options;
    const table = { ...options.bindings, ...this.reservedBindings() };
    for (const [name, binding] of Object.entries(table)) {
      const handler = handlerOf(binding);
      this.handlers.set(name, (input, signal) => handler(input, { client: this as unknown as Client, signal }));
    }
    this.dial = { url, token, Socket, declarations: declarationsOf(table), handlers: this.handlers, onFrame };
    this.policy = reconnect === false ? undefined : { ...RECONNECT_DEFAULT, ...reconnect };
    this.evals = new Evals(this.policy === undefined ? undefined : keyMaker());
    this.bindings = bindingsProxy(
      () => this.declarations.map(({ name }) => name),
      (name, input) => this.invoke(name, input),
    ) as B;
    this.closed = new Promise((resolve) => (this.finish = resolve));
  }

  /** The first connection; `connect` awaits it. */
  async start(): Promise<void> {
    this.attach(...(await Connection.open(this.dial, this.options.session, false)));
  }

  /** Runs code and returns its value. */
  async eval<T = unknown>(code: string, options: EvalOptions = {}): Promise<T> {
    return (await this.run<T>(code, options)).value;
  }

  /** Runs code and returns its value with its console output and, if requested, its statistics. */
  async run<T = unknown>(code: string, options: EvalOptions = {}): Promise<EvalOutput<T>> {
    if (this.isClosing) throw this.closedError();
    return (await this.evals.run(code, options)) as EvalOutput<T>;
  }

  /** Calls a binding of the server. One that is under way when the connection breaks fails with `ConnectionLost`. */
  async invoke<T = unknown>(binding: string, input: unknown = {}): Promise<T> {
    const peer = await this.peer();
    return (await peer.invoke({ binding }, [input])) as T;
  }

  /** Releases a function that the server sent, before the collector does. */
  release(fn: AnyFunction): boolean {
    return this.connection?.peer.imports.release(fn) ?? false;
  }

  /** What it takes to come back to this session from elsewhere. */
  get session(): Ticket & { ttlMs: number } {
    const { ticket, ttlMs } = this.welcome as Welcome;
    return { ...ticket, ttlMs };
  }

  /** What the server offers. */
  get declarations(): Declaration[] {
    return this.welcome?.bindings ?? [];
  }

  /** What the server said of itself. */
  get metadata(): Record<string, unknown> {
    return this.welcome?.metadata ?? {};
  }

  get connectionState(): ClientState {
    return this.state;
  }

  /**
   * Ends the session and the connection; what still waits fails with `Closed`. Without a connection the session stays
   * on the server until its time is over.
   */
  async close({ keepSession = false }: CloseOptions = {}): Promise<void> {
    if (!this.isClosing) {
      this.keepsSession = keepSession;
      this.closing.abort();
      if (this.connection === undefined) this.end({ code: 1000, reason: 'closed' });
      else {
        this.failWaiting(this.closedError());
        this.connection.close(!keepSession);
      }
    }
    await this.closed;
  }

  private get isClosing(): boolean {
    return this.state === 'closed' || this.closing.signal.aborted;
  }

  private reservedBindings(): BindingTable {
    const { onConsole, approve } = this.options;
    const table: BindingTable = {};
    if (onConsole !== undefined) table['console.write'] = (line) => (onConsole(line), null);
    if (approve !== undefined) {
      table['approve'] = async (request, context) => {
        const approval = await approve(request, context);
        return typeof approval === 'boolean' ? { allow: approval } : approval;
      };
    }
    return table;
  }

  private attach(connection: Connection, welcome: Welcome): void {
    this.connection = connection;
    this.welcome = welcome;
    this.become('connected');
    this.evals.attach(connection.peer);
    for (const { resolve } of this.waiting) resolve(connection.peer);
    this.waiting.clear();
    const stopHeartbeat = this.beat(connection);
    void connection.ended.then((ended) => {
      stopHeartbeat();
      void this.onEnded(ended);
    });
  }

  private async onEnded(ended: Ended): Promise<void> {
    this.connection = undefined;
    if (this.closing.signal.aborted || this.policy === undefined || !isUnexpected(ended.code)) return this.end(ended);
    this.evals.detach(this.lostError(ended));
    this.become('reconnecting');
    const opened = await this.dialAgain(this.policy);
    if (opened === undefined) return this.end(ended);
    const [connection, welcome] = opened;
    if (!welcome.resumed) this.evals.failAll(new SessionLostError());
    this.attach(connection, welcome);
    callHook(this.options.onReconnect, { resumed: welcome.resumed });
  }

  /** Dials until it works, the attempts are used up, or the client is closed. */
  private async dialAgain(policy: ReconnectPolicy): Promise<[Connection, Welcome] | undefined> {
    for (let attempt = 0; attempt < policy.attempts; attempt += 1) {
      await sleep(waitMs(policy, attempt), this.closing.signal);
      if (this.closing.signal.aborted) return undefined;
      try {
        const opened = await Connection.open(this.dial, this.welcome?.ticket, true);
        if (!this.closing.signal.aborted) return opened;
        opened[0].close(!this.keepsSession);
      } catch {
        // The next attempt may fare better; when none does, the first reason is what the caller hears.
      }
    }
    return undefined;
  }

  private end(ended: Ended): void {
    if (this.state === 'closed') return;
    this.become('closed');
    const error = new ConnectionError(
      'Closed',
      `the connection is closed (${ended.code}) ${ended.reason}`.trim(),
      ended.code,
    );
    this.failWaiting(error);
    this.finish(ended);
  }

  private failWaiting(error: Error): void {
    this.evals.failAll(error);
    for (const { reject } of this.waiting) reject(error);
    this.waiting.clear();
  }

  private async peer(): Promise<Peer> {
    if (this.isClosing) throw this.closedError();
    if (this.connection?.isOver === false) return this.connection.peer;
    if (this.waiting.size >= CALLS_WAITING_MAX) {
      throw new ScompError('Busy', `${CALLS_WAITING_MAX} calls wait for the connection`);
    }
    return new Promise((resolve, reject) => this.waiting.add({ resolve, reject }));
  }

  /** A peer that vanished leaves a socket that looks alive: pings it, and abandons it if no answer comes. */
  private beat(connection: Connection): () => void {
    const everyMs = this.options.heartbeatMs ?? HEARTBEAT_MS_DEFAULT;
    let pinged = false;
    const timer = setInterval(() => {
      if (connection.heard) pinged = false;
      else if (pinged) return connection.abandon(1006, 'ping timed out');
      else {
        pinged = true;
        connection.peer.control('session.info', {}).catch(() => undefined);
      }
      connection.heard = false;
    }, everyMs);
    (timer as { unref?: () => void }).unref?.();
    return () => clearInterval(timer);
  }

  private become(state: ClientState): void {
    this.state = state;
    callHook(this.options.onState, state);
  }

  private lostError({ code, reason }: Ended): ConnectionError {
    return new ConnectionError('ConnectionLost', `the connection broke (${code}) ${reason}`.trim(), code);
  }

  private closedError(): ConnectionError {
    return new ConnectionError('Closed', 'the client is closed', 1000);
  }
}

/** Keys that no other client of the session makes. Not `randomUUID`: pages that came over plain HTTP lack it. */
function keyMaker(): () => string {
  const prefix = toBase64(crypto.getRandomValues(new Uint8Array(15)));
  let made = 0;
  return () => `${prefix}/${(made += 1)}`;
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', done);
  });
}
