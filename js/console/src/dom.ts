// Elements in one line, and values that others listen to.

type Child = Node | string | undefined | false;
type Props = Record<string, string | boolean | number | undefined | ((event: never) => void)>;

/** An element: `on…` are listeners, `class` is the class, booleans are present or absent, the rest are attributes. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props: Props = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (typeof value === 'function') element.addEventListener(name.slice(2), value as EventListener);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== undefined && value !== false) element.setAttribute(name, String(value));
  }
  element.append(...children.filter((child): child is Node | string => child !== undefined && child !== false));
  return element;
}

/** The same for SVG. */
export function svg(
  tag: string,
  attributes: Record<string, string | number>,
  ...children: (Node | string)[]
): SVGElement {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`the page has no #${id}`);
  return element as T;
}

/** An event, and its listeners. */
export class Signal<T> {
  private readonly listeners = new Set<(value: T) => void>();

  listen(listener: (value: T) => void): void {
    this.listeners.add(listener);
  }

  emit(value: T): void {
    for (const listener of this.listeners) listener(value);
  }
}

/** Storage that a browser may have switched off. */
export function remembered(
  storage: () => Storage,
  key: string,
): { get(): string | null; set(value: string | null): void } {
  return {
    get: () => {
      try {
        return storage().getItem(key);
      } catch {
        return null;
      }
    },
    set: (value) => {
      try {
        if (value === null) storage().removeItem(key);
        else storage().setItem(key, value);
      } catch {
        // Nothing is remembered then, and nothing else is lost.
      }
    },
  };
}

export function bytes(count: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB'];
  let value = count;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

export function milliseconds(ms: number): string {
  if (ms >= 10_000) return `${(ms / 1000).toFixed(1)} s`;
  return ms >= 100 ? `${Math.round(ms)} ms` : `${ms.toFixed(ms >= 10 ? 1 : 2)} ms`;
}
