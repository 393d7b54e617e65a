import type { RemoteTrack } from "./remote-participant.ts";

type Sink = HTMLAudioElement & { setSinkId?: (deviceId: string) => Promise<void> };

/** Plays remote audio tracks, so that a page needs no audio elements. */
export class AudioOutput {
  readonly #elements = new Map<RemoteTrack, Sink>();
  #deviceId = "";
  #blocked = false;

  constructor(readonly onBlocked: () => void) {}

  add(track: RemoteTrack): void {
    const element = (this.#elements.get(track) ?? document.createElement("audio")) as Sink;
    this.#elements.set(track, element);
    track.attach(element);
    if (this.#deviceId !== "") void element.setSinkId?.(this.#deviceId);
    element.play().catch((error: DOMException) => {
      if (error.name !== "NotAllowedError" || this.#blocked) return;
      this.#blocked = true;
      this.onBlocked();
    });
  }

  remove(track: RemoteTrack): void {
    const element = this.#elements.get(track);
    if (!element) return;
    this.#elements.delete(track);
    track.detach(element);
  }

  async start(): Promise<void> {
    this.#blocked = false;
    await Promise.all([...this.#elements.values()].map((element) => element.play()));
  }

  async use(deviceId: string): Promise<void> {
    this.#deviceId = deviceId;
    await Promise.all([...this.#elements.values()].map((element) => element.setSinkId?.(deviceId)));
  }

  close(): void {
    for (const [track, element] of this.#elements) track.detach(element);
    this.#elements.clear();
  }
}
