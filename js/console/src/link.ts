// The page's session: the connection, what it asks of the person, and what passes on the wire.

import { RemoteError, connect } from 'scomp-client';
import type { Approval, ApprovalRequest, CallContext, Client, ConsoleLine, Declaration, Ticket } from 'scomp-client';

import { Signal, remembered } from './dom.js';

export type LinkState = 'connecting' | 'connected' | 'reconnecting' | 'closed' | 'token';

export interface Frame {
  at: Date;
  direction: 'in' | 'out';
  text: string;
}

/** Something a person has to decide before a script goes on. */
export type Request =
  | { type: 'approval'; request: ApprovalRequest; decide(approval: Approval): void; withdrawn: AbortSignal }
  | { type: 'question'; question: string; answer(text: string): void; withdrawn: AbortSignal };

const ticketKept = remembered(() => sessionStorage, 'scomp.session');
const tokenKept = remembered(() => sessionStorage, 'scomp.token');

const message = {
  type: 'object',
  properties: { message: { type: 'string' } },
  required: ['message'],
  additionalProperties: false,
};
const question = {
  type: 'object',
  properties: { question: { type: 'string' } },
  required: ['question'],
  additionalProperties: false,
};

/** How long a person may take to answer a question of a script: as long as the server lets a client take. */
const ANSWER_MS_MAX = 600_000;

/** Whether a binding is there for clients alone. */
export function isControl({ name }: Declaration): boolean {
  return /^(session|bindings)\./.test(name);
}

export class Link {
  readonly state = new Signal<LinkState>();
  readonly frames = new Signal<Frame>();
  readonly requests = new Signal<Request>();
  readonly lines = new Signal<ConsoleLine>();
  readonly notes = new Signal<string>();
  /** Whether the session's own state survived a break, or a reload of the page. */
  readonly returned = new Signal<{ resumed: boolean }>();
  client: Client | undefined;
  /** What was said when the connection was closed for good. */
  closedBecause = '';

  /** The session to resume when it connects. */
  resumeWith(ticket: Ticket): void {
    ticketKept.set(JSON.stringify(ticket));
  }

  /** Connects; asks for a token first if the server wants one. */
  async open(token: string | null = tokenKept.get()): Promise<void> {
    this.state.emit('connecting');
    try {
      const { status } = await this.get('console/sessions', token);
      if (status === 401) {
        tokenKept.set(null);
        return this.state.emit('token');
      }
      tokenKept.set(token);
      await this.connect(token);
    } catch {
      this.closedBecause = 'the server cannot be reached';
      this.state.emit('closed');
    }
  }

  /** A page of the server, with the token of the login. */
  get(path: string, token: string | null = tokenKept.get()): Promise<Response> {
    return fetch(path, { headers: token === null ? {} : { Authorization: `Bearer ${token}` } });
  }

  private async connect(token: string | null): Promise<void> {
    const kept = ticketKept.get();
    const ticket = kept === null ? undefined : (JSON.parse(kept) as Ticket);
    try {
      await this.attach(token, ticket);
      if (ticket !== undefined) this.returned.emit({ resumed: true });
    } catch (error) {
      const isGone = error instanceof RemoteError && error.kind === 'SessionRefused';
      if (!isGone || ticket === undefined) throw error;
      ticketKept.set(null);
      await this.attach(token, undefined);
    }
  }

  private async attach(token: string | null, session: Ticket | undefined): Promise<void> {
    const url = new URL('scomp', location.href.replace(/^http/, 'ws')).href;
    const client: Client = await connect(url, {
      ...(token === null ? {} : { token }),
      ...(session === undefined ? {} : { session }),
      bindings: this.bindings(),
      approve: (request, { signal }) => this.approve(request, signal),
      onConsole: (line) => this.lines.emit(line),
      onFrame: (direction, text) => this.frames.emit({ at: new Date(), direction, text }),
      onState: (state) => this.onState(state),
      onReconnect: (event) => {
        this.keep(client);
        this.returned.emit(event);
      },
    });
    this.client = client;
    this.keep(client);
    this.state.emit('connected');
    void client.closed.then(({ reason }) => {
      this.closedBecause = reason;
      this.state.emit('closed');
    });
  }

  private keep(client: Client): void {
    const { id, token } = client.session;
    ticketKept.set(JSON.stringify({ id, token }));
  }

  private onState(state: 'connected' | 'reconnecting' | 'closed'): void {
    // The first `connected` comes before there is a client to show.
    if (this.client !== undefined) this.state.emit(state);
  }

  /** What scripts can call: the server's bindings but its controls, and those of this page. */
  get scriptBindings(): Declaration[] {
    const own = Object.entries(this.bindings()).map(([name, { handler: _, ...declaration }]) => ({
      name,
      ...declaration,
    }));
    return [...(this.client?.declarations ?? []).filter((one) => !isControl(one)), ...own];
  }

  /** What scripts can do to the page. */
  private bindings() {
    return {
      'page.notify': {
        description: 'Show a message on the page.',
        input: message,
        handler: ({ message }: { message: string }) => (this.notes.emit(message), null),
      },
      'page.ask': {
        description: 'Ask the person at the page; gives the answer.',
        input: question,
        output: { type: 'string' },
        limits: { timeoutMs: ANSWER_MS_MAX },
        handler: ({ question }: { question: string }, { signal }: CallContext) => this.ask(question, signal),
      },
    };
  }

  private ask(question: string, withdrawn: AbortSignal): Promise<string> {
    return new Promise((answer) => this.requests.emit({ type: 'question', question, answer, withdrawn }));
  }

  private approve(request: ApprovalRequest, withdrawn: AbortSignal): Promise<Approval> {
    return new Promise((decide) => this.requests.emit({ type: 'approval', request, decide, withdrawn }));
  }
}
