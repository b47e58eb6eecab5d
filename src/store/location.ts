/** The variable with the token of a KV Connect server: Deno's own. */
export const KV_TOKEN = "DENO_KV_ACCESS_TOKEN";

/** Where plants are stored. */
export interface StoreLocation {
  /** The flag or variable that names it. */
  readonly setting: string;
  /**
   * The file of an embedded store, or the URL of a KV Connect server. The path is
   * absolute, without links: since 2.9.7, Deno opens no path with a link in it.
   */
  readonly name: string;
  /** The token that Deno sends to a server; absent for a file. */
  readonly token?: string;
}
