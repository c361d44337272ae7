// The list of calls that wait for approval, and what a person decides. The token stays in this page.
const POLL_MS = 2000;
const calls = document.getElementById('calls');
const note = document.getElementById('note');
const signIn = document.getElementById('sign-in');
let token = '';

async function request(path, body) {
  const headers = { 'Content-Type': 'application/json' };
  if (token) headers.Authorization = `Bearer ${token}`;
  const method = body ? 'POST' : 'GET';
  return fetch(path, { method, headers, body: body && JSON.stringify(body), cache: 'no-store' });
}

function element(name, text) {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

function card({ session, call }) {
  const item = document.createElement('li');
  item.dataset.id = call.id;
  const effects = call.effects.length > 0 ? ` (${call.effects.join(', ')})` : '';
  item.append(element('strong', `${call.binding}${effects}`), element('pre', call.input), element('p', `session ${session}`));
  for (const [label, allow] of [['Allow', true], ['Deny', false]]) {
    const button = element('button', label);
    button.addEventListener('click', async () => {
      const answer = await request(`approvals/${encodeURIComponent(call.id)}`, { allow });
      if (!answer.ok && answer.status !== 404) note.textContent = await answer.text();
      item.remove();
    });
    item.append(button);
  }
  return item;
}

/** Shows what is new and removes what is decided; a card that stays is not replaced under the pointer. */
function show(waiting) {
  const ids = new Set(waiting.map(({ call }) => call.id));
  for (const item of [...calls.children]) if (!ids.has(item.dataset.id)) item.remove();
  const shown = new Set([...calls.children].map((item) => item.dataset.id));
  calls.append(...waiting.filter(({ call }) => !shown.has(call.id)).map(card));
  note.textContent = waiting.length === 0 ? 'No call waits.' : '';
}

async function poll() {
  const answer = await request('approvals/list').catch(() => undefined);
  signIn.hidden = answer?.status !== 401;
  if (answer?.ok) show((await answer.json()).approvals);
  else if (answer?.status === 401) note.textContent = token ? 'This token is not valid.' : '';
  else note.textContent = answer ? await answer.text() : 'The server does not answer.';
  if (answer?.status !== 401) setTimeout(poll, POLL_MS);
}

signIn.addEventListener('submit', (event) => {
  event.preventDefault();
  token = document.getElementById('token').value.trim();
  poll();
});
poll();
