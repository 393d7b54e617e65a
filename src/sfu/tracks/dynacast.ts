/** Tells publishers which layers anybody watches, so that they stop encoding the others. */
import type { Layer } from "../../protocol/room-records.ts";
import type { Publication } from "./publication.ts";

/** A viewer who scrolls away often comes back: going down waits, going up does not. */
const LOWER_AFTER_MS = 5_000;
const NOTHING = -1;

type State = { told: number; lowerSinceMs: number | null };

export class Dynacast {
  readonly #states = new Map<string, State>();

  forget(publication: Publication): void {
    this.#states.delete(publication.trackId);
  }

  /** Whether its publisher has been told to send something of it. */
  isWanted(publication: Publication): boolean {
    if (publication.kind !== "video") return publication.announced;
    return (this.#states.get(publication.trackId)?.told ?? NOTHING) !== NOTHING;
  }

  /** The layers wanted from now on, or null when nothing is to be said. */
  update(publication: Publication, nowMs: number): Layer[] | null {
    if (publication.kind !== "video" || !publication.announced) return null;
    const top = publication.layers.at(-1)?.index ?? 0;
    // A publisher begins with everything it has.
    const state = this.#states.get(publication.trackId) ?? { told: top, lowerSinceMs: null };
    this.#states.set(publication.trackId, state);
    let wanted = NOTHING;
    for (const { desiredLayer } of publication.subscriptions) wanted = Math.max(wanted, desiredLayer ?? NOTHING);
    if (wanted >= state.told) {
      state.lowerSinceMs = null;
      if (wanted === state.told) return null;
    } else {
      state.lowerSinceMs ??= nowMs;
      if (nowMs - state.lowerSinceMs < LOWER_AFTER_MS) return null;
      state.lowerSinceMs = null;
    }
    state.told = wanted;
    return publication.layers
      .filter((layer) => layer.index <= wanted)
      .map((layer) => publication.layerName(layer.index));
  }
}
