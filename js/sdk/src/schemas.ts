// Schemas of validation libraries: zod, valibot, ArkType and others have the interface of https://standardschema.dev.
//
// The declaration gets the JSON Schema of it where the library can make one, so that the server checks values before they
// travel and scripts see the types. The library's own check runs here: it has defaults, transformations and refinements.

import { ScompError } from './errors.js';
import { isRecord } from './rpc.js';

/** What a library says of a value. */
export type ValidationResult<Output> =
  { readonly value: Output; readonly issues?: undefined } | { readonly issues: readonly ValidationIssue[] };

export interface ValidationIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** A schema of any library that implements Standard Schema. */
export interface StandardSchema<Input = any, Output = any> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => ValidationResult<Output> | Promise<ValidationResult<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

type Types<S extends StandardSchema> = NonNullable<S['~standard']['types']>;
/** What may be passed to a schema. */
export type SchemaInput<S> = S extends StandardSchema ? Types<S>['input'] : any;
/** What comes out of it, after defaults and transformations. */
export type SchemaOutput<S> = S extends StandardSchema ? Types<S>['output'] : any;

export function isStandardSchema(value: unknown): value is StandardSchema {
  // ArkType's schemas are functions.
  return ((typeof value === 'object' && value !== null) || typeof value === 'function') && '~standard' in value;
}

type Direction = 'input' | 'output';

/** The schema for the server's declaration; `undefined` where the library cannot say it in JSON Schema. */
export function declaredSchema(schema: unknown, direction: Direction): unknown {
  if (!isStandardSchema(schema)) return schema;
  try {
    return jsonSchemaOf(schema, direction);
  } catch {
    // A type that JSON Schema lacks. The library's own check still runs.
    return undefined;
  }
}

function jsonSchemaOf(schema: StandardSchema, direction: Direction): unknown {
  const { jsonSchema } = schema['~standard'] as { jsonSchema?: Record<Direction, (options: object) => unknown> };
  if (jsonSchema === undefined) return undefined;
  // Dates and bigints have forms of their own on the wire: anything goes there, and the library checks.
  const made = jsonSchema[direction]({ target: 'draft-2020-12', libraryOptions: { unrepresentable: 'any' } });
  if (!isRecord(made)) return undefined;
  const { $schema: _, '~standard': __, ...rest } = made;
  return rest;
}

/** Checks a value, and returns it as the schema makes it. */
export async function validate(schema: unknown, value: unknown, direction: Direction): Promise<unknown> {
  if (!isStandardSchema(schema)) return value;
  const result = await schema['~standard'].validate(value);
  if (result.issues === undefined) return result.value;
  const errors = result.issues.map(({ message, path }) => ({ path: pointer(path ?? []), message }));
  const [kind, code] =
    direction === 'input' ? (['InvalidInput', -32602] as const) : (['InvalidOutput', -32004] as const);
  const first = errors[0];
  const message = first === undefined ? `invalid ${direction}` : `${direction}${first.path}: ${first.message}`;
  throw new ScompError(kind, message, code, { kind, errors });
}

function pointer(path: NonNullable<ValidationIssue['path']>): string {
  const keys = path.map((part) => (typeof part === 'object' ? part.key : part));
  return keys.map((key) => `/${String(key).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}
