import { RECENT_CHARS_MAX, RECENT_PLANTS_MAX } from "../limits.ts";
import type { NewPlant, Plant } from "../plant/plant.ts";

const SLOT_BITS = Math.log2(RECENT_PLANTS_MAX);

/**
 * Plants that were recently stored or found in the store, so that a retry needs
 * no access to it. A stored plant never changes, so an entry is never outdated.
 *
 * The lowest bits of an id select its slot, and a plant overwrites an earlier one
 * in its slot. The slots are typed arrays: plants kept as objects would cost each
 * create 3 µs of garbage collection.
 */
export class RecentPlants {
  readonly #ids: BigInt64Array;
  /** The length of the name plus 1, and of the tag plus 1; 0 if there is none. */
  readonly #nameLengths: Uint8Array;
  readonly #tagLengths: Uint8Array;
  /** The UTF-16 code units of each name and tag. */
  readonly #units: Uint16Array;
  readonly #slotMask: number;

  /** @param slots a power of 2, at most {@link RECENT_PLANTS_MAX} */
  constructor(slots: number = RECENT_PLANTS_MAX) {
    this.#ids = new BigInt64Array(slots);
    this.#nameLengths = new Uint8Array(slots);
    this.#tagLengths = new Uint8Array(slots);
    this.#units = new Uint16Array(slots * RECENT_CHARS_MAX);
    this.#slotMask = slots - 1;
  }

  /** Keeps a stored plant, unless it is longer than {@link RECENT_CHARS_MAX}. */
  add(id: bigint, { name, tag }: Plant): void {
    if (name.length + (tag?.length ?? 0) > RECENT_CHARS_MAX) return;
    const slot = this.#slotOf(id);
    this.#ids[slot] = id;
    this.#nameLengths[slot] = name.length + 1;
    this.#tagLengths[slot] = tag === undefined ? 0 : tag.length + 1;
    const at = this.#write(name, slot * RECENT_CHARS_MAX);
    if (tag !== undefined) this.#write(tag, at);
  }

  /** Returns whether a plant equals the stored one, `undefined` if unknown. */
  matches({ id, plant: { name, tag } }: NewPlant): boolean | undefined {
    const slot = this.#slotOf(id);
    if (this.#nameLengths[slot] === 0 || this.#ids[slot] !== id) {
      return undefined;
    }
    const tagLength = tag === undefined ? 0 : tag.length + 1;
    const at = slot * RECENT_CHARS_MAX;
    return this.#nameLengths[slot] === name.length + 1 &&
      this.#tagLengths[slot] === tagLength &&
      this.#equals(name, at) &&
      (tag === undefined || this.#equals(tag, at + name.length));
  }

  /** Writes a text at an offset, and returns the offset of its end. */
  #write(text: string, at: number): number {
    for (let i = 0; i < text.length; i++) {
      this.#units[at++] = text.charCodeAt(i);
    }
    return at;
  }

  #equals(text: string, at: number): boolean {
    for (let i = 0; i < text.length; i++) {
      if (this.#units[at + i] !== text.charCodeAt(i)) return false;
    }
    return true;
  }

  #slotOf(id: bigint): number {
    return Number(BigInt.asUintN(SLOT_BITS, id)) & this.#slotMask;
  }
}
