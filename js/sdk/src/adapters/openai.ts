// The code tool for the `openai` package: for Chat Completions, with or without `runTools`, and for Responses.

import type { Client } from '../client.js';
import { codeTool } from './code-tool.js';
import type { CodeInput, CodeTool, CodeToolOptions } from './code-tool.js';

export type { CodeToolOptions } from './code-tool.js';

/** A tool of `openai.chat.completions.create` and `runTools`. The functions in it are not sent. */
export interface ChatTool {
  type: 'function';
  function: {
    name: string;
    description: string;
    parameters: CodeTool['inputSchema'];
    strict: true;
    parse: (input: string) => CodeInput;
    function: (args: CodeInput, runner?: { controller?: AbortController }) => Promise<string>;
  };
}

/** A tool for Chat Completions. `runTools` calls it by itself; `tool.function.function` runs a call otherwise. */
export async function chatTool<B>(client: Client<B>, options?: CodeToolOptions): Promise<ChatTool> {
  const { name, description, inputSchema: parameters, run } = await codeTool(client, options);
  return {
    type: 'function',
    function: {
      name,
      description,
      parameters,
      strict: true,
      parse: readArguments,
      function: async (args, runner) => (await run(args, runner?.controller?.signal)).text,
    },
  };
}

/** A tool for `openai.responses.create`, and what answers its calls. */
export interface ResponsesTool {
  definition: {
    type: 'function';
    name: string;
    description: string;
    parameters: Record<string, unknown>;
    strict: true;
  };
  /** The item to add to the next request's `input`. */
  call(
    item: { call_id: string; arguments: string },
    signal?: AbortSignal,
  ): Promise<{ type: 'function_call_output'; call_id: string; output: string }>;
}

export async function responsesTool<B>(client: Client<B>, options?: CodeToolOptions): Promise<ResponsesTool> {
  const { name, description, inputSchema: parameters, run } = await codeTool(client, options);
  return {
    definition: { type: 'function', name, description, parameters, strict: true },
    async call({ call_id, arguments: text }, signal) {
      const { text: output } = await run(readArguments(text), signal);
      return { type: 'function_call_output', call_id, output };
    },
  };
}

/** Models write the arguments: what is not JSON is refused by the tool, as a result that they can read. */
function readArguments(text: string): CodeInput {
  try {
    return JSON.parse(text) as CodeInput;
  } catch {
    return {} as CodeInput;
  }
}
