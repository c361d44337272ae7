// The bindings: their names, inputs and outputs, and a form to try each.

import type { Declaration } from 'scomp-client';

import { h, milliseconds } from './dom.js';
import { form } from './form.js';
import { isControl } from './link.js';
import type { Link } from './link.js';
import { asSchema } from './schema.js';
import { signature } from './completion.js';
import { openTree } from './tree.js';

export class BindingsPanel {
  readonly element: HTMLElement;
  private readonly list = h('div', { class: 'bindings' });
  private readonly filter = h('input', {
    type: 'search',
    placeholder: 'Search bindings',
    'aria-label': 'Search bindings',
    oninput: () => this.refilter(),
  });

  constructor(
    private readonly link: Link,
    private readonly insert: (text: string) => void,
  ) {
    this.element = h('div', { class: 'panel-body' }, h('div', { class: 'toolbar' }, this.filter), this.list);
    link.state.listen((state) => state === 'connected' && this.show(link.client?.declarations ?? []));
  }

  private show(declarations: Declaration[]): void {
    // The session's own controls last: they are not what one looks for.
    const sorted = declarations.toSorted(
      (a, b) => Number(isControl(a)) - Number(isControl(b)) || a.name.localeCompare(b.name),
    );
    this.list.replaceChildren(...sorted.map((one) => this.card(one)));
    this.refilter();
  }

  private refilter(): void {
    const words = this.filter.value.trim().toLowerCase().split(/\s+/);
    for (const card of this.list.children) {
      const text = card.firstElementChild?.textContent?.toLowerCase() ?? '';
      (card as HTMLElement).hidden = !words.every((word) => text.includes(word));
    }
  }

  private card(declaration: Declaration): HTMLElement {
    const { name, description, effects = [] } = declaration;
    const tags = effects.map((effect) => h('span', { class: effect === 'read' ? 'tag' : 'tag warn' }, effect));
    const summary = h(
      'summary',
      {},
      h('span', { class: 'name' }, name),
      ...tags,
      h('span', { class: 'quiet-text' }, description ?? ''),
    );
    const card = h('details', { class: 'card binding' }, summary);
    card.addEventListener('toggle', () => card.append(this.body(declaration)), { once: true });
    return card;
  }

  private body(declaration: Declaration): HTMLElement {
    const { input, output, name } = declaration;
    const schemas = h(
      'details',
      { class: 'schemas' },
      h('summary', {}, 'Schemas'),
      h('pre', {}, JSON.stringify({ input: input ?? true, output: output ?? true }, null, 2)),
    );
    return h(
      'div',
      { class: 'binding-body' },
      h('pre', { class: 'signature' }, signature(declaration)),
      this.tryIt(name, form(asSchema(input))),
      schemas,
    );
  }

  private tryIt(name: string, fields: ReturnType<typeof form>): HTMLElement {
    const result = h('div', { class: 'result', 'aria-live': 'polite' });
    const read = () => fields.read() ?? {};
    const onsubmit = async (event: Event) => {
      event.preventDefault();
      const start = performance.now();
      try {
        const value = await this.link.client?.invoke(name, read());
        result.replaceChildren(
          h('span', { class: 'quiet-text' }, milliseconds(performance.now() - start)),
          openTree(value),
        );
      } catch (error) {
        const { kind, message } = error as { kind?: string; message: string };
        result.replaceChildren(
          h('div', { class: 'error-message' }, kind !== undefined && h('span', { class: 'tag bad' }, kind), message),
        );
      }
    };
    const intoEditor = () => {
      try {
        this.insert(`await ${name}(${JSON.stringify(read())})`);
      } catch (error) {
        result.replaceChildren(h('div', { class: 'error-message' }, (error as Error).message));
      }
    };
    return h(
      'form',
      { class: 'try', onsubmit: onsubmit as never },
      fields.element,
      h(
        'div',
        { class: 'row' },
        h('button', { class: 'primary' }, 'Call'),
        h('button', { type: 'button', onclick: intoEditor }, 'Into the editor'),
      ),
      result,
    );
  }
}
