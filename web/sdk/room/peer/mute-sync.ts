import { isLost } from "../../errors.ts";

type Mutable = { readonly id: string | null; readonly muted: boolean };

/**
 * Keeps the mute state of tracks on the server equal to the local one. Each track has at most one request in flight, and
 * the last local state wins, even if it changes before the server has responded.
 */
export class MuteSync {
  /** The state on the server, by track id; the server assumes that a new track is unmuted. */
  #serverState = new Map<string, boolean>();
  #inFlight = new Map<string, Promise<void>>();

  constructor(readonly request: (trackId: string, muted: boolean) => Promise<unknown>) {}

  /** Resolves when the server has the local state, or when the connection is lost, because the next one syncs again. */
  sync(track: Mutable): Promise<void> {
    const { id } = track;
    if (id === null) return Promise.resolve();
    const running = this.#inFlight.get(id);
    if (running) return running;
    const inFlight = this.#inFlight;
    const synced = this.#requestUntilSynced(id, track);
    inFlight.set(id, synced);
    const done = () => void inFlight.delete(id);
    synced.then(done, done);
    return synced;
  }

  /** Notes that the server has muted a track. */
  mutedByServer({ id, muted }: Mutable): void {
    if (id !== null) this.#serverState.set(id, muted);
  }

  /** Forgets the server's state at the start of a new session. */
  reset(): void {
    this.#serverState = new Map();
    this.#inFlight = new Map();
  }

  async #requestUntilSynced(id: string, track: Mutable): Promise<void> {
    const serverState = this.#serverState;
    while (track.id === id && (serverState.get(id) ?? false) !== track.muted) {
      const { muted } = track;
      try {
        await this.request(id, muted);
      } catch (error) {
        if (isLost(error)) return;
        throw error;
      }
      serverState.set(id, muted);
    }
  }
}
