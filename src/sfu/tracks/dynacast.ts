/** Tells publishers which layers are subscribed, so that they stop encoding the others. */
import type { Layer } from "../../protocol/room-records.ts";
import type { Publication } from "./publication.ts";

/** Lowering is delayed, because a viewer that scrolls away often comes back; raising is not. */
const LOWER_AFTER_MS = 5_000;
const NOTHING = -1;

export class Dynacast {
  readonly #states = new Map<string, { lastNotified: number; lowerSinceMs: number | null }>();

  forget(publication: Publication): void {
    this.#states.delete(publication.trackId);
  }

  /** Is true when the publisher was last told to send at least one layer. */
  isWanted(publication: Publication): boolean {
    if (publication.kind !== "video") return publication.announced;
    return (this.#states.get(publication.trackId)?.lastNotified ?? NOTHING) !== NOTHING;
  }

  /** Returns the layers to send from now on, or null when they have not changed. */
  update(publication: Publication, nowMs: number): Layer[] | null {
    if (publication.kind !== "video" || !publication.announced) return null;
    const top = publication.choices.at(-1)?.index ?? 0;
    // A publisher starts with all layers, another worker with none.
    const first = publication.isHome ? top : NOTHING;
    const state = this.#states.get(publication.trackId) ?? { lastNotified: first, lowerSinceMs: null };
    this.#states.set(publication.trackId, state);
    let wanted = NOTHING;
    for (const { desiredLayer } of publication.subscriptions) wanted = Math.max(wanted, desiredLayer ?? NOTHING);
    if (wanted >= state.lastNotified) {
      state.lowerSinceMs = null;
      if (wanted === state.lastNotified) return null;
    } else {
      state.lowerSinceMs ??= nowMs;
      if (nowMs - state.lowerSinceMs < LOWER_AFTER_MS) return null;
      state.lowerSinceMs = null;
    }
    state.lastNotified = wanted;
    return publication.choices
      .filter((layer) => layer.index <= wanted)
      .map((layer) => publication.layerName(layer.index));
  }
}
