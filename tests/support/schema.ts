/** A schema, with the keywords that the description uses. */
interface Schema {
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
type Examples = Readonly<Record<string, { readonly value: unknown }>>;

/** A request body or a response. */
interface Message {
  readonly description: string;
  readonly headers?: Readonly<
    Record<string, {
      readonly required: boolean;
      readonly schema: Schema;
      readonly examples: Examples;
    }>
  >;
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

/** Returns whether a value is valid against a schema without `allOf`. */
export function isValid(
  value: unknown,
  schema: Schema,
  api: Description,
): boolean {
  const { $ref, type, required = [], properties = {} } = schema;
  if ($ref !== undefined) {
    const target = api.components.schemas[$ref.split("/").at(-1) ?? ""];
    return target !== undefined && isValid(value, target, api);
  }
  if (type === "integer") return Number.isInteger(value);
  if (type === "string") return typeof value === "string";
  if (typeof value !== "object" || value === null) return false;
  const members = new Map<string, unknown>(Object.entries(value));
  return required.every((name) => members.has(name)) &&
    Object.entries(properties).every(([name, part]) =>
      !members.has(name) || isValid(members.get(name), part, api)
    );
}
