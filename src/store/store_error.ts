import { errorMessage, toLine, truncate } from "../messages.ts";
import { FileError, toFileError } from "../files/file_error.ts";
import type { StoreLocation } from "./location.ts";

/** Maximum length of a message of a KV Connect server, in UTF-16 code units. */
const SERVER_MESSAGE_CHARS_MAX = 200;

/**
 * Converts an error of a store. The message of a KV Connect server can contain
 * anything, even the token, so the token is masked and the message truncated and
 * put on one line.
 */
export function toStoreError(
  error: unknown,
  location: StoreLocation,
): FileError {
  const converted = toFileError(error);
  if (
    location.kind === "file" || error instanceof FileError ||
    converted.problem === "newer format"
  ) return converted;
  const masked = toLine(
    errorMessage(error).replaceAll(location.token, "[token]"),
  );
  return new FileError("server", truncate(masked, SERVER_MESSAGE_CHARS_MAX));
}
