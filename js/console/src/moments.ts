// Checkpoints of the session: mark a moment, go back to one, go on in a copy.

import type { Checkpoint, Client, Ticket } from 'scomp-client';

import { byId, h } from './dom.js';
import type { Link } from './link.js';

/** In the address of a page that takes over a fork. After the `#`, so that no server sees it. */
const FORK = '#fork=';

/** The fork that the address names; it is removed there, since a token is good once. */
export function takeFork(): Ticket | undefined {
  if (!location.hash.startsWith(FORK)) return undefined;
  const text = decodeURIComponent(location.hash.slice(FORK.length));
  history.replaceState(null, '', location.pathname + location.search);
  try {
    const { id, token } = JSON.parse(text) as Ticket;
    return typeof id === 'string' && typeof token === 'string' ? { id, token } : undefined;
  } catch {
    return undefined;
  }
}

/** The address of a page that takes over a fork. */
export function forkAddress(ticket: Ticket): string {
  return location.pathname + location.search + FORK + encodeURIComponent(JSON.stringify(ticket));
}

/** `2 min ago`. */
export function ago(ms: number): string {
  const units: [number, string][] = [
    [3_600_000, 'h'],
    [60_000, 'min'],
    [1000, 's'],
  ];
  const [size, unit] = units.find(([size]) => ms >= size) ?? [1, 'ms'];
  return `${Math.floor(ms / size)} ${unit} ago`;
}

/** Makes the three buttons work. */
export function showMoments(link: Link, note: (text: string) => void): void {
  const dialog = byId<HTMLDialogElement>('rewind-dialog');
  const attempt = (work: (client: Client) => Promise<void>) => () => {
    if (link.client === undefined) return;
    work(link.client).catch((error: Error) => note(error.message));
  };
  const rewind = ({ checkpoint }: Checkpoint) =>
    attempt(async (client) => {
      dialog.close();
      await client.rewind(checkpoint);
      note(`Back at checkpoint ${checkpoint}.`);
    });
  const item = (one: Checkpoint) => {
    const label = one.label === undefined ? '' : ` ${one.label}`;
    return h('li', {}, h('button', { onclick: rewind(one) }, `${one.checkpoint}${label}`), ` ${ago(one.ageMs)}`);
  };
  byId('checkpoint').addEventListener(
    'click',
    attempt(async (client) => note(`This moment is checkpoint ${await client.checkpoint()}.`)),
  );
  byId('rewind').addEventListener(
    'click',
    attempt(async (client) => {
      const checkpoints = await client.checkpoints();
      const none = h('li', { class: 'quiet-text' }, 'No checkpoint yet.');
      byId('checkpoints').replaceChildren(...(checkpoints.length === 0 ? [none] : checkpoints.map(item).reverse()));
      dialog.showModal();
    }),
  );
  byId('fork').addEventListener('click', () => {
    // Opened while the click lasts: a browser blocks windows that come later.
    const page = window.open('', '_blank');
    attempt(async (client) => {
      try {
        page?.location.replace(forkAddress(await client.fork()));
      } catch (error) {
        page?.close();
        throw error;
      }
    })();
  });
}
