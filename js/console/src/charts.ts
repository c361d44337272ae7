// Charts of the server as a whole: evals a second, latency, memory. A point every two seconds.

import { bytes, h, milliseconds, svg } from './dom.js';
import type { Link } from './link.js';
import { parseMetrics, pointBetween } from './metrics.js';
import type { Point, Samples } from './metrics.js';

const ASK_EVERY_MS = 2000;

/** Four minutes. */
const POINTS_MAX = 120;

const [WIDTH, HEIGHT] = [480, 120];

interface Line {
  label: string;
  class: string;
  read: (point: Point) => number | undefined;
}

export class ChartsPanel {
  readonly element: HTMLElement;
  private readonly points: (Point | undefined)[] = [];
  private readonly status = h('p', { class: 'quiet-text', role: 'status' }, 'The first points come in a few seconds.');
  private readonly charts: Chart[] = [
    new Chart('Evals per second', (value) => (value >= 10 ? String(Math.round(value)) : value.toFixed(1)), [
      { label: 'evals/s', class: 'first', read: (point) => point.evalsPerSecond },
    ]),
    new Chart('Latency of evals', milliseconds, [
      { label: 'p50', class: 'first', read: (point) => point.p50 },
      { label: 'p95', class: 'second', read: (point) => point.p95 },
    ]),
    new Chart(
      'Memory of the server',
      bytes,
      [{ label: 'resident', class: 'first', read: (point) => point.memoryBytes }],
      2,
    ),
  ];
  private last: { samples: Samples; at: number } | undefined;
  /** Whether this principal may not see the numbers. */
  private isRefused = false;

  constructor(private readonly link: Link) {
    this.element = h('div', { class: 'panel-body charts' }, this.status, ...this.charts.map(({ element }) => element));
    // Roles do not change while a page is open: one refusal is enough.
    setInterval(() => document.visibilityState === 'visible' && !this.isRefused && void this.ask(), ASK_EVERY_MS);
  }

  private async ask(): Promise<void> {
    const before = this.last;
    this.last = await this.look();
    const seconds = ((this.last?.at ?? 0) - (before?.at ?? 0)) / 1000;
    const point =
      before === undefined || this.last === undefined
        ? undefined
        : pointBetween(before.samples, this.last.samples, seconds);
    this.points.push(point);
    if (this.points.length > POINTS_MAX) this.points.shift();
    this.status.textContent = this.isRefused
      ? 'These numbers are about all sessions of the server: they need the role “operator”.'
      : this.last === undefined
        ? 'The server does not answer.'
        : 'All sessions of this server, the last four minutes.';
    for (const chart of this.charts) chart.draw(this.points);
  }

  /** A server that does not answer leaves a gap. */
  private async look(): Promise<{ samples: Samples; at: number } | undefined> {
    try {
      const answer = await this.link.get('metrics');
      this.isRefused = answer.status === 403;
      return answer.ok ? { samples: parseMetrics(await answer.text()), at: performance.now() } : undefined;
    } catch {
      return undefined;
    }
  }
}

class Chart {
  readonly element: HTMLElement;
  private readonly plot = svg('svg', {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    preserveAspectRatio: 'none',
    'aria-hidden': 'true',
  });
  private readonly legend = h('div', { class: 'legend' });
  private readonly top = h('span', { class: 'axis' });
  private points: (Point | undefined)[] = [];
  private hovered: number | undefined;

  constructor(
    title: string,
    private readonly format: (value: number) => string,
    private readonly lines: Line[],
    private readonly base = 10,
  ) {
    this.element = h(
      'figure',
      { class: 'chart' },
      h('figcaption', {}, h('strong', {}, title), this.legend),
      h('div', { class: 'plot' }, this.top),
    );
    this.element.querySelector('.plot')?.append(this.plot);
    this.plot.addEventListener('pointermove', (event) =>
      this.hover((event as PointerEvent).offsetX / this.plot.clientWidth),
    );
    this.plot.addEventListener('pointerleave', () => this.hover(undefined));
  }

  draw(points: (Point | undefined)[]): void {
    this.points = points;
    const values = this.lines
      .flatMap(({ read }) => points.map((point) => point && read(point)))
      .filter((value) => value !== undefined);
    const max = niceMax(Math.max(0, ...values), this.base);
    this.top.textContent = this.format(max);
    const grid = [0.5, 1].map((share) =>
      svg('line', { class: 'grid', x1: 0, x2: WIDTH, y1: HEIGHT * share, y2: HEIGHT * share }),
    );
    this.plot.replaceChildren(...grid, ...this.lines.map((line) => this.path(line, max)), ...this.cursor());
    this.say();
  }

  private x(index: number): number {
    return WIDTH - ((this.points.length - 1 - index) * WIDTH) / (POINTS_MAX - 1);
  }

  private path({ read, class: name }: Line, max: number): SVGElement {
    const y = (value: number) => HEIGHT - (value / max) * (HEIGHT - 4);
    let path = '';
    let isDown = false;
    this.points.forEach((point, index) => {
      const value = point && read(point);
      if (value !== undefined) {
        const place = `${this.x(index).toFixed(1)} ${y(value).toFixed(1)}`;
        // A point alone is a line of no length, which the round ends make a dot.
        path += isDown ? `L${place}` : `M${place}l0 0`;
      }
      isDown = value !== undefined;
    });
    return svg('path', { class: `series ${name}`, d: path, 'vector-effect': 'non-scaling-stroke' });
  }

  private cursor(): SVGElement[] {
    if (this.hovered === undefined) return [];
    const x = this.x(this.hovered);
    return [svg('line', { class: 'cursor', x1: x, x2: x, y1: 0, y2: HEIGHT })];
  }

  private hover(share: number | undefined): void {
    const index = share === undefined ? undefined : Math.round(this.points.length - 1 - (1 - share) * (POINTS_MAX - 1));
    this.hovered = index !== undefined && index >= 0 && index < this.points.length ? index : undefined;
    this.draw(this.points);
  }

  /** The newest values, or those under the pointer. */
  private say(): void {
    const index = this.hovered ?? this.points.length - 1;
    const point = this.points[index];
    const ago = ((this.points.length - 1 - index) * ASK_EVERY_MS) / 1000;
    const values = this.lines.map(({ label, class: name, read }) => {
      const value = point && read(point);
      return h(
        'span',
        { class: `value ${name}` },
        h('i', {}),
        `${label} ${value === undefined ? '–' : this.format(value)}`,
      );
    });
    this.legend.replaceChildren(...values, h('span', { class: 'quiet-text' }, ago === 0 ? 'now' : `${ago} s ago`));
  }
}

/**
 * A round number not below `value`, so that the axis does not move with every point: 1, 2 or 5 times a power of ten, or
 * a power of two.
 */
export function niceMax(value: number, base = 10): number {
  if (value <= 0) return 1;
  const power = base ** Math.floor(Math.log(value) / Math.log(base));
  const step = [1, 2, 5, 10].find((one) => one * power >= value) ?? 10;
  return step * power;
}
