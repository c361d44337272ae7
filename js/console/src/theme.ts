// Light, dark, or what the system says.

import { remembered } from './dom.js';

const THEMES = ['auto', 'light', 'dark'] as const;
const kept = remembered(() => localStorage, 'scomp.theme');

function current(): (typeof THEMES)[number] {
  return THEMES.find((theme) => theme === kept.get()) ?? 'auto';
}

export function showTheme(button: HTMLElement): void {
  const theme = current();
  document.documentElement.dataset['theme'] = theme;
  button.textContent = theme === 'auto' ? 'Auto' : theme === 'light' ? 'Light' : 'Dark';
}

export function cycleTheme(button: HTMLElement): void {
  kept.set(THEMES[(THEMES.indexOf(current()) + 1) % THEMES.length] ?? 'auto');
  showTheme(button);
}
