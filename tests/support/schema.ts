/** A schema, with the keywords that tests read. */
interface Schema {
  readonly $ref?: string;
  readonly allOf?: readonly Schema[];
  readonly type?: string;
  readonly format?: string;
  readonly description?: string;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
}

/** Examples by their names. */
type Examples = Readonly<Record<string, { readonly value: unknown }>>;

/** A response. */
interface Reply {
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
      /** Absent for a reply of a proxy. */
      readonly examples?: Examples;
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
  readonly tags: readonly { readonly name: string }[];
  readonly security: readonly object[];
  readonly paths: {
    readonly "/plants": {
      readonly post: {
        readonly tags: readonly string[];
        readonly description: string;
        readonly responses: Readonly<Record<string, Reply>>;
      };
    };
  };
  readonly components: {
    readonly schemas: Readonly<Record<"Plant" | "NewPlant" | "Error", Schema>>;
    readonly securitySchemes: {
      readonly bearerAuth: { readonly type: string; readonly scheme: string };
    };
  };
}
