/** What an exception says, whatever was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** What is wrong with a file, in words for the person who named it. */
export function fileFault(error: unknown): string {
  if (error instanceof Deno.errors.NotFound) return "there is no such file";
  if (error instanceof Deno.errors.IsADirectory) return "it is a folder";
  if (error instanceof Deno.errors.PermissionDenied) {
    return "this user may not";
  }
  if (error instanceof Deno.errors.NotCapable) {
    return "Deno does not open what the system has there";
  }
  return messageOf(error);
}
