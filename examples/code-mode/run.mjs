// The same task twice: with a tool call for each step, and with one script. Nothing is estimated: both run against a
// scomp-serve, and what would pass through a model's context is counted in tokens.
//
// $ npm install && node run.mjs [--page page.html]      (scomp-serve in PATH, or SCOMP_SERVE=…)
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';
import { connect } from './client.mjs';

export const ENCODING = 'o200k_base';
const TASK = 'Write to every customer whose unpaid orders add up to more than 100, and name the sum.';
const program = process.env.SCOMP_SERVE ?? 'scomp-serve';
const folder = fileURLToPath(new URL('bindings', import.meta.url));

// What an agent sends: each entry is a turn of the conversation, and each turn resends what came before.
class Conversation {
  context = 0;
  written = 0;
  processed = 0;
  roundTrips = 0;

  constructor(tools) {
    this.context = countTokens(JSON.stringify(tools)) + countTokens(TASK);
  }

  // The model reads everything so far and writes calls; their results are added to the context.
  turn(calls, results) {
    this.roundTrips += 1;
    this.processed += this.context;
    const [out, back] = [countTokens(JSON.stringify(calls)), countTokens(JSON.stringify(results))];
    this.written += out;
    this.context += out + back;
  }
}

const letter = (customer, sum) => ({
  to: customer.email, subject: 'Unpaid orders', text: `Dear ${customer.name}, ${sum} is still to be paid.`,
});

async function stepByStep(session) {
  const tools = session.bindings.map(({ name, description, input }) => ({ name, description, inputSchema: input }));
  const conversation = new Conversation(tools);
  const call = async (name, input) => {
    const value = await session.call(name, input);
    conversation.turn({ name, input }, value);
    return value;
  };
  let sent = 0;
  for (const customer of await call('shop.customers', {})) {
    const orders = await call('shop.orders', { customer: customer.id });
    const sum = orders.filter((order) => !order.paid).reduce((total, order) => total + order.total, 0);
    if (sum > 100) {
      await call('mail.send', letter(customer, sum));
      sent += 1;
    }
  }
  return { conversation, sent };
}

const SCRIPT = `let sent = 0;
for (const customer of await shop.customers({})) {
  const orders = await shop.orders({ customer: customer.id });
  const sum = orders.filter((order) => !order.paid).reduce((total, order) => total + order.total, 0);
  if (sum <= 100) continue;
  await mail.send({ to: customer.email, subject: 'Unpaid orders', text: \`Dear \${customer.name}, \${sum} is still to be paid.\` });
  sent += 1;
}
sent`;

async function oneScript(session) {
  const tool = { name: 'execute', description: 'Runs JavaScript with these functions.', inputSchema: { type: 'object', properties: { code: { type: 'string' } } } };
  const conversation = new Conversation([tool, await session.types()]);
  const sent = await session.evaluate(SCRIPT);
  conversation.turn({ name: 'execute', input: { code: SCRIPT } }, sent);
  return { conversation, sent };
}

export async function measure() {
  const session = await connect(program, folder);
  try {
    const row = (way, { conversation: { roundTrips, written, processed }, sent }) => ({ way, roundTrips, written, processed, sent });
    return [row('a tool call per step', await stepByStep(session)), row('one script', await oneScript(session))];
  } finally {
    session.close();
  }
}

const number = (value) => value.toLocaleString('en-US');
export const table = (rows) => [
  `| ${ENCODING} | round trips | tokens written | tokens read |`,
  '|---|---:|---:|---:|',
  ...rows.map((row) => `| ${row.way} | ${row.roundTrips} | ${number(row.written)} | ${number(row.processed)} |`),
].join('\n');

const page = (rows) => `<!doctype html><meta charset="utf-8"><title>Code mode</title>
<style>body{font:16px system-ui;margin:3rem auto;max-width:44rem}td,th{padding:.4rem 1rem;text-align:right}td:first-child{text-align:left}</style>
<h1>The same task, twice</h1><p>${TASK}</p>
<table><tr><th></th><th>round trips</th><th>tokens written</th><th>tokens read</th></tr>
${rows.map((row) => `<tr><td>${row.way}</td><td>${row.roundTrips}</td><td>${number(row.written)}</td><td>${number(row.processed)}</td></tr>`).join('\n')}
</table><p>Both sent ${rows[0].sent} mails. Tokens are those of ${ENCODING}; each round trip reads the whole conversation again.</p>
<pre>${SCRIPT.replaceAll('&', '&amp;').replaceAll('<', '&lt;')}</pre>
`;

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const rows = await measure();
  console.log(table(rows));
  const at = process.argv.indexOf('--page');
  if (at > 0) writeFileSync(process.argv[at + 1], page(rows));
}
