// Panels behind tabs. On a wide page the editor stands beside the others; on a narrow one it is a tab among them.

import { h } from './dom.js';

export interface Tab {
  id: string;
  label: string;
  panel: HTMLElement;
  onShow?: () => void;
}

export class Tabs {
  private readonly buttons = new Map<string, HTMLButtonElement>();
  current = '';

  constructor(
    bar: HTMLElement,
    private readonly tabs: Tab[],
  ) {
    for (const [index, { id, label, panel }] of tabs.entries()) {
      panel.id = `panel-${id}`;
      panel.setAttribute('role', 'tabpanel');
      panel.setAttribute('aria-labelledby', `tab-${id}`);
      const button = h(
        'button',
        {
          role: 'tab',
          id: `tab-${id}`,
          'aria-controls': panel.id,
          title: `${label} (Alt+${index + 1})`,
          onclick: () => this.show(id),
        },
        label,
      );
      this.buttons.set(id, button);
      bar.append(button);
    }
    bar.addEventListener('keydown', (event) => this.onKey(event));
  }

  show(id: string): void {
    this.current = id;
    for (const tab of this.tabs) {
      const isCurrent = tab.id === id;
      tab.panel.classList.toggle('current', isCurrent);
      const button = this.buttons.get(tab.id);
      button?.setAttribute('aria-selected', String(isCurrent));
      button?.setAttribute('tabindex', isCurrent ? '0' : '-1');
      if (isCurrent) tab.onShow?.();
    }
  }

  /** By its place, as Alt and a digit do. */
  showNumber(number: number): void {
    const tab = this.tabs[number - 1];
    if (tab === undefined) return;
    this.show(tab.id);
    this.buttons.get(tab.id)?.focus();
  }

  private onKey(event: KeyboardEvent): void {
    const by = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
    const visible = this.tabs.filter(({ id }) => this.buttons.get(id)?.offsetParent !== null);
    const next = visible[(visible.findIndex(({ id }) => id === this.current) + by + visible.length) % visible.length];
    if (by === 0 || next === undefined) return;
    event.preventDefault();
    this.show(next.id);
    this.buttons.get(next.id)?.focus();
  }
}
