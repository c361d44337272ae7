// What came of each run: its code, what it printed, its value or its error.

import { RemoteError } from 'scomp-client';
import type { ConsoleLine, EvalOutput } from 'scomp-client';

import { bytes, h, milliseconds } from './dom.js';
import { positionIn } from './position.js';
import type { Position } from './position.js';
import { openTree, tree } from './tree.js';

/** Runs that stay on the page. */
export const RUNS_SHOWN_MAX = 200;

/** Console lines of one run that stay on the page; the server keeps a megabyte of them. */
const LINES_SHOWN_MAX = 1000;

/** One run on the page, from its start to its outcome. */
export class Run {
  readonly element: HTMLElement;
  private readonly lines = h('div', { class: 'lines' });
  private readonly outcome = h('div', { class: 'outcome' }, h('span', { class: 'quiet-text' }, 'running…'));
  private readonly facts = h('span', { class: 'facts' });
  private linesShown = 0;

  constructor(
    readonly name: string,
    code: string,
    onAgain: (code: string) => void,
  ) {
    const restore = h(
      'button',
      { class: 'code', title: 'Put this code back into the editor', onclick: () => onAgain(code) },
      code,
    );
    this.element = h(
      'article',
      { class: 'run', 'aria-busy': 'true' },
      h('header', {}, restore, this.facts),
      this.lines,
      this.outcome,
    );
  }

  print({ level, text, late }: ConsoleLine): void {
    this.linesShown += 1;
    if (this.linesShown > LINES_SHOWN_MAX) {
      if (this.linesShown === LINES_SHOWN_MAX + 1)
        this.lines.append(h('div', { class: 'quiet-text' }, 'more was printed than is shown'));
      return;
    }
    this.lines.append(
      h('pre', { class: `line line-${level}` }, late === true && h('span', { class: 'tag' }, 'late'), text),
    );
  }

  succeed({ value, stats, consoleDropped }: EvalOutput): void {
    this.end('ok', openTree(value));
    if (consoleDropped > 0)
      this.lines.append(h('div', { class: 'quiet-text' }, `${consoleDropped} lines were dropped by the server`));
    if (stats === undefined) return;
    const calls =
      stats.bindingCalls === 0 ? '' : ` · ${stats.bindingCalls} ${stats.bindingCalls === 1 ? 'call' : 'calls'}`;
    const times = `${milliseconds(stats.wallMs)} · CPU ${milliseconds(stats.cpuMs)}`;
    this.facts.textContent = `${times}${calls} · ${bytes(stats.memoryBytes)}`;
  }

  /** Shows an error; a place in this run's own code can be gone to. */
  fail(error: unknown, goTo: (position: Position) => void): void {
    const message = error instanceof Error ? error.message : String(error);
    const kind = error instanceof RemoteError ? error.kind : (error as { kind?: string }).kind;
    const parts: Node[] = [
      h('div', { class: 'error-message' }, kind !== undefined && h('span', { class: 'tag bad' }, kind), message),
    ];
    const position = positionIn(error instanceof RemoteError ? error.remoteStack : undefined, this.name);
    if (position !== undefined) {
      const { line, column } = position;
      parts.push(
        h('button', { class: 'quiet position', onclick: () => goTo(position) }, `line ${line}, column ${column}`),
      );
      goTo(position);
    }
    if (error instanceof RemoteError) {
      if (error.suggestions.length > 0)
        parts.push(h('div', { class: 'quiet-text' }, `did you mean ${error.suggestions.join(' or ')}?`));
      const more = { code: error.code, data: error.data };
      parts.push(tree(more, 'details'));
    }
    this.end('bad', ...parts);
  }

  private end(how: string, ...parts: Node[]): void {
    this.element.removeAttribute('aria-busy');
    this.element.classList.add(how);
    this.outcome.replaceChildren(...parts);
  }
}

export class Output {
  private readonly runs: Run[] = [];

  constructor(private readonly element: HTMLElement) {}

  add(run: Run): void {
    this.runs.push(run);
    this.element.querySelector('.empty')?.remove();
    this.element.append(run.element);
    if (this.runs.length > RUNS_SHOWN_MAX) this.runs.shift()?.element.remove();
    this.follow();
  }

  /** Evals run in order, so what is printed belongs to the oldest that is not over, or else came late. */
  print(line: ConsoleLine): void {
    const run = this.runs.find(({ element }) => element.hasAttribute('aria-busy'));
    if (run !== undefined) run.print(line);
    else this.runs.at(-1)?.print({ ...line, late: true });
    this.follow();
  }

  clear(): void {
    for (const run of this.runs.splice(0)) run.element.remove();
  }

  follow(): void {
    this.element.scrollTop = this.element.scrollHeight;
  }
}
