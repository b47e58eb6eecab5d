/**
 * The `error` number of every reply that is not a success. The first three
 * digits are the HTTP status. Numbers are for programs: one that was given out
 * never changes its meaning.
 */
export const ERROR = {
  NOT_UTF8: 40001,
  NOT_JSON: 40002,
  NOT_A_NEW_PLANT: 40003,
  NO_TOKEN: 40101,
  TOKEN_NOT_ACCEPTED: 40102,
  NO_SUCH_PATH: 40401,
  METHOD_NOT_ALLOWED: 40501,
  BODY_TIMED_OUT: 40801,
  ID_TAKEN: 40901,
  BODY_TOO_LARGE: 41301,
  CONTENT_TYPE_NOT_JSON: 41501,
  FAULT: 50001,
  SHUTTING_DOWN: 50301,
  QUEUE_FULL: 50302,
  STORE_FAILED: 50303,
} as const;

/** One of the numbers in {@link ERROR}. */
export type ErrorNumber = typeof ERROR[keyof typeof ERROR];

/**
 * Why a request, or a line of an import, was not carried out, as a value:
 * what others send is never an exception of ours. Its two members are the
 * Error body of the API description.
 */
export class Refusal {
  readonly error: ErrorNumber;
  /** For people: names the member, what was expected and what came. */
  readonly message: string;

  constructor(error: ErrorNumber, message: string) {
    this.error = error;
    this.message = message;
  }
}
