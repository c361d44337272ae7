// The page in a browser, against the real server.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { CutPoint, TestServer } from '../../sdk/test/support/server.js';
import { connected, run, show, write } from './browser.js';
import type { Shown } from './browser.js';

const bindings = join(fileURLToPath(new URL('../../../', import.meta.url)), 'bindings');

let server: TestServer;
let shown: Shown;
before(async () => {
  server = await TestServer.start({ bindings });
  shown = await show(server.address);
});
beforeEach(() => connected(shown.page));
after(async () => {
  await shown.close();
  await server.kill();
});

test('code runs with the keyboard, and its value, console and cost are shown', async () => {
  const text = await run(shown.page, "console.warn('careful'); const o = await getOrder({ id: 'o_001' }); o");
  assert.match(text, /careful/);
  assert.match(text, /total: 142\.5/);
  assert.match(text, /CPU .* ms · 1 call /);
  assert.equal(await shown.page.locator('.run').last().locator('.line-warn').count(), 1);
});

test('the session keeps what was declared', async () => {
  await run(shown.page, 'const kept = 41');
  assert.match(await run(shown.page, 'kept + 1'), /42/);
});

test('values open as trees with the keyboard', async () => {
  const { page } = shown;
  await run(page, '({ list: [1, { deep: 12n }], map: new Map([["k", new Date(0)]]) })');
  const tree = page.locator('.run').last().locator('.outcome > details');
  await tree.locator('summary').first().focus();
  for (const key of ['ArrowDown', 'ArrowRight', 'ArrowDown', 'ArrowRight']) await page.keyboard.press(key);
  await tree.getByText('deep', { exact: true }).waitFor();
  assert.match(await tree.innerText(), /deep: 12n/);
});

test('an error shows its kind, suggestions and place, and marks it in the editor', async () => {
  const { page } = shown;
  const text = await run(page, "const ä = 'ö';\n   getOrdr()");
  assert.match(text, /EvalError/);
  assert.match(text, /ReferenceError: getOrdr is not defined/);
  assert.match(text, /line 2, column 4/);
  assert.match(text, /did you mean getOrder\?/);
  assert.equal(await page.locator('#editor .cm-lintRange-error').innerText(), 'getOrdr');
  await run(page, '1');
  assert.equal(await page.locator('#editor .cm-lintRange-error').count(), 0);
});

test('bindings and members of their input are completed from the declarations', async () => {
  const { page } = shown;
  await write(page, 'await kv.');
  await page.keyboard.press('Control+Space');
  await page.locator('.cm-tooltip-autocomplete').getByText('delete').waitFor();
  await page.keyboard.press('Escape');
  await write(page, 'await kv.set({ ');
  await page.keyboard.press('Control+Space');
  const options = page.locator('.cm-tooltip-autocomplete li');
  await options.first().waitFor();
  const labels = await options.locator('.cm-completionLabel').allInnerTexts();
  assert.deepEqual(labels, ['key', 'value']);
  await page.keyboard.press('Escape');
});

test('the session goes back to a checkpoint, and a fork opens in another tab', async () => {
  const { page } = shown;
  await run(page, 'let moment = 1');
  await page.click('#rewind');
  await page.getByText('No checkpoint yet.').waitFor();
  await page.locator('#rewind-dialog').getByRole('button', { name: 'Close' }).click();
  await page.click('#checkpoint');
  await page.getByText('This moment is checkpoint 1.').waitFor();
  await run(page, 'moment = 2');
  const [tab] = await Promise.all([page.context().waitForEvent('page'), page.click('#fork')]);
  await connected(tab);
  const id = (other: typeof page) => other.locator('#session').innerText();
  assert.notEqual(await id(tab), await id(page));
  assert.ok(!tab.url().includes('token'), tab.url());
  assert.match(await run(tab, 'moment += 10'), /12/);
  await page.bringToFront();
  await page.click('#rewind');
  await page.locator('#checkpoints').getByRole('button', { name: '1' }).click();
  await page.getByText('Back at checkpoint 1.').waitFor();
  assert.match(await run(page, 'moment'), /1/);
  await tab.reload();
  await connected(tab);
  assert.match(await run(tab, 'moment'), /12/);
  await tab.close();
});

test('a run can be cancelled', async () => {
  const { page } = shown;
  await write(page, 'await new Promise(() => setInterval(() => {}, 1000))');
  await page.keyboard.press('Control+Enter');
  await page.locator('#cancel:enabled').waitFor();
  await page.keyboard.press('Control+.');
  await page.locator('.run').last().getByText('Cancelled').first().waitFor();
  assert.ok(await page.locator('#cancel').isDisabled());
});

test('a script calls bindings of the page', async () => {
  const { page } = shown;
  await write(
    page,
    "await page.notify({ message: 'hello from the script' }); 'you said ' + await page.ask({ question: 'Which colour?' })",
  );
  await page.keyboard.press('Control+Enter');
  await page.getByText('hello from the script').first().waitFor();
  await page.locator('#requests').getByText('Which colour?').waitFor();
  assert.equal(await page.title(), '(1) scomp console');
  await page.keyboard.press('Alt+a');
  await page.keyboard.type('blue');
  await page.keyboard.press('Enter');
  await page.locator('.run').last().getByText('you said blue').waitFor();
  assert.equal(await page.locator('.request').count(), 0);
});

test('a question of a run that is cancelled is withdrawn', async () => {
  const { page } = shown;
  await write(page, "await page.ask({ question: 'Still there?' })");
  await page.keyboard.press('Control+Enter');
  await page.locator('#requests').getByText('Still there?').waitFor();
  await page.keyboard.press('Control+.');
  await page.locator('.request').waitFor({ state: 'detached' });
  await page.locator('.run').last().getByText('Cancelled').first().waitFor();
});

test('the try-it form is made from the schema, calls, and reports', async () => {
  const { page } = shown;
  await page.click('#tab-bindings');
  await page.fill('[aria-label="Search bindings"]', 'getOrder');
  const card = page.locator('.binding:visible');
  assert.equal(await card.count(), 1);
  await card.locator('> summary').click();
  await card.getByLabel('id').fill('o_001');
  await card.getByRole('button', { name: 'Call' }).click();
  await card.getByText('142.5').first().waitFor();
  await card.getByRole('button', { name: 'Into the editor' }).click();
  assert.match(await page.locator('#editor .cm-content').innerText(), /await getOrder\(\{"id":"o_001"\}\)/);
  await page.fill('[aria-label="Search bindings"]', 'kv.cas');
  await page.locator('.binding:visible > summary').click();
  await page.locator('.binding:visible').getByLabel('expected').fill('{');
  await page.locator('.binding:visible').getByRole('button', { name: 'Call' }).click();
  await page
    .locator('.binding:visible')
    .getByText(/expected: .*JSON/)
    .waitFor();
  await page.fill('[aria-label="Search bindings"]', '');
});

test('the wire shows frames both ways, filters, pauses, and copies a transcript', async () => {
  const { page } = shown;
  await page.click('#tab-wire');
  await page.getByRole('button', { name: 'Clear', exact: true }).last().click();
  await run(page, "'needle'");
  const frames = page.locator('.frame:visible');
  assert.equal(await frames.count(), 2);
  await page.fill('[aria-label="Filter frames"]', 'in needle');
  assert.equal(await frames.count(), 1);
  await page.fill('[aria-label="Filter frames"]', '');
  await page.getByRole('button', { name: 'Copy as transcript' }).click();
  await page.getByText('2 frames copied').waitFor();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  assert.match(
    copied,
    /^# .*\n>> \{"jsonrpc":"2\.0","id":\d+,"method":"eval".*\n<< \{"jsonrpc":"2\.0","id":\d+,"result":\{"value":"needle"/,
  );
  await page.getByRole('button', { name: 'Pause' }).click();
  await run(page, '1');
  await page.getByRole('button', { name: 'Go on (2 missed)' }).click();
  assert.equal(await frames.count(), 2);
});

test('sessions are listed as they are', async () => {
  const { page } = shown;
  await page.click('#tab-sessions');
  const row = page.locator('tbody tr').filter({ hasText: 'this page' });
  await row.getByText('idle').waitFor();
  await write(page, 'const until = Date.now() + 2500; while (Date.now() < until); 0');
  await page.keyboard.press('Control+Enter');
  await row.getByText('running').waitFor();
  await row.getByText('idle').waitFor();
});

test('charts draw what the server measures', async () => {
  const { page } = shown;
  await page.click('#tab-charts');
  await page.locator('.value', { hasText: /resident \d/ }).waitFor();
  assert.equal(await page.locator('figure').count(), 3);
});

test('a reload comes back to the same session', async () => {
  const { page } = shown;
  await run(page, 'globalThis.before = "reload"');
  await page.reload();
  await connected(page);
  await page.getByText('Back in the same session.').waitFor();
  assert.match(await run(page, 'before'), /"reload"/);
});

test('the page broke nothing of its policy', () => assert.deepEqual(shown.troubles, []));

test('after a cut the page is back in its session and the run is answered', async () => {
  const point = await CutPoint.before(server);
  const other = await show(new URL(point.url.replace('ws', 'http')).host);
  try {
    const { page } = other;
    await connected(page);
    await run(page, 'globalThis.starts = 0');
    await write(page, "starts++; await new Promise(r => setTimeout(r, 1000)); 'ran ' + starts");
    await page.keyboard.press('Control+Enter');
    await page.locator('.run[aria-busy]').waitFor();
    point.refuse();
    await page.waitForSelector('#state[data-state=reconnecting]');
    point.accept();
    await connected(page);
    await page.locator('.run').last().getByText('ran 1').waitFor();
  } finally {
    await other.close();
    point.close();
  }
});

test('a server with tokens asks for one, and approvals are decided on the page', async () => {
  const sha256 = createHash('sha256').update('s3cret').digest('hex');
  const settings = `[[auth.tokens]]\nprincipal = "ci"\nsha256 = "${sha256}"\npolicy = { approve = ["read"] }\n`;
  const guarded = await TestServer.start({ bindings, settings });
  const other = await show(guarded.address);
  try {
    const { page } = other;
    await page.locator('#token-dialog[open]').waitFor();
    await page.keyboard.type('wrong');
    await page.keyboard.press('Enter');
    await page.getByText('That token is not known here.').waitFor();
    await page.keyboard.type('s3cret');
    await page.keyboard.press('Enter');
    await connected(page);
    for (const [button, expected] of [
      ['Allow', /142\.5/],
      ['Refuse', /PermissionDenied.*not today/s],
    ] as const) {
      await write(page, "(await getOrder({ id: 'o_001' })).total");
      await page.keyboard.press('Control+Enter');
      await page.getByText('Allow getOrder?').waitFor();
      if (button === 'Refuse') await page.getByLabel('Reason').fill('not today');
      await page.getByRole('button', { name: button, exact: true }).click();
      const last = page.locator('.run').last();
      await last.and(page.locator(':not([aria-busy])')).waitFor();
      assert.match(await last.innerText(), expected);
    }
    assert.deepEqual(other.troubles, []);
  } finally {
    await other.close();
    await guarded.kill();
  }
});

test('on a phone everything is a tab, and nothing is wider than the screen', async () => {
  const phone = await show(server.address, { width: 360, height: 700 });
  try {
    const { page } = phone;
    await connected(page);
    assert.match(await run(page, "'a '.repeat(200)"), /a a a/);
    for (const tab of ['bindings', 'sessions', 'wire', 'charts', 'work']) {
      await page.click(`#tab-${tab}`);
      assert.ok(await page.locator(`#panel-${tab}`).isVisible());
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 360, tab);
    }
    assert.equal(await page.locator('main .panel:visible').count(), 1);
  } finally {
    await phone.close();
  }
});

test('assistive technology can use every panel', async () => {
  const checked = await show(server.address, undefined, true);
  try {
    const { page } = checked;
    await connected(page);
    await run(page, "console.warn('careful'); nope()");
    await page.addScriptTag({ path: createRequire(import.meta.url).resolve('axe-core') });
    for (const tab of ['bindings', 'sessions', 'wire', 'charts']) {
      await page.click(`#tab-${tab}`);
      if (tab === 'bindings') await page.locator('.binding > summary').first().click();
      const violations = await page.evaluate(async () => {
        const { axe } = globalThis as unknown as {
          axe: { run(): Promise<{ violations: { help: string; nodes: { html: string }[] }[] }> };
        };
        return (await axe.run()).violations.map(({ help, nodes }) => `${help}: ${nodes[0]?.html}`);
      });
      assert.deepEqual(violations, [], tab);
    }
  } finally {
    await checked.close();
  }
});

test('panels are reached with the keyboard alone', async () => {
  const { page } = shown;
  await page.keyboard.press('Alt+4');
  assert.ok(await page.locator('#panel-wire').isVisible());
  await page.keyboard.press('ArrowRight');
  assert.ok(await page.locator('#panel-charts').isVisible());
  await page.keyboard.press('Alt+1');
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'editor');
});
