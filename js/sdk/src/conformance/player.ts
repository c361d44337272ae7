// Plays a transcript over a bare WebSocket, as the Rust suite does.

import { once } from 'node:events';

import { WebSocket } from 'ws';

import { difference, filled } from './pattern.js';
import type { Memory } from './pattern.js';
import { settingsOf } from './script.js';
import type { Settings, Step } from './script.js';

/** How long nothing has to come where a transcript says that nothing comes, and how long anything else may take. */
const QUIET_MS = 150;
export const ANSWER_WAIT_MS = 10_000;

type Arrival = { text: string } | { closed: number };

class Wire {
  private readonly arrived: Arrival[] = [];
  private wake = () => {};
  private constructor(readonly socket: WebSocket) {
    socket.on('message', (data) => this.push({ text: String(data) }));
    socket.on('close', (code) => this.push({ closed: code }));
    socket.on('error', () => undefined);
  }

  static async open(url: string, offer: string[], token: string | undefined): Promise<Wire> {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const wire = new Wire(new WebSocket(url, offer, { headers }));
    await once(wire.socket, 'open');
    return wire;
  }

  async next(waitMs: number): Promise<Arrival | undefined> {
    if (this.arrived.length === 0) {
      let timer: ReturnType<typeof setTimeout> | undefined;
      await new Promise<void>((resolve) => {
        this.wake = resolve;
        timer = setTimeout(resolve, waitMs);
      });
      clearTimeout(timer);
    }
    return this.arrived.shift();
  }

  private push(arrival: Arrival): void {
    this.arrived.push(arrival);
    this.wake();
  }
}

export class Player {
  private readonly wires = new Map<string, Wire>();
  private readonly memory: Memory = new Map();
  private readonly evals: number[] = [];
  private nextEval = 1001;
  private current = '';
  private readonly settings: Settings;

  constructor(
    private readonly url: string,
    private readonly steps: Step[],
    private readonly options: { token?: string | undefined; answerWaitMs?: number } = {},
  ) {
    this.settings = settingsOf(steps);
  }

  /** Plays it to the end; an error names the line. */
  async play(): Promise<void> {
    const first = this.steps.find(({ word }) => word !== '#!');
    if (!first?.word.startsWith('==')) await this.connect('', []);
    try {
      for (const step of this.steps) {
        await this.step(step).catch((error: Error) => {
          throw new Error(`line ${step.line}: ${error.message}`);
        });
      }
    } finally {
      for (const { socket } of this.wires.values()) socket.terminate();
    }
  }

  private async step({ word, rest }: Step): Promise<void> {
    switch (word) {
      case '#!':
        return;
      case '==':
        return this.connect(rest, []);
      case '<=':
        return same(rest === '-' ? '' : rest, this.wire.socket.protocol);
      case '>>':
        return this.wire.socket.send(filled(rest, this.memory));
      case '>b':
        return this.wire.socket.send(Buffer.from(rest));
      case '<<':
        return this.expect(rest);
      case '<<=':
        return same({ text: rest }, await this.next());
      case '<!':
        return same({ closed: Number(rest) }, await this.next());
      case '<.':
        return same(undefined, await this.wire.next(QUIET_MS));
      case '>!':
        return this.leave(rest);
      case 'js>':
        return this.eval(rest);
      case 'js<':
        return this.answer(`"result":{"value":${rest},"...":"*"}`);
      case 'js!':
        return this.answer(`"error":${lenient(rest)}`);
      default:
        return this.connect(
          rest,
          word
            .slice(3, -1)
            .split(',')
            .map((name) => name.trim()),
        );
    }
  }

  private get wire(): Wire {
    const wire = this.wires.get(this.current);
    if (wire === undefined) throw new Error('the connection is closed');
    return wire;
  }

  private next(): Promise<Arrival | undefined> {
    return this.wire.next(this.options.answerWaitMs ?? ANSWER_WAIT_MS);
  }

  private async connect(name: string, offer: string[]): Promise<void> {
    this.current = name;
    if (this.wires.has(name)) return;
    this.wires.set(name, await Wire.open(this.url, offer, this.options.token));
    if (!this.settings.live) return;
    const params = { ...this.settings.params, protocol: '0.1' };
    this.wire.socket.send(JSON.stringify({ jsonrpc: '2.0', id: 'live', method: 'handshake', params }));
    await this.expect('{"jsonrpc":"2.0","id":"live","result":"*"}');
  }

  private async leave(how: string): Promise<void> {
    const { socket } = this.wire;
    this.wires.delete(this.current);
    const closed = once(socket, 'close');
    if (how === 'drop') socket.terminate();
    else socket.close();
    await closed;
  }

  private eval(code: string): void {
    const id = this.nextEval++;
    this.evals.push(id);
    this.wire.socket.send(
      JSON.stringify({ jsonrpc: '2.0', id, method: 'eval', params: { code: filled(code, this.memory) } }),
    );
  }

  private answer(outcome: string): Promise<void> {
    return this.expect(`{"jsonrpc":"2.0","id":${this.evals.shift()},${outcome}}`);
  }

  private async expect(json: string): Promise<void> {
    const arrival = await this.next();
    if (arrival === undefined || !('text' in arrival))
      throw new Error(`expected ${json}, got ${JSON.stringify(arrival)}`);
    const found = difference(JSON.parse(json), JSON.parse(arrival.text), this.memory);
    if (found !== undefined) throw new Error(`${found}\n    in ${arrival.text}`);
  }
}

function same(expected: unknown, got: unknown): void {
  if (JSON.stringify(expected) !== JSON.stringify(got)) {
    throw new Error(`expected ${JSON.stringify(expected)}, got ${JSON.stringify(got)}`);
  }
}

/** An expected error, with further members allowed in it and in its data. */
export function lenient(json: string): string {
  const error = JSON.parse(json) as Record<string, unknown>;
  error['...'] = '*';
  if (typeof error['data'] === 'object' && error['data'] !== null) Object.assign(error['data'], { '...': '*' });
  return JSON.stringify(error);
}
