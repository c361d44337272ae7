// The code tool for the `@anthropic-ai/sdk` package: for `messages.create`, and for its tool runner.

import type { Client } from '../client.js';
import { codeTool } from './code-tool.js';
import type { CodeInput, CodeTool, CodeToolOptions } from './code-tool.js';

export type { CodeToolOptions } from './code-tool.js';

export interface ToolDefinition {
  name: string;
  description: string;
  input_schema: CodeTool['inputSchema'];
}

/** A tool for `anthropic.messages.create`, and what answers its calls. */
export interface MessagesTool {
  definition: ToolDefinition;
  /** The block for the next user message. */
  call(block: { id: string; input: unknown }, signal?: AbortSignal): Promise<ToolResultBlock>;
}

export interface ToolResultBlock {
  type: 'tool_result';
  tool_use_id: string;
  content: string;
  is_error: boolean;
}

export async function messagesTool<B>(client: Client<B>, options?: CodeToolOptions): Promise<MessagesTool> {
  const { name, description, inputSchema, run } = await codeTool(client, options);
  return {
    definition: { name, description, input_schema: inputSchema },
    async call({ id, input }, signal) {
      const { text, isError } = await run(input, signal);
      return { type: 'tool_result', tool_use_id: id, content: text, is_error: isError };
    },
  };
}

/** A tool of `anthropic.beta.messages.toolRunner`, which calls it by itself. */
export interface RunnableTool extends ToolDefinition {
  type: 'custom';
  parse: (content: unknown) => CodeInput;
  run: (args: CodeInput, context?: { signal?: AbortSignal | null | undefined }) => Promise<string>;
}

export async function runnableTool<B>(client: Client<B>, options?: CodeToolOptions): Promise<RunnableTool> {
  const { name, description, inputSchema, run } = await codeTool(client, options);
  return {
    type: 'custom',
    name,
    description,
    input_schema: inputSchema,
    parse: (content) => content as CodeInput,
    async run(args, context) {
      const { text, isError } = await run(args, context?.signal);
      // The runner makes an error result of what is thrown.
      if (isError) throw new Error(text);
      return text;
    },
  };
}
