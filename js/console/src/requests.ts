// What a person has to decide: approvals that the server's policy wants, and questions of scripts.

import { h } from './dom.js';
import type { Link, Request } from './link.js';
import { tree } from './tree.js';

/** Cards as they come in; removed when they are answered or no longer needed. */
export function showRequests(link: Link, place: HTMLElement, onCount: (count: number) => void): void {
  const count = () => onCount(place.childElementCount);
  link.requests.listen((request) => {
    const card = h('form', { class: 'card request' });
    const leave = () => {
      card.remove();
      count();
    };
    request.withdrawn.addEventListener('abort', leave, { once: true });
    card.append(...(request.type === 'approval' ? approval(request, leave) : question(request, card, leave)));
    place.append(card);
    count();
  });
}

function approval({ request, decide }: Request & { type: 'approval' }, leave: () => void): Node[] {
  const reason = h('input', { type: 'text', placeholder: 'Reason, if you refuse', 'aria-label': 'Reason' });
  const answer = (allow: boolean) => {
    decide(allow || reason.value === '' ? allow : { allow, reason: reason.value });
    leave();
  };
  const effects = request.effects.map((effect) => h('span', { class: 'tag warn' }, effect));
  return [
    h('header', {}, h('strong', {}, `Allow ${request.binding}?`), ...effects),
    tree(request.input, 'input'),
    h(
      'div',
      { class: 'row' },
      reason,
      h('button', { type: 'button', class: 'bad', onclick: () => answer(false) }, 'Refuse'),
      h('button', { type: 'button', class: 'primary', onclick: () => answer(true) }, 'Allow'),
    ),
  ];
}

function question(
  { question, answer }: Request & { type: 'question' },
  card: HTMLFormElement,
  leave: () => void,
): Node[] {
  const input = h('input', { type: 'text', 'aria-label': 'Your answer', autocomplete: 'off' });
  card.addEventListener('submit', (event) => {
    event.preventDefault();
    answer(input.value);
    leave();
  });
  return [
    h('header', {}, h('span', { class: 'tag' }, 'page.ask'), h('strong', {}, question)),
    h('div', { class: 'row' }, input, h('button', { class: 'primary' }, 'Answer')),
  ];
}
