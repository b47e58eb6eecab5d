/** Replaces a method of an object until it is disposed of. */
export function replaced<Target, Name extends keyof Target>(
  target: Target,
  name: Name,
  method: Target[Name],
): Disposable {
  const original = target[name];
  target[name] = method;
  return { [Symbol.dispose]: () => void (target[name] = original) };
}
