import { REQUESTS_RUNNING_MAX } from "../limits.ts";

/**
 * The door of the service, the one place that bounds load: it admits a POST request
 * or refuses it, counts the requests until they leave, and drains when the service
 * stops.
 */
export class Door {
  #requests = 0;
  /** Set when the service stops; resolves when no request is inside. */
  #drained: PromiseWithResolvers<void> | undefined;

  /** The POST requests that are running, from their headers to their replies. */
  get requests(): number {
    return this.#requests;
  }

  /** Whether the service stops, so that no create may reach the store. */
  get isDraining(): boolean {
    return this.#drained !== undefined;
  }

  /**
   * Admits a POST request, which must {@link leave}. A draining service admits it, too:
   * the handler refuses it after the checks that come first, such as the token.
   * @returns false if the service is busy
   */
  enter(): boolean {
    if (this.#requests === REQUESTS_RUNNING_MAX) return false;
    this.#requests++;
    return true;
  }

  /** Counts a request that has its reply. */
  leave(): void {
    this.#requests--;
    if (this.#requests === 0) this.#drained?.resolve();
  }

  /** Resolves when every running request has left. */
  async drain(): Promise<void> {
    this.#drained = Promise.withResolvers();
    if (this.#requests > 0) await this.#drained.promise;
  }
}
