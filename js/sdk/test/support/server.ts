// The real binary on a free port, and a way to cut its connections.

import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { createConnection, createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../../../', import.meta.url));
export const testBindings = fileURLToPath(new URL('bindings', import.meta.url));
export const transcripts = join(root, 'tests/transcripts');

/** The binary to test: `SCOMP_SERVE`, or the debug build. */
export const binary =
  process.env['SCOMP_SERVE'] ?? join(process.env['CARGO_TARGET_DIR'] ?? join(root, 'target'), 'debug/scomp-serve');

/** Settings as in the file of `--config`; `listen` keeps the port of a server that went before. */
export interface ServerOptions {
  bindings?: string;
  settings?: string;
  listen?: string;
}

export class TestServer {
  private constructor(
    private readonly child: ChildProcess,
    readonly address: string,
  ) {}

  get url(): string {
    return `ws://${this.address}/`;
  }

  static async start({
    bindings = testBindings,
    settings = '',
    listen = '127.0.0.1:0',
  }: ServerOptions = {}): Promise<TestServer> {
    const config = join(mkdtempSync(join(tmpdir(), 'scomp-test-')), 'config.toml');
    writeFileSync(config, settings);
    const args = ['--listen', listen, '--bindings', bindings, '--config', config];
    const child = spawn(binary, args, {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, SCOMP_LOG: 'error' },
    });
    for await (const line of createInterface({ input: child.stdout! })) {
      const address = /listening on http:\/\/(\S+)/.exec(line)?.[1];
      // A package may listen on a port of its own; only the server itself says that it is ready.
      if (address !== undefined && (await fetch(`http://${address}/readyz`)).ok) return new TestServer(child, address);
    }
    throw new Error(`${binary} ended before it listened`);
  }

  /** As a crash is: no goodbye. */
  async kill(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const exited = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.kill('SIGKILL');
    await exited;
  }
}

/** A relay before a server whose connections can be cut, stopped, and refused. */
export class CutPoint {
  private readonly pairs = new Set<[Socket, Socket]>();
  private accepting = true;
  private readonly server = createServer((near) => this.join(near));
  private constructor(private readonly target: string) {}

  static async before(server: TestServer): Promise<CutPoint> {
    const point = new CutPoint(server.address);
    await new Promise<void>((resolve) => point.server.listen(0, '127.0.0.1', resolve));
    return point;
  }

  get url(): string {
    return `ws://127.0.0.1:${(this.server.address() as AddressInfo).port}/`;
  }

  get connections(): number {
    return this.pairs.size;
  }

  /** Ends every connection immediately, both ways, without a close frame. */
  cut(): void {
    for (const [near, far] of this.pairs) {
      near.destroy();
      far.destroy();
    }
    this.pairs.clear();
  }

  /** From here on answers do not arrive, while requests still do; the connection looks alive. Settles when one came. */
  async swallowAnswers(): Promise<void> {
    const swallowed = [...this.pairs].map(async ([near, far]) => {
      far.unpipe(near);
      far.resume();
      await once(far, 'data');
    });
    await Promise.race(swallowed);
  }

  refuse(): void {
    this.accepting = false;
    this.cut();
  }

  accept(): void {
    this.accepting = true;
  }

  close(): void {
    this.refuse();
    this.server.close();
  }

  private join(near: Socket): void {
    if (!this.accepting) return void near.destroy();
    const [host, port] = this.target.split(':') as [string, string];
    const far = createConnection(Number(port), host);
    const pair: [Socket, Socket] = [near, far];
    this.pairs.add(pair);
    near.pipe(far);
    far.pipe(near);
    for (const socket of pair) {
      socket.on('error', () => undefined);
      socket.on('close', () => {
        near.destroy();
        far.destroy();
        this.pairs.delete(pair);
      });
    }
  }
}
