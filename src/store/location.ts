/** Where plants are stored. */
export type StoreLocation =
  /** An embedded database; the path is absolute. */
  | { readonly kind: "file"; readonly path: string }
  /** A KV Connect server, and the token that Deno sends to it. */
  | { readonly kind: "server"; readonly url: string; readonly token: string };
