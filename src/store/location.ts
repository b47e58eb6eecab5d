/** The variable with the token of a KV Connect server: Deno's own. */
export const KV_TOKEN = "DENO_KV_ACCESS_TOKEN";

/** Where plants are stored, and the flag or variable that says so. */
export type StoreLocation =
  /**
   * An embedded database; the path is absolute, without links: since 2.9.7, Deno
   * opens no database by a path with a link in it.
   */
  | {
    readonly kind: "file";
    readonly setting: string;
    readonly path: string;
  }
  /** A KV Connect server, and the token that Deno sends to it. */
  | {
    readonly kind: "server";
    readonly setting: string;
    readonly url: string;
    readonly token: string;
  };

/** Returns the name of a store for messages. */
export function nameOf(location: StoreLocation): string {
  return location.kind === "file" ? location.path : location.url;
}
