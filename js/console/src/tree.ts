// A value as a tree: closed at first, opened by click or by keyboard, its members made when they are looked at.

import { h } from './dom.js';

/** Members shown at first; the rest comes on request, so that a large array does not stop the page. */
export const MEMBERS_SHOWN_MAX = 100;

/** Characters of a text or of a preview. */
const PREVIEW_CHARS_MAX = 80;

type Member = [label: string, value: unknown];

/** The view of a value, with the name under which it stands, if any. */
export function tree(value: unknown, label?: string): HTMLElement {
  const members = membersOf(value);
  const head: (Node | string)[] = label === undefined ? [] : [h('span', { class: 'tree-key' }, label), ': '];
  if (members.length === 0) return h('div', { class: 'tree-leaf' }, ...head, leaf(value));
  const summary = h('summary', {}, ...head, h('span', { class: 'tree-preview' }, preview(value)));
  const node = h('details', { class: 'tree' }, summary);
  let isFilled = false;
  const open = () => {
    if (!isFilled) fill(node, members);
    isFilled = true;
    node.open = true;
  };
  node.addEventListener('toggle', () => node.open && open());
  // Not left to `toggle`, which comes later: the next key may already want to go down.
  summary.addEventListener('keydown', (event) => onKey(event, node, open));
  openers.set(node, open);
  return node;
}

/** The same, with its members to be seen. */
export function openTree(value: unknown): HTMLElement {
  const node = tree(value);
  openers.get(node)?.();
  return node;
}

const openers = new WeakMap<HTMLElement, () => void>();

function fill(node: HTMLElement, members: Member[]): void {
  const list = h('div', { class: 'tree-members' });
  const show = (from: number) => {
    for (const [label, value] of members.slice(from, from + MEMBERS_SHOWN_MAX)) list.append(tree(value, label));
    const rest = members.length - from - MEMBERS_SHOWN_MAX;
    if (rest <= 0) return;
    const more = h(
      'button',
      { class: 'quiet', onclick: () => (more.remove(), show(from + MEMBERS_SHOWN_MAX)) },
      `${rest} more`,
    );
    list.append(more);
  };
  show(0);
  node.append(list);
}

function membersOf(value: unknown): Member[] {
  if (typeof value !== 'object' || value === null || value instanceof Date || value instanceof Uint8Array) return [];
  if (value instanceof Map) return [...value].map(([key, one]) => [preview(key), one]);
  if (value instanceof Set) return [...value].map((one, index) => [String(index), one]);
  if (value instanceof Error) {
    const cause: Member[] = value.cause === undefined ? [] : [['cause', value.cause]];
    return [['message', value.message], ['stack', value.stack], ...cause];
  }
  return Object.entries(value);
}

function leaf(value: unknown): HTMLElement {
  const type = value === null ? 'null' : typeof value;
  if (typeof value === 'string' && value.includes('\n')) return h('pre', { class: 'tree-text' }, value);
  return h('span', { class: `tree-${type}` }, typeof value === 'string' ? JSON.stringify(value) : preview(value));
}

/** A value in one line. */
export function preview(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return cut(JSON.stringify(value));
    case 'bigint':
      return `${value}n`;
    case 'function':
      return `ƒ ${value.name === '' ? 'anonymous' : value.name}()`;
    case 'object':
      return value === null ? 'null' : cut(previewObject(value));
    default:
      return Object.is(value, -0) ? '-0' : String(value);
  }
}

const hex = (byte: number): string => byte.toString(16).padStart(2, '0');

function previewObject(value: object): string {
  if (value instanceof Date) return value.toISOString();
  if (value instanceof Uint8Array)
    return `Uint8Array(${value.length}) ${[...value.subarray(0, 16)].map(hex).join(' ')}`;
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  if (value instanceof Map) return `Map(${value.size})`;
  if (value instanceof Set) return `Set(${value.size}) {${[...value].slice(0, 8).map(short).join(', ')}}`;
  if (Array.isArray(value))
    return `(${value.length}) [${value.slice(0, 8).map(short).join(', ')}${value.length > 8 ? ', …' : ''}]`;
  const entries = Object.entries(value);
  return `{${entries
    .slice(0, 5)
    .map(([key, one]) => `${key}: ${short(one)}`)
    .join(', ')}${entries.length > 5 ? ', …' : ''}}`;
}

/** Inside a preview there is room for the kind of a thing only. */
function short(value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? '[]' : '[…]';
  const isPlain = typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
  return isPlain ? (Object.keys(value).length === 0 ? '{}' : '{…}') : preview(value);
}

function cut(text: string): string {
  return text.length > PREVIEW_CHARS_MAX ? `${text.slice(0, PREVIEW_CHARS_MAX)}…` : text;
}

/** Arrows as in any tree: right opens, left closes or goes to the parent, up and down move. */
function onKey(event: KeyboardEvent, node: HTMLDetailsElement, open: () => void): void {
  const step = (by: number) => {
    const visible = [...document.querySelectorAll<HTMLElement>('details.tree > summary')].filter(
      (one) => one.offsetParent !== null,
    );
    visible[visible.indexOf(event.currentTarget as HTMLElement) + by]?.focus();
  };
  switch (event.key) {
    case 'ArrowRight':
      if (node.open) step(1);
      else open();
      break;
    case 'ArrowLeft':
      if (!node.open) node.parentElement?.closest('details')?.querySelector('summary')?.focus();
      node.open = false;
      break;
    case 'ArrowDown':
      step(1);
      break;
    case 'ArrowUp':
      step(-1);
      break;
    default:
      return;
  }
  event.preventDefault();
}
