import { isLost } from "../../errors.ts";

type Mutable = { readonly id: string | null; readonly muted: boolean };

/**
 * Keeps the server's view of what is muted true. One request at a time for a track, and the last word wins: who lets go
 * of the button before the server has answered is muted all the same.
 */
export class MuteTeller {
  /** What the server believes, by the track's id there; it takes a track that it was told nothing of for open. */
  #told = new Map<string, boolean>();
  #telling = new Map<string, Promise<void>>();

  constructor(readonly request: (trackId: string, muted: boolean) => Promise<unknown>) {}

  /** Resolves when the server believes what is true; quietly if the connection is lost, as the next one tells it anew. */
  tell(track: Mutable): Promise<void> {
    const { id } = track;
    if (id === null) return Promise.resolve();
    const running = this.#telling.get(id);
    if (running) return running;
    const telling = this.#telling;
    const told = this.#untilTrue(id, track);
    telling.set(id, told);
    const done = () => void telling.delete(id);
    told.then(done, done);
    return told;
  }

  /** The server has muted it by itself. */
  knows({ id, muted }: Mutable): void {
    if (id !== null) this.#told.set(id, muted);
  }

  /** Another session, to which nothing was told yet. */
  forget(): void {
    this.#told = new Map();
    this.#telling = new Map();
  }

  async #untilTrue(id: string, track: Mutable): Promise<void> {
    const told = this.#told;
    while (track.id === id && (told.get(id) ?? false) !== track.muted) {
      const { muted } = track;
      try {
        await this.request(id, muted);
      } catch (error) {
        if (isLost(error)) return;
        throw error;
      }
      told.set(id, muted);
    }
  }
}
