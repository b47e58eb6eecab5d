import type { Description, Json, Schema } from "../../src/reference/openapi.ts";

/** Why a value is not one of the schema; nothing where it is. */
export function faults(
  value: Json,
  schema: Schema,
  { components }: Pick<Description, "components">,
): string[] {
  const found: string[] = [];

  function look(value: Json | undefined, schema: Schema, at: string): void {
    if (schema.$ref !== undefined) {
      const [, target] = Object.entries(components.schemas)
        .find(([name]) => schema.$ref === `#/components/schemas/${name}`) ?? [];
      if (target === undefined) found.push(`${at}: no ${schema.$ref}`);
      else look(value, target, at);
    }
    for (const part of schema.allOf ?? []) look(value, part, at);
    switch (schema.type) {
      case undefined:
        break;
      case "string":
        if (typeof value !== "string") found.push(`${at}: not a string`);
        break;
      case "integer":
        lookAtInteger(value, schema, at);
        break;
      case "object": {
        if (
          typeof value !== "object" || value === null || Array.isArray(value)
        ) {
          found.push(`${at}: not an object`);
          break;
        }
        const members = new Map<string, Json>(Object.entries(value));
        for (const name of schema.required ?? []) {
          if (!members.has(name)) found.push(`${at}.${name}: missing`);
        }
        for (const [name, part] of Object.entries(schema.properties ?? {})) {
          if (members.has(name)) look(members.get(name), part, `${at}.${name}`);
        }
      }
    }
  }

  function lookAtInteger(
    value: Json | undefined,
    { minimum, maximum }: Schema,
    at: string,
  ): void {
    if (typeof value !== "bigint" && !Number.isInteger(value)) {
      found.push(`${at}: not an integer`);
    } else if (
      (minimum !== undefined && Number(value) < minimum) ||
      (maximum !== undefined && Number(value) > maximum)
    ) {
      found.push(`${at}: out of range`);
    }
  }

  look(value, schema, "$");
  return found;
}
