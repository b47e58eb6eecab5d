/**
 * Returns the value of a key, which is made if the map has none. Deno 2.6.10 has
 * no `Map.getOrInsertComputed()`.
 */
export function getOrInsert<Key, Value>(
  map: Map<Key, Value>,
  key: Key,
  make: () => Value,
): Value {
  const found = map.get(key);
  if (found !== undefined) return found;
  const made = make();
  map.set(key, made);
  return made;
}
