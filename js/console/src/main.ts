// Puts the page together.

import { BindingsPanel } from './bindings.js';
import { ChartsPanel } from './charts.js';
import { byId, h, remembered } from './dom.js';
import { Editor } from './editor.js';
import { Link } from './link.js';
import type { LinkState } from './link.js';
import { showMoments, takeFork } from './moments.js';
import { Output, Run } from './output.js';
import { showRequests } from './requests.js';
import { SessionsPanel } from './sessions.js';
import { Tabs } from './tabs.js';
import { cycleTheme, showTheme } from './theme.js';
import { WirePanel } from './wire.js';

const SAMPLE = `// The session keeps what you declare. Bindings are on the right.
const order = await getOrder({ id: 'o_001' });
console.log('order of', order.customer);
order`;

/** How long a message of a script stays on the page. */
const NOTE_MS = 6000;

const link = new Link();
const output = new Output(byId('output'));
const draft = remembered(() => localStorage, 'scomp.draft');
const editor = new Editor({
  parent: byId('editor'),
  text: draft.get() ?? SAMPLE,
  declarations: () => link.scriptBindings,
  onRun: () => void run(),
  onCancel: () => (cancel(), true),
  onChange: (text) => draft.set(text),
});

let runs = 0;
let running = 0;

async function run(): Promise<void> {
  const { client } = link;
  const code = editor.text;
  if (client === undefined || code.trim() === '') return;
  runs += 1;
  const one = new Run(`run-${runs}.ts`, code, (again) => ((editor.text = again), goToEditor()));
  output.add(one);
  editor.clearMarks();
  busy(1);
  try {
    one.succeed(await client.run(code, { name: one.name, stats: true }));
  } catch (error) {
    one.fail(error, (position) => editor.text === code && editor.mark(position, (error as Error).message));
  }
  busy(-1);
  output.follow();
}

function goToEditor(): void {
  if (isNarrow()) tabs.show('work');
  editor.focus();
}

function busy(by: number): void {
  running += by;
  byId<HTMLButtonElement>('cancel').disabled = running === 0;
}

/** Ends what runs; its own answer says that it was cancelled. */
function cancel(): void {
  if (running > 0) link.client?.invoke('session.cancel').catch(() => undefined);
}

const bindingsPanel = new BindingsPanel(link, (text) => (goToEditor(), editor.insert(text)));
const sessionsPanel = new SessionsPanel(link, () => tabs.current === 'sessions');
const panel = (element: HTMLElement) => h('section', { class: 'panel' }, element);
const bindings = panel(bindingsPanel.element);
const sessions = panel(sessionsPanel.element);
const wire = panel(new WirePanel(link).element);
const charts = panel(new ChartsPanel(link).element);
byId('panels').append(bindings, sessions, wire, charts);

const tabs = new Tabs(byId('tabs'), [
  { id: 'work', label: 'Editor', panel: byId('work') },
  { id: 'bindings', label: 'Bindings', panel: bindings },
  { id: 'sessions', label: 'Sessions', panel: sessions, onShow: () => void sessionsPanel.ask() },
  { id: 'wire', label: 'Wire', panel: wire },
  { id: 'charts', label: 'Charts', panel: charts },
]);

const narrow = matchMedia('(max-width: 860px)');
const isNarrow = () => narrow.matches;
const arrange = () => {
  // Beside the others the editor needs no tab, so another one has to be the current.
  if (isNarrow() !== (tabs.current === 'work')) tabs.show(isNarrow() ? 'work' : 'bindings');
};
narrow.addEventListener('change', arrange);
tabs.show(isNarrow() ? 'work' : 'bindings');

const SAID: Record<LinkState, string> = {
  connecting: 'connecting',
  connected: 'connected',
  reconnecting: 'reconnecting',
  closed: 'closed',
  token: 'token needed',
};

link.state.listen((state) => {
  byId('state').textContent = SAID[state];
  byId('state').dataset['state'] = state;
  byId('session').textContent = state === 'connected' ? (link.client?.session.id ?? '') : '';
  const dialog = byId<HTMLDialogElement>('token-dialog');
  if (state === 'token') dialog.showModal();
  else if (state === 'connected') dialog.close();
  const why = link.closedBecause === '' ? '' : `: ${link.closedBecause}`;
  const again = h('button', { onclick: () => void link.open() }, 'Connect');
  banner(state === 'closed' ? [`The connection is closed${why}.`, again] : []);
});
link.returned.listen(({ resumed }) =>
  note(resumed ? 'Back in the same session.' : 'The session is gone; this is a new one.'),
);
link.lines.listen((line) => output.print(line));
link.notes.listen(note);

function banner(parts: (Node | string)[]): void {
  byId('banner').replaceChildren(...parts);
  byId('banner').hidden = parts.length === 0;
}

function note(text: string): void {
  const element = h('div', { class: 'card' }, text);
  byId('notes').append(element);
  setTimeout(() => element.remove(), NOTE_MS);
}

showRequests(link, byId('requests'), (count) => {
  document.title = count === 0 ? 'scomp console' : `(${count}) scomp console`;
});

byId('run').addEventListener('click', () => void run());
byId('cancel').addEventListener('click', cancel);
byId('clear').addEventListener('click', () => output.clear());
byId('reset').addEventListener('click', () => {
  link.client?.invoke('session.reset').then(
    () => note('The session has a fresh context.'),
    (error: Error) => note(error.message),
  );
});
showMoments(link, note);
byId('help').addEventListener('click', () => byId<HTMLDialogElement>('help-dialog').showModal());
byId('theme').addEventListener('click', () => cycleTheme(byId('theme')));
byId('token-form').addEventListener('submit', (event) => {
  event.preventDefault();
  const field = byId<HTMLInputElement>('token');
  void link.open(field.value).then(() => (byId('token-wrong').hidden = link.client !== undefined));
  field.value = '';
});

document.addEventListener('keydown', (event) => {
  if (!event.altKey || event.ctrlKey || event.metaKey) return;
  // By the place of the key: with Alt some systems report another character.
  const [, digit] = /^Digit([1-5])$/.exec(event.code) ?? [];
  if (digit === '1') goToEditor();
  else if (digit !== undefined) tabs.showNumber(Number(digit));
  else if (event.code === 'KeyA') byId('requests').querySelector<HTMLElement>('input')?.focus();
  else return;
  event.preventDefault();
});

showTheme(byId('theme'));
const fork = takeFork();
if (fork !== undefined) link.resumeWith(fork);
void link.open();
