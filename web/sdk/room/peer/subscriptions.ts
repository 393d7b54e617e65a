import type { JoinAck, SubscribedSection, SubscriptionChange } from "../../../../src/protocol/signaling.ts";
import type { RtcRequest } from "../../protocol.ts";
import { StoaError } from "../../errors.ts";
import type { RemoteTrack } from "../remote-participant.ts";
import { UpdateThrottle } from "./pace.ts";
import { assignSections } from "./section-plan.ts";
import type { Section, Transport } from "./transport.ts";

export type SubscriptionDeps = {
  tracks: () => RemoteTrack[];
  request: RtcRequest;
  onSubscribed: (track: RemoteTrack) => void;
  onUnsubscribed: (track: RemoteTrack) => void;
  onError: (error: unknown) => void;
};

/** Decides which remote track arrives on which section, and tells the server what the page really shows. */
export class Subscriptions {
  readonly #deps: SubscriptionDeps;
  readonly #throttle = new UpdateThrottle();
  /** What the server was last told of each track, as text. */
  readonly #lastSent = new Map<string, string>();
  #transport: Transport | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #running = false;
  #isRepeatDue = false;

  constructor(deps: SubscriptionDeps) {
    this.#deps = deps;
  }

  /** A new peer connection: everything is mapped anew, while elements keep what they show. Null: nothing may be received. */
  use(transport: Transport | null, limits: JoinAck["limits"]): void {
    this.#transport = transport;
    this.#throttle.setLimits(limits);
    this.#lastSent.clear();
    if (transport) {
      // What is there already goes with the first offer: its picture comes a round trip earlier.
      assignSections(transport, this.#wanted());
      this.update();
    } else for (const track of this.#deps.tracks()) this.#end(track);
  }

  /** Demands or tracks have changed. Calls in quick succession make one exchange. */
  update = (): void => {
    if (!this.#transport) return;
    this.#schedule(this.#throttle.delayMs(Date.now()));
  };

  /** For an offer: all sections in use. */
  mapping(): SubscribedSection[] {
    const byId = new Map(this.#deps.tracks().map((track) => [track.id, track]));
    const sections: SubscribedSection[] = [];
    for (const { trackId, transceiver } of this.#transport?.sections ?? []) {
      const track = trackId === null ? undefined : byId.get(trackId);
      if (!track || transceiver.mid === null) continue;
      const { subscribed: _, paused: __, ...viewing } = track.settings;
      sections.push({ mid: transceiver.mid, trackId: track.id, ...viewing });
    }
    return sections;
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#transport = null;
  }

  #schedule(ms: number): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      void this.#reconcile();
    }, ms);
  }

  async #reconcile(): Promise<void> {
    if (this.#running) {
      this.#isRepeatDue = true;
      return;
    }
    this.#running = true;
    this.#isRepeatDue = false;
    try {
      await this.#exchange();
    } catch (error) {
      const { reason, retryAfterSeconds = 1 } = error as Partial<StoaError>;
      if (error instanceof StoaError && reason === "rate-limited") this.#schedule(retryAfterSeconds * 1000);
      // Lost with the connection: after the next join, or the resume, all is stated again.
      else this.#deps.onError(error);
    }
    this.#running = false;
    if (this.#isRepeatDue) this.update();
  }

  async #exchange(): Promise<void> {
    const transport = this.#transport;
    if (!transport) return;
    const wanted = this.#wanted();
    const changes = this.#release(transport, wanted);
    assignSections(transport, wanted);
    if (transport.negotiationNeeded) this.#throttle.spent(Date.now());
    // A section has its name only once an offer is out, and that may be somebody else's offer, still under way.
    await transport.negotiated();
    if (this.#transport !== transport) return;
    // Time has passed: who has ended a track meanwhile has taken it back from the page already.
    const still = new Set(this.#deps.tracks());
    for (const track of wanted) if (still.has(track)) this.#deliver(transport, track, changes);
    if (changes.length === 0) return;
    this.#throttle.spent(Date.now());
    try {
      await this.#deps.request("subscription.update", { tracks: changes });
    } catch (error) {
      for (const { trackId } of changes) this.#lastSent.delete(trackId);
      throw error;
    }
  }

  #wanted(): RemoteTrack[] {
    return this.#deps.tracks().filter(({ settings }) => settings.subscribed);
  }

  /** Frees the sections of tracks that are gone or no longer wanted. */
  #release(transport: Transport, wanted: RemoteTrack[]): SubscriptionChange[] {
    const changes: SubscriptionChange[] = [];
    const known = new Map(this.#deps.tracks().map((track) => [track.id, track]));
    const keep = new Set(wanted.map(({ id }) => id));
    for (const section of transport.sections) {
      const { trackId } = section;
      if (trackId === null || keep.has(trackId)) continue;
      section.trackId = null;
      this.#lastSent.delete(trackId);
      const track = known.get(trackId);
      if (!track) continue;
      changes.push({ trackId, mid: null });
      this.#end(track);
    }
    return changes;
  }

  #end(track: RemoteTrack): void {
    if (!track.mediaStreamTrack) return;
    track.setMedia(null);
    this.#deps.onUnsubscribed(track);
  }

  /** Hands the track to the page, once, and notes what the server does not know of yet. */
  #deliver(transport: Transport, track: RemoteTrack, changes: SubscriptionChange[]): void {
    const section = sectionOf(transport, track);
    const mid = section?.transceiver.mid ?? null;
    if (!section || mid === null) return;
    const fresh = track.mediaStreamTrack === null;
    track.setMedia(section.transceiver.receiver.track);
    if (fresh) this.#deps.onSubscribed(track);
    const { subscribed: _, ...viewing } = track.settings;
    const change = { trackId: track.id, mid, ...viewing };
    const text = JSON.stringify(change);
    if (this.#lastSent.get(track.id) === text) return;
    this.#lastSent.set(track.id, text);
    changes.push(change);
  }
}

function sectionOf(transport: Transport, track: RemoteTrack): Section | undefined {
  return transport.sections.find(({ trackId }) => trackId === track.id);
}
