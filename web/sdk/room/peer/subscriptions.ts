import type {
  JoinAck,
  SubscribedSection,
  SubscriptionChange,
  VoiceSection,
} from "../../../../src/protocol/signaling.ts";
import type { Encryption } from "../../encryption/encryption.ts";
import { StoaError } from "../../errors.ts";
import type { RtcRequest } from "../../protocol.ts";
import type { RemoteTrack } from "../remote-participant.ts";
import type { Section, Transport } from "./transport.ts";

export type SubscriptionDeps = {
  tracks: () => RemoteTrack[];
  request: RtcRequest;
  onSubscribed: (track: RemoteTrack) => void;
  onUnsubscribed: (track: RemoteTrack) => void;
  onError: (error: unknown) => void;
  /** Whether microphones beyond the first few share sections; by default in large rooms and live streams. */
  sharesVoices: boolean | undefined;
  encryption: Encryption | null;
};

/** Assigns remote tracks to receiving sections and sends their subscription settings to the server. */
export class Subscriptions {
  readonly #deps: SubscriptionDeps;
  readonly #throttle = new UpdateThrottle();
  /** The settings last sent for each track, as JSON. */
  readonly #lastSent = new Map<string, string>();
  #transport: Transport | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #running = false;
  #isRepeatDue = false;
  #sharesVoices = false;
  #voices: Record<string, string> = {};

  constructor(deps: SubscriptionDeps) {
    this.#deps = deps;
  }

  /** Maps all tracks to the sections of a new peer connection; null ends all subscriptions. */
  use(transport: Transport | null, { limits, roster }: Pick<JoinAck, "limits" | "roster">): void {
    this.#transport = transport;
    this.#sharesVoices = this.#deps.sharesVoices ?? roster !== "all";
    this.#voices = {};
    this.#throttle.setLimits(limits);
    this.#lastSent.clear();
    if (transport) {
      // Known tracks go into the first offer, so that their media arrives a round trip earlier.
      this.#assignSections(transport, this.#wanted(transport));
      this.update();
    } else for (const track of this.#deps.tracks()) this.#end(track);
  }

  /** Called when tracks or their settings have changed. Calls in quick succession cause one exchange. */
  update = (): void => {
    if (!this.#transport) return;
    this.voicesChanged();
    this.#schedule(this.#throttle.delayMs(Date.now()));
  };

  /** The sections in use, for an offer. */
  mapping(): (SubscribedSection | VoiceSection)[] {
    const byId = new Map(this.#deps.tracks().map((track) => [track.id, track]));
    const sections: (SubscribedSection | VoiceSection)[] = [];
    for (const { transceiver } of this.#transport?.voices ?? []) {
      if (transceiver.mid !== null) sections.push({ mid: transceiver.mid, voices: true });
    }
    for (const { trackId, transceiver } of this.#transport?.sections ?? []) {
      const track = trackId === null ? undefined : byId.get(trackId);
      if (!track || transceiver.mid === null) continue;
      const { subscribed: _, paused: __, ...viewing } = track.settings;
      sections.push({ mid: transceiver.mid, trackId: track.id, ...viewing });
    }
    return sections;
  }

  /** Only calls with shared voices load the code for them. */
  voicesChanged(voices = this.#voices): void {
    this.#voices = voices;
    const sections = this.#transport?.voices;
    if (!sections?.length) return;
    const events = { subscribed: this.#deps.onSubscribed, ended: (track: RemoteTrack) => this.#end(track) };
    import("./shared-voices.ts").then(({ placeVoices }) => {
      if (this.#transport?.voices === sections) placeVoices(sections, this.#deps.tracks(), this.#voices, events);
    }, this.#deps.onError);
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
      const { code, reason, retryAfterSeconds = 1 } = error as Partial<StoaError>;
      if (error instanceof StoaError && reason === "rate-limited") this.#schedule(retryAfterSeconds * 1000);
      // A request that was lost with the connection is repeated after the next resume or join. A track that ended while the
      // request was under way is followed by `track.unpublished`.
      else if (code !== "TRACK_NOT_FOUND") this.#deps.onError(error);
    }
    this.#running = false;
    if (this.#isRepeatDue) this.update();
  }

  async #exchange(): Promise<void> {
    const transport = this.#transport;
    if (!transport) return;
    const wanted = this.#wanted(transport);
    const changes = this.#release(transport, wanted);
    this.#assignSections(transport, wanted);
    if (transport.negotiationNeeded) this.#throttle.spent(Date.now());
    // A transceiver has a mid only after a negotiation, possibly one that another caller has already started.
    await transport.negotiated();
    if (this.#transport !== transport) return;
    // A track that has ended meanwhile is already removed from the page.
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

  /** Says how to decrypt a track before its first frame arrives. */
  #assignSections(transport: Transport, wanted: RemoteTrack[]): void {
    for (const { section, track } of assignSections(transport, wanted)) {
      if (section.decryptor !== null) this.#deps.encryption?.assign(section.decryptor, track);
    }
  }

  #wanted(transport: Transport): RemoteTrack[] {
    const wanted = this.#deps.tracks().filter(({ settings }) => settings.subscribed);
    if (!this.#sharesVoices) return wanted;
    // A microphone that has a section keeps it.
    const hasOwn = (track: RemoteTrack) => !track.isVoice || sectionOf(transport, track) !== undefined;
    let free = VOICE_SECTIONS - wanted.filter((track) => track.isVoice && hasOwn(track)).length;
    const own = wanted.filter((track) => hasOwn(track) || free-- > 0);
    if (own.length < wanted.length && transport.voices.length === 0) {
      transport.addSections("audio", VOICE_SECTIONS, transport.voices);
    }
    return own;
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

  /** Hands a new track to the page and adds the settings that the server does not have yet to `changes`. */
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

/**
 * The number of voices that the server forwards together. Up to this many microphones have sections of their own, in
 * sync with their cameras. All further microphones share the same number of additional sections.
 */
const VOICE_SECTIONS = 6;
/** Sections are added in groups, because an offer costs far more than an idle section. */
const SECTION_GROUP = 4;

/**
 * Assigns a section to every track without one and adds sections if too few are free. A participant's audio and video get
 * the same position among their kinds where possible: the server sends those as one stream, which browsers keep in sync.
 */
function assignSections(
  transport: Transport,
  tracks: readonly RemoteTrack[],
): { section: Section; track: RemoteTrack }[] {
  const assigned: { section: Section; track: RemoteTrack }[] = [];
  const unassigned = tracks.filter(({ id }) => !transport.sections.some(({ trackId }) => trackId === id));
  for (const kind of ["audio", "video"] as const) {
    const missing = unassigned.filter((track) => track.kind === kind).length - freeSections(transport, kind).length;
    if (missing > 0) transport.addSections(kind, Math.ceil(missing / SECTION_GROUP) * SECTION_GROUP);
  }
  for (const track of unassigned) {
    const section = sectionBesideCompanion(transport, track) ?? freeSections(transport, track.kind)[0];
    if (!section) continue;
    section.trackId = track.id;
    assigned.push({ section, track });
  }
  return assigned;
}

function sectionBesideCompanion(transport: Transport, track: RemoteTrack): Section | undefined {
  const companion = COMPANIONS[track.source];
  const other = companion && track.participant.track(companion);
  const position = other ? sectionsOf(transport, other.kind).findIndex(({ trackId }) => trackId === other.id) : -1;
  const section = sectionsOf(transport, track.kind)[position];
  return section?.trackId === null ? section : undefined;
}

const COMPANIONS: Partial<Record<RemoteTrack["source"], RemoteTrack["source"]>> = {
  camera: "microphone",
  microphone: "camera",
  screenShare: "screenShareAudio",
  screenShareAudio: "screenShare",
};

function sectionsOf({ sections }: Transport, kind: Section["kind"]): Section[] {
  return sections.filter((section) => section.kind === kind);
}

function freeSections(transport: Transport, kind: Section["kind"]): Section[] {
  return sectionsOf(transport, kind).filter(({ trackId }) => trackId === null);
}

const GATHER_MS = 40;

/**
 * How long to wait before sending a change. The first changes are sent almost at once, but scrolling and resizing cause
 * an endless number of them, and the server limits the frames in a window.
 */
export class UpdateThrottle {
  #windowMs = 60_000;
  #frames = 100;
  #spentAt: number[] = [];

  setLimits({ messagesPerWindow, windowSeconds }: JoinAck["limits"]): void {
    this.#frames = messagesPerWindow;
    this.#windowMs = windowSeconds * 1000;
  }

  spent(now: number): void {
    this.#spentAt.push(now);
  }

  /** A quarter of the budget is spent at once, then up to half of it evenly; the rest is for other requests. */
  delayMs(now: number): number {
    this.#spentAt = this.#spentAt.filter((at) => at > now - this.#windowMs);
    if (this.#spentAt.length < this.#frames / 4) return GATHER_MS;
    const last = this.#spentAt.at(-1) ?? 0;
    return Math.max(GATHER_MS, last + (2 * this.#windowMs) / this.#frames - now);
  }
}
