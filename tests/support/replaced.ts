/** Replaces a member of an object until it is disposed of. */
export function replaced<Target, Name extends keyof Target>(
  target: Target,
  name: Name,
  replacement: Target[Name],
): Disposable {
  const original = target[name];
  target[name] = replacement;
  return { [Symbol.dispose]: () => void (target[name] = original) };
}
