// The live view of the wire: frames both ways, filtered, paused, copied as a transcript.

import { bytes, h } from './dom.js';
import type { Frame, Link } from './link.js';
import { masked, summaryOf, transcriptOf } from './transcript.js';

/** Frames that are kept: enough for the last minutes of a person's work. */
export const FRAMES_KEPT_MAX = 500;

interface Entry {
  frame: Frame;
  row: HTMLElement;
}

export class WirePanel {
  readonly element: HTMLElement;
  private readonly entries: Entry[] = [];
  private readonly rows = h('div', { class: 'frames', role: 'log', 'aria-label': 'Frames' });
  private readonly filter = h('input', {
    type: 'search',
    placeholder: 'Filter: in, out, any text',
    'aria-label': 'Filter frames',
    oninput: () => this.refilter(),
  });
  private readonly pause = h('button', { 'aria-pressed': 'false', onclick: () => this.toggle() }, 'Pause');
  private readonly copied = h('span', { class: 'quiet-text', role: 'status' });
  private isPaused = false;
  private missed = 0;

  constructor(link: Link) {
    const copy = h('button', { onclick: () => void this.copy() }, 'Copy as transcript');
    const clear = h('button', { class: 'quiet', onclick: () => this.clear() }, 'Clear');
    this.element = h(
      'div',
      { class: 'panel-body' },
      h('div', { class: 'toolbar' }, this.filter, this.pause, copy, clear, this.copied),
      this.rows,
    );
    link.frames.listen((frame) => this.add(frame));
  }

  private add(frame: Frame): void {
    if (this.isPaused) {
      this.missed += 1;
      this.pause.textContent = `Go on (${this.missed} missed)`;
      return;
    }
    const row = rowOf(frame);
    const wasAtEnd = this.rows.scrollHeight - this.rows.scrollTop - this.rows.clientHeight < 40;
    row.hidden = !this.matches(frame);
    this.entries.push({ frame, row });
    this.rows.append(row);
    if (this.entries.length > FRAMES_KEPT_MAX) this.entries.shift()?.row.remove();
    if (wasAtEnd) this.rows.scrollTop = this.rows.scrollHeight;
  }

  private matches({ direction, text }: Frame): boolean {
    const words = this.filter.value.trim().toLowerCase().split(/\s+/);
    const way = words[0] === 'in' || words[0] === 'out' ? words.shift() : undefined;
    const lower = text.toLowerCase();
    return (way === undefined || way === direction) && words.every((word) => lower.includes(word));
  }

  private refilter(): void {
    for (const { frame, row } of this.entries) row.hidden = !this.matches(frame);
  }

  private toggle(): void {
    this.isPaused = !this.isPaused;
    this.missed = 0;
    this.pause.textContent = this.isPaused ? 'Go on' : 'Pause';
    this.pause.setAttribute('aria-pressed', String(this.isPaused));
  }

  private clear(): void {
    for (const { row } of this.entries.splice(0)) row.remove();
  }

  private async copy(): Promise<void> {
    const shown = this.entries.filter(({ row }) => !row.hidden).map(({ frame }) => frame);
    const text = transcriptOf(shown);
    this.copied.textContent = await navigator.clipboard.writeText(text).then(
      () => `${shown.length} frames copied`,
      () => 'the browser does not let us copy',
    );
  }
}

function rowOf({ at, direction, text }: Frame): HTMLElement {
  const { what, isError } = summaryOf(text);
  const time = at.toISOString().slice(11, 23);
  const arrow = h(
    'span',
    { class: `arrow arrow-${direction}`, title: direction === 'out' ? 'sent by this page' : 'sent by the server' },
    direction === 'out' ? '→' : '←',
  );
  const summary = h(
    'summary',
    {},
    arrow,
    h('time', {}, time),
    h('span', { class: isError ? 'what bad-text' : 'what' }, what),
    h('span', { class: 'size' }, bytes(text.length)),
  );
  const row = h('details', { class: 'frame' }, summary);
  row.addEventListener('toggle', () => row.append(h('pre', {}, pretty(text))), { once: true });
  return row;
}

function pretty(text: string): string {
  try {
    return masked(JSON.stringify(JSON.parse(text), null, 2)).replace(/("token": )"[^"]*"/g, '$1"…"');
  } catch {
    return text;
  }
}
