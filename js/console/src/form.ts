// A form made from a schema: fields for what has a shape, JSON for what has none.

import { h } from './dom.js';
import { asSchema, resolved, typeText } from './schema.js';
import type { Schema } from './schema.js';

/** A part of a form. `read` returns its value, `undefined` if it was left out, or throws what is wrong with it. */
export interface Field {
  element: HTMLElement;
  read(): unknown;
}

/** Nesting beyond which a field is plain JSON: a recursive schema has no end. */
const FORM_DEPTH_MAX = 4;

let idsUsed = 0;

export function form(schema: Schema): Field {
  return field(schema, schema, 'input', true, 0);
}

function field(schema: Schema, root: Schema, name: string, isRequired: boolean, depth: number): Field {
  const shape = resolved(schema, root);
  if (Array.isArray(shape.enum) && shape.enum.every((one) => typeof one === 'string'))
    return choice(shape, name, isRequired);
  if (depth < FORM_DEPTH_MAX) {
    if (shape.properties !== undefined && !(shape.required ?? []).includes('$fn'))
      return group(shape, root, name, depth);
    if (shape.type === 'array') return list(shape, root, name, depth);
  }
  switch (shape.type) {
    case 'string':
      return line(shape, name, isRequired, 'text', (text) => text);
    case 'integer':
    case 'number':
      return line(shape, name, isRequired, 'number', (text) => numberOf(text, name));
    case 'boolean':
      return choice({ ...shape, enum: ['true', 'false'] }, name, isRequired, (text) => text === 'true');
    default:
      return json(shape, root, name, isRequired);
  }
}

function labelled(name: string, schema: Schema, isRequired: boolean, control: HTMLElement): HTMLElement {
  idsUsed += 1;
  control.id = `field-${idsUsed}`;
  const label = h(
    'label',
    { for: control.id },
    name,
    isRequired && h('span', { class: 'required', title: 'required' }, ' *'),
  );
  const hint = schema.description === undefined ? undefined : h('small', {}, schema.description);
  return h('div', { class: 'field' }, label, control, hint);
}

function line(
  schema: Schema,
  name: string,
  isRequired: boolean,
  type: string,
  parse: (text: string) => unknown,
): Field {
  const input = h('input', {
    type,
    step: 'any',
    name,
    autocomplete: 'off',
    placeholder: typeof schema['default'] === 'string' ? schema['default'] : undefined,
  });
  return {
    element: labelled(name, schema, isRequired, input),
    // An empty field that is not required is left out; a required text may be empty.
    read: () => (input.value === '' && (!isRequired || type === 'number') ? undefined : parse(input.value)),
  };
}

function numberOf(text: string, name: string): number {
  const value = Number(text);
  if (!Number.isFinite(value)) throw new Error(`${name}: not a number`);
  return value;
}

function choice(
  schema: Schema,
  name: string,
  isRequired: boolean,
  parse: (text: string) => unknown = (text) => text,
): Field {
  const options = (schema.enum as string[]).map((one) => h('option', { value: one }, one));
  const select = h('select', { name }, !isRequired && h('option', { value: '' }, '(left out)'), ...options);
  return {
    element: labelled(name, schema, isRequired, select),
    read: () => (select.value === '' ? undefined : parse(select.value)),
  };
}

function group(schema: Schema, root: Schema, name: string, depth: number): Field {
  const required = schema.required ?? [];
  const fields = Object.entries(schema.properties ?? {}).map(
    ([key, one]) => [key, field(one, root, key, required.includes(key), depth + 1)] as const,
  );
  const parts = fields.map(([, part]) => part.element);
  const element =
    depth === 0 ? h('div', { class: 'fields' }, ...parts) : h('fieldset', {}, h('legend', {}, name), ...parts);
  const read = () => {
    const values = fields.map(([key, part]) => [key, part.read()] as const).filter(([, value]) => value !== undefined);
    return values.length === 0 && depth > 0 && !required.length ? undefined : Object.fromEntries(values);
  };
  return { element, read };
}

function list(schema: Schema, root: Schema, name: string, depth: number): Field {
  const items: { part: Field; row: HTMLElement }[] = [];
  const rows = h('div', { class: 'fields' });
  const add = () => {
    const part = field(asSchema(schema.items), root, `${name}[${items.length}]`, true, depth + 1);
    const remove = h(
      'button',
      { type: 'button', class: 'quiet', 'aria-label': `Remove ${name}[${items.length}]`, onclick: () => drop() },
      '×',
    );
    const row = h('div', { class: 'row' }, part.element, remove);
    const item = { part, row };
    const drop = () => {
      items.splice(items.indexOf(item), 1);
      row.remove();
    };
    items.push(item);
    rows.append(row);
  };
  const button = h('button', { type: 'button', class: 'quiet', onclick: add }, `Add to ${name}`);
  return {
    element: h('fieldset', {}, h('legend', {}, name), rows, button),
    read: () => (items.length === 0 ? undefined : items.map(({ part }) => part.read())),
  };
}

function json(schema: Schema, root: Schema, name: string, isRequired: boolean): Field {
  const area = h('textarea', { name, rows: '2', spellcheck: 'false', placeholder: `JSON: ${typeText(schema, root)}` });
  return {
    element: labelled(name, schema, isRequired, area),
    read: () => {
      if (area.value.trim() === '') return undefined;
      try {
        return JSON.parse(area.value) as unknown;
      } catch (error) {
        throw new Error(`${name}: ${(error as Error).message}`);
      }
    },
  };
}
