// What can be written next, from the bindings' names and schemas.

import type { Completion, CompletionContext, CompletionResult, CompletionSource } from '@codemirror/autocomplete';
import { localCompletionSource } from '@codemirror/lang-javascript';
import type { Declaration } from 'scomp-client';

import { asSchema, resolved, typeText } from './schema.js';

/** How far back an open call is looked for. */
const LOOK_BACK_CHARS_MAX = 1000;

/** `getOrder(input: { id: string }): Promise<…>` */
export function signature({ name, input, output }: Declaration): string {
  const given = input === undefined ? 'input?: unknown' : `input: ${typeText(asSchema(input))}`;
  return `${name}(${given}): Promise<${output === undefined ? 'unknown' : typeText(asSchema(output))}>`;
}

/**
 * Completes `kv.` with its members, `getOrder({ ` with the members of its input and nothing else, and names of the code
 * itself.
 */
export function completions(declarations: () => Declaration[]): CompletionSource[] {
  const orElse =
    (source: CompletionSource): CompletionSource =>
    (context) =>
      inputMembers(context, declarations()) === null ? source(context) : null;
  return [
    (context) => inputMembers(context, declarations()),
    orElse((context) => names(context, declarations())),
    orElse(localCompletionSource),
  ];
}

function names(context: CompletionContext, declarations: Declaration[]): CompletionResult | null {
  const word = context.matchBefore(/[\w$][\w$.]*/);
  if (word === null && !context.explicit) return null;
  const typed = word?.text ?? '';
  const prefix = typed.slice(0, typed.lastIndexOf('.') + 1);
  const options = new Map<string, Completion>();
  for (const declaration of declarations.filter(({ name }) => name.startsWith(prefix))) {
    const [segment = '', ...deeper] = declaration.name.slice(prefix.length).split('.');
    const isBinding = deeper.length === 0;
    if (options.has(segment)) continue;
    options.set(segment, {
      label: segment,
      type: isBinding ? 'function' : 'namespace',
      boost: 10,
      ...(isBinding ? { detail: declaration.effects?.join(', ') ?? '', info: () => infoOf(declaration) } : {}),
    });
  }
  if (options.size === 0) return null;
  return { from: (word?.from ?? context.pos) + prefix.length, options: [...options.values()], validFor: /^[\w$]*$/ };
}

function infoOf(declaration: Declaration): HTMLElement {
  const element = document.createElement('div');
  const code = document.createElement('code');
  code.textContent = signature(declaration);
  element.append(code, document.createElement('br'), declaration.description ?? '');
  return element;
}

function inputMembers(context: CompletionContext, declarations: Declaration[]): CompletionResult | null {
  const before = context.state.sliceDoc(Math.max(0, context.pos - LOOK_BACK_CHARS_MAX), context.pos);
  const open = /([\w$.]+)\(\s*\{([^{}()]*)$/.exec(before);
  const [, name, content] = open ?? [];
  const declaration = declarations.find((one) => one.name === name);
  // A member's name stands at the start or after a comma; after a colon it is a value.
  const word = /(?:^|,)\s*([\w$]*)$/.exec(content ?? '')?.[1];
  if (declaration === undefined || word === undefined) return null;
  const root = asSchema(declaration.input);
  const { properties = {}, required = [] } = resolved(root, root);
  const given = new Set([...(content ?? '').matchAll(/([\w$]+)\s*:/g)].map(([, key]) => key));
  const options = Object.entries(properties)
    .filter(([key]) => !given.has(key))
    .map(([key, schema]): Completion => ({
      label: key,
      apply: `${key}: `,
      type: 'property',
      detail: `${required.includes(key) ? '' : '? '}${typeText(schema, root, 1)}`,
      boost: required.includes(key) ? 2 : 1,
      ...(schema.description === undefined ? {} : { info: schema.description }),
    }));
  return options.length === 0 ? null : { from: context.pos - word.length, options, validFor: /^[\w$]*$/ };
}
