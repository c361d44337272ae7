// The adapters with the real packages of the SDKs; only the model behind them is a stub.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import Anthropic from '@anthropic-ai/sdk';
import { generateText, stepCountIs, tool } from 'ai';
import { MockLanguageModelV3 } from 'ai/test';
import OpenAI from 'openai';
import { z } from 'zod';

import { codeTools, toolBindings } from '../src/adapters/ai.js';
import { messagesTool, runnableTool } from '../src/adapters/anthropic.js';
import { codeTool, render } from '../src/adapters/code-tool.js';
import { chatTool, responsesTool } from '../src/adapters/openai.js';
import { connect } from '../src/index.js';
import type { Client } from '../src/index.js';
import { TestServer } from './support/server.js';

let server: TestServer;
let client: Client;
before(async () => {
  server = await TestServer.start();
  client = await connect(server.url);
});
after(async () => {
  await client.close();
  await server.kill();
});

const ORDER = "const o = await getOrder({ id: 'o_001' }); console.warn('found'); o.total";
const BROKEN = 'getOrdr()';

/** A transport that answers with each of these in turn, and keeps what it was sent. */
function stubbed(answers: unknown[]) {
  const sent: any[] = [];
  const fetch = (_: unknown, init?: { body?: unknown }): Promise<Response> => {
    sent.push(JSON.parse(String(init?.body)));
    const body = JSON.stringify(answers[sent.length - 1]);
    return Promise.resolve(new Response(body, { headers: { 'content-type': 'application/json' } }));
  };
  return { sent, fetch: fetch as typeof globalThis.fetch };
}

test('the tool describes the bindings, runs code, and reports failures to the model', async () => {
  const { name, description, run } = await codeTool(client, { resultCharsMax: 200 });
  assert.equal(name, 'run_javascript');
  assert.match(description, /function getOrder/);
  assert.deepEqual(await run({ code: ORDER }), { text: '[warn] found\n142.5', isError: false });
  const failed = await run({ code: BROKEN });
  assert.ok(failed.isError);
  assert.match(failed.text, /getOrdr is not defined[^]*getOrder/);
  assert.deepEqual(await run({}), { text: 'expected an object with `code`, a string', isError: true });
  const long = await run({ code: "'x'.repeat(201)" });
  assert.match(long.text, /^x{200}\n… cut at 200 of 201 characters/);
  assert.equal((await run({ code: "'x'.repeat(200)" })).text.length, 200);
});

test('values without JSON have a text', () => {
  const value = [1n, new Date(0), new Map([['a', new Set([NaN])]]), new Uint8Array(3), function f() {}, new Error('e')];
  assert.equal(
    render(value).replaceAll(/\s+/g, ' '),
    '[ "1n", "1970-01-01T00:00:00.000Z", [ [ "a", [ "NaN" ] ] ], "[3 bytes]", "[function f]", "Error: e" ]',
  );
  assert.deepEqual([render('a\nb'), render(undefined), render({ a: undefined })], ['a\nb', 'undefined', '{}']);
});

test('Vercel AI SDK: the model runs code and sees its result', async () => {
  const model = new MockLanguageModelV3({
    doGenerate: [
      modelStep([
        { type: 'tool-call', toolCallId: 't1', toolName: 'run_javascript', input: JSON.stringify({ code: ORDER }) },
      ]),
      modelStep([{ type: 'text', text: 'It is 142.5.' }]),
    ],
  });
  const { text, steps } = await generateText({
    model,
    tools: await codeTools(client),
    prompt: 'What is the total?',
    stopWhen: stepCountIs(3),
  });
  assert.equal(text, 'It is 142.5.');
  assert.deepEqual(
    steps[0]?.toolResults.map(({ output }) => output),
    ['[warn] found\n142.5'],
  );
});

test('Vercel AI SDK: its tools are bindings for scripts', async () => {
  const tools = {
    'get-weather': tool({
      description: 'The weather.',
      inputSchema: z.object({ city: z.string(), unit: z.enum(['C', 'F']).default('C') }),
      execute: ({ city, unit }) => Promise.resolve(`${city}: 20 ${unit}`),
    }),
    counted: tool({
      inputSchema: z.object({}),
      execute: async function* () {
        yield 1;
        yield 2;
      },
    }),
    theirs: tool({ inputSchema: z.object({}) }),
  };
  const scripted = await connect(server.url, { bindings: await toolBindings(tools) });
  try {
    assert.equal(await scripted.eval("await get_weather({ city: 'Ulm' })"), 'Ulm: 20 C');
    assert.equal(await scripted.eval('await counted({})'), 2);
    assert.equal(await scripted.eval('typeof theirs'), 'undefined');
    assert.equal(await scripted.eval('get_weather({ city: 5 }).catch((e) => e.name)'), 'InvalidInput');
  } finally {
    await scripted.close();
  }
});

function modelStep(content: unknown[]) {
  const reason = content.some((part) => (part as { type: string }).type === 'tool-call') ? 'tool-calls' : 'stop';
  return {
    content,
    finishReason: { unified: reason, raw: undefined },
    usage: {
      inputTokens: { total: 1, noCache: 1, cacheRead: undefined, cacheWrite: undefined },
      outputTokens: { total: 1, text: 1, reasoning: undefined },
    },
    warnings: [],
  } as never;
}

test('OpenAI: runTools of Chat Completions runs code', async () => {
  const message = (rest: object) => ({
    id: 'c',
    object: 'chat.completion',
    created: 0,
    model: 'stub',
    choices: [
      { index: 0, finish_reason: 'stop', logprobs: null, message: { role: 'assistant', refusal: null, ...rest } },
    ],
  });
  const call = (id: string, text: string) => ({
    id,
    type: 'function',
    function: { name: 'run_javascript', arguments: text },
  });
  const calls = [call('a', JSON.stringify({ code: ORDER })), call('b', JSON.stringify({ code: BROKEN }))];
  const { sent, fetch } = stubbed([message({ content: null, tool_calls: calls }), message({ content: 'done' })]);
  const openai = new OpenAI({ apiKey: 'none', fetch });
  const runner = openai.chat.completions.runTools({
    model: 'stub',
    messages: [{ role: 'user', content: 'What is the total?' }],
    tools: [await chatTool(client)],
  });
  assert.equal(await runner.finalContent(), 'done');
  assert.deepEqual(sent[0].tools[0].function.parameters.required, ['code']);
  const results = sent[1].messages.filter(({ role }: { role: string }) => role === 'tool');
  assert.equal(results[0].content, '[warn] found\n142.5');
  assert.match(results[1].content, /getOrdr is not defined/);
});

test('OpenAI: a call of Responses is answered with an item', async () => {
  const answer = {
    id: 'r',
    object: 'response',
    output: [
      { type: 'function_call', id: 'f', call_id: 'call_1', name: 'run_javascript', arguments: '{"code":"6*7"}' },
    ],
  };
  const { sent, fetch } = stubbed([answer]);
  const openai = new OpenAI({ apiKey: 'none', fetch });
  const { definition, call } = await responsesTool(client, { toolName: 'run_javascript' });
  const response = await openai.responses.create({ model: 'stub', input: 'What is 6 * 7?', tools: [definition] });
  assert.equal(sent[0].tools[0].name, 'run_javascript');
  const [item] = response.output;
  assert.ok(item?.type === 'function_call');
  assert.deepEqual(await call(item), { type: 'function_call_output', call_id: 'call_1', output: '42' });
  assert.match((await call({ call_id: 'call_2', arguments: '{' })).output, /expected an object with `code`/);
});

const anthropicMessage = (content: unknown[]) => ({
  id: 'm',
  type: 'message',
  role: 'assistant',
  model: 'stub',
  content,
  stop_reason: content.some((block) => (block as { type: string }).type === 'tool_use') ? 'tool_use' : 'end_turn',
  stop_sequence: null,
  usage: { input_tokens: 1, output_tokens: 1 },
});
const toolUse = (id: string, input: unknown) => ({ type: 'tool_use', id, name: 'run_javascript', input });

test('Anthropic: a tool use of messages is answered with a block', async () => {
  const { sent, fetch } = stubbed([
    anthropicMessage([toolUse('u1', { code: ORDER }), toolUse('u2', { code: BROKEN })]),
  ]);
  const anthropic = new Anthropic({ apiKey: 'none', fetch });
  const { definition, call } = await messagesTool(client);
  const message = await anthropic.messages.create({
    model: 'stub',
    max_tokens: 100,
    messages: [{ role: 'user', content: 'What is the total?' }],
    tools: [definition],
  });
  assert.deepEqual(sent[0].tools[0].input_schema.required, ['code']);
  const [good, bad] = message.content;
  assert.ok(good?.type === 'tool_use' && bad?.type === 'tool_use');
  const expected = { type: 'tool_result', tool_use_id: 'u1', content: '[warn] found\n142.5', is_error: false };
  assert.deepEqual(await call(good), expected);
  assert.equal((await call(bad)).is_error, true);
});

test('Anthropic: the tool runner runs code', async () => {
  const uses = [toolUse('u1', { code: ORDER }), toolUse('u2', { code: BROKEN })];
  const { sent, fetch } = stubbed([anthropicMessage(uses), anthropicMessage([{ type: 'text', text: 'done' }])]);
  const anthropic = new Anthropic({ apiKey: 'none', fetch });
  const last = await anthropic.beta.messages.toolRunner({
    model: 'stub',
    max_tokens: 100,
    messages: [{ role: 'user', content: 'What is the total?' }],
    tools: [await runnableTool(client)],
  });
  assert.equal(last.stop_reason, 'end_turn');
  const results = sent[1].messages.at(-1).content;
  assert.equal(results[0].content, '[warn] found\n142.5');
  assert.equal(results[1].is_error, true);
  assert.match(results[1].content, /getOrdr is not defined/);
});

test('an abort of the model’s call cancels the eval', async () => {
  const { run } = await codeTool(client);
  const controller = new AbortController();
  const running = run({ code: 'await forever()' }, controller.signal);
  controller.abort(new Error('enough'));
  await assert.rejects(running, /enough/);
  assert.deepEqual(await run({ code: '1' }), { text: '1', isError: false });
});
