// What is read out of a JSON Schema: its type in a line of TypeScript, its members, an example.

export interface Schema {
  [keyword: string]: unknown;
  type?: string | string[];
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  enum?: unknown[];
  description?: string;
}

/** How deep a type is written out; beyond it a name is enough for a reader. */
const TYPE_DEPTH_MAX = 4;

export function asSchema(value: unknown): Schema {
  return typeof value === 'object' && value !== null ? (value as Schema) : {};
}

/** Follows a `$ref` inside the document; anything else is the schema itself. */
export function resolved(schema: Schema, root: Schema): Schema {
  const reference = schema['$ref'];
  if (typeof reference !== 'string' || !reference.startsWith('#/')) return schema;
  const steps = reference
    .slice(2)
    .split('/')
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
  const found = steps.reduce<unknown>(
    (at, step) => (typeof at === 'object' && at !== null ? (at as Schema)[step] : undefined),
    root,
  );
  return asSchema(found);
}

/** The schema as a TypeScript type, in one line. */
export function typeText(schema: Schema | undefined, root: Schema = schema ?? {}, depth = 0): string {
  if (schema === undefined) return 'unknown';
  const reference = schema['$ref'];
  if (typeof reference === 'string' && depth > 0) return reference.split('/').at(-1) ?? 'unknown';
  const { type, enum: values, items, ...rest } = resolved(schema, root);
  if ('const' in rest) return JSON.stringify(rest['const']);
  if (Array.isArray(values)) return values.map((value) => JSON.stringify(value)).join(' | ');
  const union = rest['oneOf'] ?? rest['anyOf'];
  if (Array.isArray(union)) return union.map((one) => typeText(asSchema(one), root, depth + 1)).join(' | ');
  if (Array.isArray(type)) return type.map((one) => typeText({ ...schema, type: one }, root, depth)).join(' | ');
  switch (type) {
    case 'integer':
    case 'number':
      return 'number';
    case 'string':
    case 'boolean':
    case 'null':
      return type;
    case 'array':
      return `${typeText(asSchema(items), root, depth + 1)}[]`;
    case 'object':
      return objectText(rest as Schema, root, depth);
    default:
      return rest.properties === undefined ? 'unknown' : objectText(rest as Schema, root, depth);
  }
}

function objectText(schema: Schema, root: Schema, depth: number): string {
  const required = schema.required ?? [];
  if (required.includes('$fn')) return 'Function';
  const entries = Object.entries(schema.properties ?? {});
  if (entries.length === 0 || depth >= TYPE_DEPTH_MAX) return 'object';
  const member = ([name, one]: [string, Schema]) =>
    `${name}${required.includes(name) ? '' : '?'}: ${typeText(one, root, depth + 1)}`;
  return `{ ${entries.map(member).join('; ')} }`;
}
