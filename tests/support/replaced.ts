/**
 * Replaces a member of a global object until it is disposed of, for what a test
 * cannot cause or pass in any other way.
 */
export function replaced<Target, Name extends keyof Target>(
  target: Target,
  name: Name,
  replacement: Target[Name],
): Disposable {
  const original = target[name];
  target[name] = replacement;
  return { [Symbol.dispose]: () => void (target[name] = original) };
}
