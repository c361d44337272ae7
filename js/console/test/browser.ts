// A real browser on the page that the real server serves.

import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { chromium } from 'playwright-core';
import type { BrowserContext, Page } from 'playwright-core';

const CHROMIUM = process.env['CHROMIUM'] ?? '/usr/bin/chromium';

const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

export interface Shown {
  page: Page;
  /** Violations of the page's policy, and uncaught errors. */
  troubles: string[];
  close(): Promise<void>;
}

/** Opens the console of a server in a browser of its own; without its policy for tools that put scripts into the page. */
export async function show(
  address: string,
  viewport = { width: 1280, height: 800 },
  bypassCSP = false,
): Promise<Shown> {
  const folder = mkdtempSync(join(tmpdir(), 'scomp-browser-'));
  const context: BrowserContext = await chromium.launchPersistentContext(folder, {
    executablePath: CHROMIUM,
    headless: true,
    args: FLAGS,
    viewport,
    bypassCSP,
    permissions: ['clipboard-read', 'clipboard-write'],
  });
  context.setDefaultTimeout(15_000);
  const page = context.pages()[0] ?? (await context.newPage());
  const troubles: string[] = [];
  page.on('pageerror', (error) => troubles.push(error.message));
  page.on('console', (message) => message.text().includes('Content Security Policy') && troubles.push(message.text()));
  await page.goto(`http://${address}/console`);
  return { page, troubles, close: () => context.close() };
}

export const connected = (page: Page) => page.waitForSelector('#state[data-state=connected]');

/** Types over what the editor has, key by key, as a person does. */
export async function write(page: Page, code: string): Promise<void> {
  await page.locator('#editor .cm-content').focus();
  await page.keyboard.press('Control+a');
  await page.keyboard.press('Delete');
  await page.keyboard.insertText(code);
}

/** Runs code and returns the run on the page once it is over. */
export async function run(page: Page, code: string): Promise<string> {
  await write(page, code);
  await page.keyboard.press('Control+Enter');
  const last = page.locator('.run').last();
  await last.and(page.locator(':not([aria-busy])')).waitFor();
  return last.innerText();
}
