// The Vercel AI SDK, package `ai`: the session as a tool of a model, and tools of the SDK as bindings for scripts.

import { asSchema, jsonSchema, tool } from 'ai';
import type { Tool } from 'ai';

import type { BindingTable } from '../bindings.js';
import type { Client } from '../client.js';
import { codeTool } from './code-tool.js';
import type { CodeInput, CodeToolOptions } from './code-tool.js';

export type { CodeToolOptions } from './code-tool.js';

/** The tools for `generateText` and `streamText`: one, under its name, with which the model runs code in the session. */
export async function codeTools<B>(
  client: Client<B>,
  options?: CodeToolOptions,
): Promise<Record<string, Tool<CodeInput, string>>> {
  const { name, description, inputSchema, run } = await codeTool(client, options);
  return {
    [name]: tool({
      description,
      inputSchema: jsonSchema<CodeInput>(inputSchema),
      execute: async (input: CodeInput, { abortSignal }: { abortSignal?: AbortSignal }) =>
        (await run(input, abortSignal)).text,
    }) as Tool<CodeInput, string>,
  };
}

/**
 * Tools of the SDK as bindings for `connect`: the model writes one script instead of many calls. Tools without `execute`,
 * which the model's provider runs, are left out.
 */
export async function toolBindings(tools: Record<string, Tool>): Promise<BindingTable> {
  const table: BindingTable = {};
  for (const [name, { description, inputSchema, execute }] of Object.entries(tools)) {
    if (execute === undefined) continue;
    const schema = asSchema(inputSchema);
    table[bindingName(name)] = {
      ...(description === undefined ? {} : { description }),
      input: await schema.jsonSchema,
      handler: async (input, { signal }) => {
        const checked = await schema.validate?.(input);
        if (checked?.success === false) throw checked.error;
        const result: unknown = await execute(checked?.value ?? input, {
          toolCallId: crypto.randomUUID(),
          messages: [],
          abortSignal: signal,
        });
        return isStream(result) ? lastOf(result) : result;
      },
    };
  }
  return table;
}

/** Names of tools may have characters that identifiers lack. */
function bindingName(name: string): string {
  const identifier = name.replaceAll(/[^A-Za-z0-9_$.]/g, '_');
  return /^[0-9]/.test(identifier) ? `_${identifier}` : identifier;
}

const isStream = (value: unknown): value is AsyncIterable<unknown> =>
  typeof value === 'object' && value !== null && Symbol.asyncIterator in value;

/** A tool that streams says its result last. */
async function lastOf(stream: AsyncIterable<unknown>): Promise<unknown> {
  let last: unknown;
  for await (const value of stream) last = value;
  return last;
}
