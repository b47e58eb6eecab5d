/** A key and its value. */
export type Entry = readonly [key: Deno.KvKey, value: unknown];

/** Returns everything in a store, in the order of keys. */
export async function entriesOf(kv: Deno.Kv): Promise<Entry[]> {
  const entries = await Array.fromAsync(kv.list({ prefix: [] }));
  return entries.map(({ key, value }) => [key, value]);
}
