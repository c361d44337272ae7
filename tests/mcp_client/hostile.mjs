// An MCP server over stdio that misbehaves on demand: `node hostile.mjs MODE COUNT`, then by the tool that is called.
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const [mode = 'plain', count = '0'] = process.argv.slice(2);
const amount = Number(count);
const send = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\n');
const text = (value) => ({ content: [{ type: 'text', text: String(value) }] });
const until = (condition) =>
    new Promise((resolve) => {
        const look = setInterval(() => condition() && (clearInterval(look), resolve()), 5);
    });

let names = ['echo', 'fails', 'slow', 'cancelled', 'flood', 'garbage', 'huge', 'crash', 'grow', 'progress', 'ask', 'sample'];
names.push('wait', 'release', 'rejects', 'malformed', 'odd', 'rounds', 'repeats', 'banner', 'many');
if (mode === 'names') names = ['a-b', 'a.b', 'x y', '1st', 'constructor', 'resources', 'same', 'sa-me'];
if (mode === 'tools') names = Array.from({ length: amount }, (_, at) => `tool_${at}`);

let cancelled = 0;
const asked = new Map();
const ask = (method, params) => {
    const id = `ask-${asked.size}`;
    send({ id, method, params });
    return new Promise((resolve) => asked.set(id, resolve));
};

const tools = {
    echo: (input) => text(input.text),
    fails: () => ({ ...text(`it failed with ${process.env.SECRET}`), isError: true }),
    slow: () => new Promise(() => {}),
    cancelled: async () => {
        await until(() => cancelled > 0);
        return text(cancelled);
    },
    flood: () => {
        for (let at = 0; at < 50_000; at += 1) {
            send({ method: 'notifications/message', params: { level: 'info', data: `line ${at}` } });
            send({ method: 'notifications/progress', params: { progressToken: at + 1_000_000, progress: at } });
        }
        return text('flooded');
    },
    garbage: () => {
        for (let at = 0; at < 50; at += 1) process.stdout.write(`not a message ${at}\n{"jsonrpc": \n`);
        return text('after garbage');
    },
    huge: () => text('x'.repeat(17 << 20)),
    crash: () => process.exit(3),
    grow: () => {
        names.push('added');
        send({ method: 'notifications/tools/list_changed' });
        return text('grown');
    },
    added: () => text('added'),
    progress: (input, token) => {
        for (let at = 1; at <= 10; at += 1) {
            send({ method: 'notifications/progress', params: { progressToken: token, progress: at, total: 10 } });
        }
        return text('done');
    },
    ask: async () => {
        const requestedSchema = { type: 'object', properties: { name: { type: 'string' } } };
        const answer = await ask('elicitation/create', { message: 'Who?', requestedSchema });
        return text(JSON.stringify(answer.result ?? 'error'));
    },
    sample: async () => {
        const messages = [{ role: 'user', content: { type: 'text', text: 'hi' } }];
        const answer = await ask('sampling/createMessage', { messages, maxTokens: 5 });
        return text(answer.error === undefined ? 'sampled' : 'refused');
    },
    wait: async () => {
        await until(() => existsSync('go'));
        return text('waited');
    },
    // Content of a kind that is not known yet.
    odd: () => ({ content: [{ type: 'hologram', depth: 3 }] }),
    // The newest revision asks by a result that is not complete.
    rounds: (input, token, { inputResponses, requestState }) => {
        if (inputResponses !== undefined) return text(JSON.stringify([inputResponses, requestState]));
        const requestedSchema = { type: 'object', properties: { name: { type: 'string' } } };
        const who = { method: 'elicitation/create', params: { mode: 'form', message: 'Who?', requestedSchema } };
        return { resultType: 'input_required', inputRequests: { who }, requestState: 'round 1' };
    },
    repeats: () => text(`${process.env.SECRET} and ${JSON.stringify(process.env.SECRET)}`),
    banner: (input) => (process.stdout.write('a banner\n'.repeat(input.lines)), text('printed')),
    many: async (input, token) => {
        for (let at = 1; at <= 1000; at += 1) {
            send({ method: 'notifications/progress', params: { progressToken: token, progress: at } });
        }
        return text('done');
    },
    release: () => (writeFileSync('go', ''), text('released')),
};

const list = ({ cursor = '0' } = {}) => {
    const properties = { text: { type: 'string', description: 'What is meant.' }, lines: { type: 'integer' } };
    const inputSchema = { type: 'object', properties };
    const description = (name) => `Describes ${name}.${name === 'tool_417' ? ' Sends an invoice to a customer.' : ''}`;
    const entry = (name) => ({ name, description: description(name), inputSchema });
    if (mode !== 'pages') return { tools: names.map(entry) };
    const page = Number(cursor);
    const rest = page + 1 < amount ? { nextCursor: String(page + 1) } : {};
    return { tools: [entry(`page_${page}`)], ...rest };
};

const handle = async ({ id, method, params, result, error }) => {
    if (method === undefined) return asked.get(id)?.({ result, error });
    if (method === 'notifications/cancelled') cancelled += 1;
    if (id === undefined) return;
    if (method === 'initialize') {
        const capabilities = { tools: { listChanged: true } };
        const serverInfo = { name: 'hostile', version: '1' };
        send({ id, result: { protocolVersion: params.protocolVersion, capabilities, serverInfo } });
    } else if (method === 'tools/list') {
        send({ id, result: list(params) });
    } else if (method === 'tools/call' && !['rejects', 'malformed'].includes(params.name)) {
        const tool = Object.hasOwn(tools, params.name) ? tools[params.name] : () => text(params.name);
        send({ id, result: await tool(params.arguments ?? {}, params._meta?.progressToken, params) });
    } else if (params?.name === 'malformed') {
        send({ id, error: 'not an object' });
    } else if (method === 'tools/call') {
        send({ id, error: { code: -32000, message: `rejected with ${process.env.SECRET}` } });
    } else {
        send({ id, error: { code: -32601, message: 'method not found' } });
    }
};

if (process.env.SECRET) console.error(`started with ${process.env.SECRET}`);
// Once it has crashed, it starts only when it is let.
if (mode === 'crashes') {
    if (existsSync('started')) await until(() => existsSync('go'));
    writeFileSync('started', '');
}
// Once it has crashed, the next starts fail: as many as COUNT.
if (mode === 'flaky') {
    const starts = existsSync('starts') ? readFileSync('starts', 'utf8').split('\n').length - 1 : 0;
    appendFileSync('starts', `${Date.now()}\n`);
    if (starts > 0 && starts <= amount) process.exit(5);
}
if (mode === 'ends') process.exit(4);
if (mode !== 'mute') createInterface({ input: process.stdin }).on('line', (line) => handle(JSON.parse(line)));
else setInterval(() => {}, 1000);
