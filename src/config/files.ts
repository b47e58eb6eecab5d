import { CONFIG_FILE_BYTES_MAX } from "../limits.ts";
import { exitStatusOf, OperatorError } from "../operator_error.ts";
import { StoreError, toStoreError } from "../store_error.ts";

/** A configured file, and the flag or variable that contained its path. */
export interface FileSetting {
  readonly name: string;
  /** Absolute. */
  readonly path: string;
}

/**
 * Reads a file. It may be a pipe or a device, so the size is bounded.
 * @throws {OperatorError}
 */
export function readFile(file: FileSetting): string {
  const bytes = new Uint8Array(CONFIG_FILE_BYTES_MAX + 1);
  try {
    using open = Deno.openSync(file.path);
    for (let length = 0; length < bytes.length;) {
      const count = open.readSync(bytes.subarray(length));
      if (count === null) {
        return new TextDecoder().decode(bytes.subarray(0, length));
      }
      length += count;
    }
  } catch (error) {
    throw cannotRead(file, error);
  }
  const mibMax = CONFIG_FILE_BYTES_MAX / 2 ** 20;
  const message = `it is larger than ${mibMax} MiB`;
  throw cannotRead(file, new StoreError("path", message));
}

/**
 * Reads a file again while the service runs. It must be a regular file: reading
 * from a pipe could block the service forever.
 * @throws {OperatorError}
 */
export function readAgain(file: FileSetting): string {
  let isFile: boolean;
  try {
    ({ isFile } = Deno.statSync(file.path));
  } catch (error) {
    throw cannotRead(file, error);
  }
  if (isFile) return readFile(file);
  throw cannotRead(file, new StoreError("path", "it is not a regular file"));
}

/** Returns the error of a file that cannot be read. */
function cannotRead(
  { name, path }: FileSetting,
  error: unknown,
): OperatorError {
  const converted = toStoreError(error);
  return new OperatorError(
    `${name}: cannot read ${path}: ${converted.message}`,
    exitStatusOf(converted),
  );
}
