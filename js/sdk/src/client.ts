// A session on a server, held over as many connections as it takes.

import { bindingsProxy, declarationsOf, handlerOf } from './bindings.js';
import type { BindingTable, UntypedBindings } from './bindings.js';
import { Connection } from './connection.js';
import type { Declaration, Dial, Ended, Ticket, Welcome } from './connection.js';
import { CONSOLE_INPUT, readLines } from './console.js';
import { Controls } from './controls.js';
import { ConnectionError, ScompError, SessionLostError } from './errors.js';
import { Evals } from './evals.js';
import type { EvalOptions, EvalOutput } from './evals.js';
import { HEARTBEAT_MS_DEFAULT, startHeartbeat } from './heartbeat.js';
import { callHook } from './hooks.js';
import type { ClientState, ConnectOptions } from './options.js';
import type { Peer, PeerHandler } from './peer.js';
import { RECONNECT_DEFAULT, isUnexpected, waitMs } from './reconnect.js';
import type { ReconnectPolicy } from './reconnect.js';
import { socketConstructor } from './socket.js';
import type { SocketConstructor } from './socket.js';
import { toBase64 } from './values.js';
import type { AnyFunction } from './values.js';

/** Calls that wait for a connection. Past it a caller that never looks back would fill the memory: `Busy`. */
export const CALLS_WAITING_MAX = 10_000;

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

export class Client<B = UntypedBindings> extends Controls implements AsyncDisposable {
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
  /** The session was lost while no eval waited, and there is no hook: the next eval says so. */
  private reportsLoss = false;
  private finish!: (ended: Ended) => void;

  /** Use `connect`. */
  constructor(
    url: string,
    private readonly options: ConnectOptions,
    Socket: SocketConstructor,
  ) {
    super();
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
    if (this.reportsLoss) {
      this.reportsLoss = false;
      throw new SessionLostError();
    }
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
  async close(): Promise<void> {
    await this.leave(false);
  }

  /** Leaves the session on the server for `ttlMs`; `connect(url, { session })` with what it returns resumes it. */
  async detach(): Promise<Ticket & { ttlMs: number }> {
    const { session } = this;
    await this.leave(true);
    return session;
  }

  /** `await using client = await connect(url)` closes it at the end of the block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  private async leave(keepsSession: boolean): Promise<void> {
    if (!this.isClosing) {
      this.keepsSession = keepsSession;
      this.closing.abort();
      if (this.connection === undefined) this.end({ code: 1000, reason: 'closed' });
      else {
        this.failWaiting(this.closedError());
        this.connection.close(!keepsSession);
      }
    }
    await this.closed;
  }

  private get isClosing(): boolean {
    return this.state === 'closed' || this.closing.signal.aborted;
  }

  private reservedBindings(): BindingTable {
    const { streamConsole = true, approve } = this.options;
    const table: BindingTable = {};
    if (streamConsole) table['console.write'] = { input: CONSOLE_INPUT, handler: (input) => this.onConsole(input) };
    if (approve !== undefined) {
      table['approve'] = async (request, context) => {
        const approval = await approve(request, context);
        return typeof approval === 'boolean' ? { allow: approval } : approval;
      };
    }
    return table;
  }

  private onConsole(input: unknown): null {
    for (const line of readLines(input)) {
      callHook(this.options.onConsole, line);
      this.evals.onConsole(line);
    }
    return null;
  }

  private attach(connection: Connection, welcome: Welcome): void {
    this.connection = connection;
    this.welcome = welcome;
    this.become('connected');
    this.evals.attach(connection.peer);
    for (const { resolve } of this.waiting) resolve(connection.peer);
    this.waiting.clear();
    const stopHeartbeat = startHeartbeat(connection, this.options.heartbeatMs ?? HEARTBEAT_MS_DEFAULT);
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
    if (!Array.isArray(opened)) return this.end(ended, opened);
    const [connection, welcome] = opened;
    if (!welcome.resumed) {
      const failed = this.evals.failAll(new SessionLostError());
      // Without a hook the program would never learn of it.
      this.reportsLoss = failed === 0 && this.options.onReconnect === undefined;
    }
    this.attach(connection, welcome);
    callHook(this.options.onReconnect, { resumed: welcome.resumed });
  }

  /** Dials until it works, the attempts are used up, the token is refused, or the client is closed. */
  private async dialAgain(policy: ReconnectPolicy): Promise<[Connection, Welcome] | ConnectionError | undefined> {
    for (let attempt = 0; attempt < policy.attempts; attempt += 1) {
      await sleep(waitMs(policy, attempt), this.closing.signal);
      if (this.closing.signal.aborted) return undefined;
      try {
        const opened = await Connection.open(this.dial, this.welcome?.ticket, true);
        if (!this.closing.signal.aborted) return opened;
        opened[0].close(!this.keepsSession);
      } catch (error) {
        if (error instanceof ConnectionError && error.kind === 'Unauthorized') return error;
        // The next attempt may succeed; when none does, the caller gets the first reason.
      }
    }
    return undefined;
  }

  private end(ended: Ended, why?: ConnectionError): void {
    if (this.state === 'closed') return;
    this.become('closed');
    const message = `the connection is closed (${ended.code}) ${ended.reason}`.trim();
    this.failWaiting(why ?? new ConnectionError('Closed', message, ended.code));
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
