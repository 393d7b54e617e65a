/** Who is heard and who is shown as speaking, from the levels in the packets of a room's microphones. */
import type { Speaker } from "../../protocol/room-records.ts";
import type { Publication } from "../tracks/publication.ts";
import { LoudestVoices, Speakers } from "./speakers.ts";

const DEFAULT_AUDIBLE = 6;

export class Voices {
  readonly #speakers = new Speakers();
  readonly #loudest: LoudestVoices;
  /** Track → the identity it belongs to: people speak, not tracks. */
  readonly #owners = new Map<string, string>();

  constructor(audible = DEFAULT_AUDIBLE) {
    this.#loudest = new LoudestVoices(audible);
  }

  /** The sound of a shared screen is no voice: it is always forwarded, and nobody is shown as speaking. */
  heard(publication: Publication, level: number, nowMs: number): void {
    if (publication.muted || publication.source === "screenShareAudio") return;
    this.#owners.set(publication.trackId, publication.identity);
    this.#speakers.observe(publication.identity, level, nowMs);
    const audible = this.#loudest.observe(publication.trackId, level, nowMs);
    if (publication.audible === audible) return;
    publication.audible = audible;
    for (const subscription of publication.subscriptions) subscription.refreshAudio(nowMs);
  }

  /** Whatever its next packets say, it goes on being heard, and so does everybody else. */
  isSure({ trackId, source }: Publication): boolean {
    return source === "screenShareAudio" || this.#loudest.isSure(trackId);
  }

  silenced(publication: Publication): void {
    this.#loudest.remove(publication.trackId);
    if (this.#owners.delete(publication.trackId)) this.#speakers.remove(publication.identity);
  }

  /** At most four times a second. */
  takeChange(nowMs: number): Speaker[] | null {
    const speakers = this.#speakers.takeChange(nowMs);
    return speakers ? speakers.map(({ id, level }) => ({ identity: id, level })) : null;
  }
}
