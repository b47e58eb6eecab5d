import { CREATES_RUNNING_MAX } from "../limits.ts";

/**
 * The door of the service, the one place that bounds load: it admits a create or
 * refuses it, counts the creates until they leave, and drains when the service stops.
 * Every POST request counts as a create, because its checks come later.
 */
export class Door {
  #creates = 0;
  /** Set when the service stops; resolves when no create is inside. */
  #drained: PromiseWithResolvers<void> | undefined;

  /** The creates that are running, from their headers to their replies. */
  get creates(): number {
    return this.#creates;
  }

  /** Whether the service stops, so that no create may reach the store. */
  get isDraining(): boolean {
    return this.#drained !== undefined;
  }

  /**
   * Admits a create, which must {@link leave}. A draining service admits it, too:
   * the handler refuses it after the checks that come first, such as the token.
   * @returns false if the service is busy
   */
  enter(): boolean {
    if (this.#creates === CREATES_RUNNING_MAX) return false;
    this.#creates++;
    return true;
  }

  /** A create has its reply, and leaves. */
  leave(): void {
    this.#creates--;
    if (this.#creates === 0) this.#drained?.resolve();
  }

  /** Resolves when every running create has left. */
  async drain(): Promise<void> {
    this.#drained = Promise.withResolvers();
    if (this.#creates > 0) await this.#drained.promise;
  }
}
