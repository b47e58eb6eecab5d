import type { Program } from "./program.ts";

/** A schema, with the keywords that the description uses. */
export interface Schema {
  readonly $ref?: string;
  readonly allOf?: readonly Schema[];
  readonly type?: string;
  readonly format?: string;
  readonly description?: string;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly minimum?: number;
  readonly maximum?: number;
}

/** Examples by their names. */
export type Examples = Readonly<Record<string, { readonly value: unknown }>>;

/** A header of a response. */
export interface Header {
  readonly description?: string;
  readonly required: boolean;
  readonly schema: Schema;
  readonly examples: Examples;
}

/** A request body or a response. */
export interface Message {
  readonly description: string;
  readonly headers?: Readonly<Record<string, Header>>;
  readonly content: {
    readonly "application/json": {
      readonly schema: Schema;
      readonly examples: Examples;
    };
  };
}

/** The parts of the OpenAPI description that tests read. */
export interface Description {
  readonly info: {
    readonly title: string;
    readonly version: string;
    readonly description: string;
    readonly license: { readonly name: string };
  };
  readonly servers: readonly { readonly url: string }[];
  readonly tags: readonly { readonly name: string }[];
  readonly security: readonly object[];
  readonly paths: {
    readonly "/plants": {
      readonly post: {
        readonly tags: readonly string[];
        readonly description: string;
        readonly requestBody: Message;
        readonly responses: Readonly<Record<string, Message>>;
      };
    };
  };
  readonly components: {
    readonly schemas: Readonly<
      Record<string, Schema> & Record<"Plant" | "NewPlant" | "Error", Schema>
    >;
    readonly securitySchemes: {
      readonly bearerAuth: { readonly type: string; readonly scheme: string };
    };
  };
}

/** Reads the description from a running service. */
export async function readDescription(
  { origin }: Pick<Program, "origin">,
): Promise<Description> {
  const response = await fetch(`${origin}/openapi.json`);
  return await response.json();
}

/** Returns why a value is invalid against a schema; empty if it is valid. */
export function violations(
  value: unknown,
  schema: Schema,
  { components }: Pick<Description, "components">,
): string[] {
  const found: string[] = [];

  function check(value: unknown, schema: Schema, path: string): void {
    const { $ref, allOf = [], type } = schema;
    if ($ref !== undefined) {
      const target = components.schemas[$ref.split("/").at(-1) ?? ""];
      if (target === undefined) found.push(`${path}: no ${$ref}`);
      else check(value, target, path);
    }
    for (const part of allOf) check(value, part, path);
    if (type === "string" && typeof value !== "string") {
      found.push(`${path}: not a string`);
    }
    if (type === "integer") checkInteger(value, schema, path);
    if (type === "object") checkObject(value, schema, path);
  }

  function checkInteger(value: unknown, schema: Schema, path: string): void {
    const { minimum = -Infinity, maximum = Infinity } = schema;
    if (typeof value !== "number" || !Number.isInteger(value)) {
      found.push(`${path}: not an integer`);
    } else if (value < minimum || value > maximum) {
      found.push(`${path}: out of range`);
    }
  }

  function checkObject(value: unknown, schema: Schema, path: string): void {
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      found.push(`${path}: not an object`);
      return;
    }
    const members = new Map<string, unknown>(Object.entries(value));
    for (const name of schema.required ?? []) {
      if (!members.has(name)) found.push(`${path}.${name}: missing`);
    }
    for (const [name, part] of Object.entries(schema.properties ?? {})) {
      if (members.has(name)) check(members.get(name), part, `${path}.${name}`);
    }
  }

  check(value, schema, "$");
  return found;
}
