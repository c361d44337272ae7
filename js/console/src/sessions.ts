// The live list of sessions: what each does and uses.

import { bytes, h, milliseconds } from './dom.js';
import type { Link } from './link.js';

const ASK_EVERY_MS = 1000;

export interface Listed {
  id: string;
  principal: string;
  connected: boolean;
  info: {
    running: boolean;
    evalsQueued: number;
    evalsDone: number;
    memoryBytes: number;
    cpuMs: number;
    callsInFlight: number;
    timers: number;
  } | null;
}

interface Answer {
  principal: string;
  roles: string[];
  sessions: Listed[];
}

export class SessionsPanel {
  readonly element: HTMLElement;
  private readonly rows = h('tbody');
  private readonly status = h('p', { class: 'quiet-text', role: 'status' });
  /** CPU time at the last look, to show what is used now. */
  private before = new Map<string, { cpuMs: number; at: number }>();

  private isOperator = false;

  constructor(
    private readonly link: Link,
    private readonly isShown: () => boolean,
  ) {
    const heads = ['Session', 'Principal', 'State', 'Queue', 'Done', 'Memory', 'CPU', 'CPU now'].map((text) =>
      h('th', { scope: 'col' }, text),
    );
    const table = h('table', {}, h('thead', {}, h('tr', {}, ...heads)), this.rows);
    this.element = h(
      'div',
      { class: 'panel-body' },
      this.status,
      h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Sessions' }, table),
    );
    setInterval(() => this.isShown() && document.visibilityState === 'visible' && void this.ask(), ASK_EVERY_MS);
  }

  /** Looks now, and then every second. */
  async ask(): Promise<void> {
    try {
      // Only an operator may ask for all; the first answer says whether this is one.
      const answer = await this.link.get(this.isOperator ? 'console/sessions?scope=all' : 'console/sessions');
      if (answer.status === 403) this.isOperator = false;
      if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
      const { principal, roles, sessions } = (await answer.json()) as Answer;
      const owner = this.isOperator ? 'all principals' : principal;
      this.status.textContent = `${sessions.length} ${sessions.length === 1 ? 'session' : 'sessions'} of ${owner}`;
      this.isOperator = roles.includes('operator');
      this.show(sessions);
    } catch (error) {
      this.status.textContent = `The server does not say: ${(error as Error).message}`;
    }
  }

  private show(sessions: Listed[]): void {
    const now = performance.now();
    const own = this.link.client?.session.id;
    // One's own first, then those that do something, then by name, so that rows stay where they are.
    const rank = ({ id, info }: Listed) => (id === own ? 0 : info?.running === true ? 1 : 2);
    const sorted = sessions.toSorted((a, b) => rank(a) - rank(b) || a.id.localeCompare(b.id));
    this.rows.replaceChildren(...sorted.map((one) => this.row(one, one.id === own, now)));
    this.before = new Map(sessions.map(({ id, info }) => [id, { cpuMs: info?.cpuMs ?? 0, at: now }]));
  }

  private row({ id, principal, connected, info }: Listed, isOwn: boolean, now: number): HTMLElement {
    const last = this.before.get(id);
    const share =
      info === null || last === undefined ? undefined : Math.max(0, (info.cpuMs - last.cpuMs) / (now - last.at));
    const state = info === null ? 'gone' : info.running ? 'running' : connected ? 'idle' : 'detached';
    const cells = [
      h('td', { class: 'id', title: id }, `${id.slice(0, 13)}…`, isOwn && h('span', { class: 'tag' }, 'this page')),
      h('td', {}, principal),
      h('td', {}, h('span', { class: `state state-${state}` }, state)),
      ...(info === null
        ? ['', '', '', '']
        : [String(info.evalsQueued), String(info.evalsDone), bytes(info.memoryBytes), milliseconds(info.cpuMs)]
      ).map((text) => h('td', { class: 'number' }, text)),
      h('td', { class: 'number' }, share === undefined ? '' : `${Math.round(share * 100)} %`),
    ];
    return h('tr', {}, ...cells);
  }
}
