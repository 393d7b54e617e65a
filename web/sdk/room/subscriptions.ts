import type { SubscribedSection, SubscriptionChange } from "../../../src/protocol/signaling.ts";
import type { Demand, RemoteTrack } from "./remote-track.ts";
import type { Section, Transport } from "./transport.ts";

export type SubscriptionDeps = {
  tracks: () => RemoteTrack[];
  request: <Ack>(type: string, fields: object) => Promise<Ack>;
  onSubscribed: (track: RemoteTrack) => void;
  onUnsubscribed: (track: RemoteTrack) => void;
  onError: (error: unknown) => void;
};

/** Sections are made in advance, a few at a time: an offer costs far more than an idle section. */
const SPARE = 4;
const GATHER_MS = 40;

/** Decides which remote track arrives on which section, and tells the server what the page really shows. */
export class Subscriptions {
  #transport: Transport | null = null;
  readonly #sent = new Map<string, string>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #running = false;
  #again = false;

  constructor(readonly deps: SubscriptionDeps) {}

  /** A new peer connection: everything is to be mapped anew. Null while there is none. */
  use(transport: Transport | null): void {
    this.#transport = transport;
    this.#sent.clear();
    for (const track of this.deps.tracks()) track.setMedia(null);
    if (transport) this.update();
  }

  /** Demands or tracks have changed. Calls in quick succession make one exchange. */
  update = (): void => {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#reconcile(), GATHER_MS);
  };

  /** For an offer: all sections in use. */
  mapping(): SubscribedSection[] {
    const byId = new Map(this.deps.tracks().map((track) => [track.id, track]));
    const sections: SubscribedSection[] = [];
    for (const { trackId, transceiver } of this.#transport?.sections ?? []) {
      const track = trackId === null ? undefined : byId.get(trackId);
      if (!track || transceiver.mid === null) continue;
      const { maxHeight, layer, priority } = track.demand;
      sections.push({ mid: transceiver.mid, trackId: track.id, ...defined({ maxHeight, layer, priority }) });
    }
    return sections;
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#transport = null;
  }

  async #reconcile(): Promise<void> {
    if (this.#running) {
      this.#again = true;
      return;
    }
    this.#running = true;
    try {
      await this.#exchange();
    } catch (error) {
      this.deps.onError(error);
    } finally {
      this.#running = false;
      if (this.#again) {
        this.#again = false;
        this.update();
      }
    }
  }

  async #exchange(): Promise<void> {
    const transport = this.#transport;
    if (!transport) return;
    const wanted = new Map<string, RemoteTrack>();
    for (const track of this.deps.tracks()) if (track.demand.wanted) wanted.set(track.id, track);

    const changes = this.#release(transport, wanted);
    const homeless = [...wanted.values()].filter(
      (track) => !transport.sections.some(({ trackId }) => trackId === track.id),
    );
    const grown = this.#settle(transport, homeless);
    if (grown) await transport.negotiate();
    if (this.#transport !== transport) return;
    for (const track of homeless) {
      track.setMedia(sectionOf(transport, track)?.transceiver.receiver.track ?? null);
      this.deps.onSubscribed(track);
    }
    for (const track of wanted.values()) this.#state(transport, track, changes);
    if (changes.length > 0) await this.deps.request("subscription.update", { tracks: changes });
  }

  /** Frees the sections of tracks that are gone or no longer wanted. */
  #release(transport: Transport, wanted: Map<string, RemoteTrack>): SubscriptionChange[] {
    const changes: SubscriptionChange[] = [];
    const known = new Map(this.deps.tracks().map((track) => [track.id, track]));
    for (const section of transport.sections) {
      const { trackId } = section;
      if (trackId === null || wanted.has(trackId)) continue;
      section.trackId = null;
      this.#sent.delete(trackId);
      const track = known.get(trackId);
      if (!track) continue;
      changes.push({ trackId, mid: null });
      track.setMedia(null);
      this.deps.onUnsubscribed(track);
    }
    return changes;
  }

  /** Gives each track a section; true when new ones had to be made, which takes an offer. */
  #settle(transport: Transport, homeless: RemoteTrack[]): boolean {
    let grown = false;
    for (const kind of ["audio", "video"] as const) {
      const tracks = homeless.filter((track) => track.kind === kind);
      const free = transport.sections.filter((section) => section.kind === kind && section.trackId === null);
      const missing = tracks.length - free.length;
      if (missing > 0) {
        transport.addSections(kind, Math.ceil(missing / SPARE) * SPARE);
        grown = true;
      }
      const usable = transport.sections.filter((section) => section.kind === kind && section.trackId === null);
      for (const [index, track] of tracks.entries()) {
        const section = usable[index];
        if (section) section.trackId = track.id;
      }
    }
    return grown;
  }

  #state(transport: Transport, track: RemoteTrack, changes: SubscriptionChange[]): void {
    const mid = sectionOf(transport, track)?.transceiver.mid;
    if (mid === null || mid === undefined) return;
    const { paused, maxHeight, layer, priority }: Demand = track.demand;
    const change = { trackId: track.id, mid, paused, ...defined({ maxHeight, layer, priority }) };
    const text = JSON.stringify(change);
    if (this.#sent.get(track.id) === text) return;
    this.#sent.set(track.id, text);
    changes.push(change);
  }
}

function sectionOf(transport: Transport, track: RemoteTrack): Section | undefined {
  return transport.sections.find(({ trackId }) => trackId === track.id);
}

function defined<T extends object>(fields: T): Partial<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Partial<T>;
}
