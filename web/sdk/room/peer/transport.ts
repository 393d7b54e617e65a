import type { IceServer, TrackKind } from "../../../../src/protocol/room-records.ts";
import type { PublishedSection, SubscribedSection, VoiceSection } from "../../../../src/protocol/signaling.ts";
import type { Encryption } from "../../encryption/encryption.ts";
import type { RtcRequest } from "../../protocol.ts";
import type { SentTrack } from "../local-track.ts";
import { preferCodecs, receiveDependencyDescriptors } from "./codecs.ts";
import { type AudioContent, tuneOpusAnswer, tuneOpusOffer } from "./opus.ts";
import { packSdp, unpackSdp, withoutCandidates } from "./sdp.ts";

/** A receiving media section. It lives as long as the connection and receives one remote track after another. */
export type Section = {
  kind: TrackKind;
  transceiver: RTCRtpTransceiver;
  trackId: string | null;
  /** The name of the receiver in the encryption worker; null without encryption. */
  decryptor: string | null;
};

export type TransportDeps = {
  iceServers: IceServer[];
  relayOnly: boolean;
  request: RtcRequest;
  /** The remote track of each receiving section, for the next offer. */
  subscribed: () => (SubscribedSection | VoiceSection)[];
  onState: (state: RTCPeerConnectionState) => void;
  encryption: Encryption | null;
};

const SETTLE_MS = 5_000;

/**
 * The peer connection. Only the client makes offers, one at a time. Sections are reused instead of stopped, so a new
 * participant needs no renegotiation while a section is free.
 */
export class Transport {
  readonly pc: RTCPeerConnection;
  readonly sections: Section[] = [];
  /** Sections on which the server puts the loudest voices. */
  readonly voices: Section[] = [];
  readonly #deps: TransportDeps;
  readonly #sending = new Map<RTCRtpTransceiver, SentTrack | null>();
  readonly #shapes = new WeakMap<RTCRtpTransceiver, string>();
  #queue: Promise<void> = Promise.resolve();
  #waiting: Promise<void> | null = null;
  #restart = false;
  #negotiationNeeded = false;
  readonly #closed = new AbortController();
  /** A closed peer connection never settles its pending operations, so they are raced against this. */
  readonly #end: Promise<void>;
  /** Whether TURN servers are configured but none has allocated a relay address so far. */
  relayMissing: boolean;

  constructor(deps: TransportDeps) {
    this.#deps = deps;
    this.#end = new Promise((resolve) => this.#closed.signal.addEventListener("abort", () => resolve()));
    const iceTransportPolicy = deps.relayOnly ? "relay" : "all";
    this.pc = new RTCPeerConnection({ iceServers: deps.iceServers, iceTransportPolicy, bundlePolicy: "max-bundle" });
    this.pc.addEventListener("connectionstatechange", () => deps.onState(this.pc.connectionState), {
      signal: this.#closed.signal,
    });
    this.relayMissing = deps.iceServers.some(({ urls }) => urls.some((url) => url.startsWith("turn")));
    // Chromium does not fire `icecandidateerror` when the connection to the TURN server is refused.
    this.pc.addEventListener(
      "icecandidate",
      ({ candidate }) => {
        if (candidate?.type === "relay") this.relayMissing = false;
      },
      { signal: this.#closed.signal },
    );
  }

  /** Whether sections have changed since the last offer. */
  get negotiationNeeded(): boolean {
    return this.#negotiationNeeded;
  }

  addSections(kind: TrackKind, count: number, to = this.sections): void {
    this.#negotiationNeeded = true;
    for (let n = 0; n < count; n++) {
      const transceiver = this.pc.addTransceiver(kind, { direction: "recvonly" });
      preferCodecs(transceiver, kind);
      if (kind === "video") receiveDependencyDescriptors(transceiver);
      const decryptor = this.#deps.encryption?.prepareReceiver(transceiver.receiver) ?? null;
      to.push({ kind, transceiver, trackId: null, decryptor });
    }
  }

  addChannel(label: string, options?: RTCDataChannelInit): RTCDataChannel {
    // Only the first data channel adds a media section.
    this.#negotiationNeeded ||= this.pc.sctp === null;
    return this.pc.createDataChannel(label, options);
  }

  /** Sends the track on an idle section of the same shape, or on a new one. */
  async send(track: SentTrack): Promise<void> {
    this.#negotiationNeeded = true;
    const { kind, source, encodings, codec, maxBitrate } = track;
    const audio = kind === "audio" ? `${track.music} ${maxBitrate}` : "";
    const shape = `${kind} ${source} ${encodings.length} ${codec ?? ""} ${audio}`;
    for (const [transceiver, current] of this.#sending) {
      if (current !== null || this.#shapes.get(transceiver) !== shape) continue;
      this.#sending.set(transceiver, track);
      track.sender = transceiver.sender;
      await Promise.race([transceiver.sender.replaceTrack(track.mediaStreamTrack), this.#end]);
      return;
    }
    const transceiver = this.pc.addTransceiver(track.mediaStreamTrack, {
      direction: "sendonly",
      sendEncodings: encodings,
    });
    const { encryption } = this.#deps;
    encryption?.encrypt(transceiver.sender);
    preferCodecs(transceiver, kind, { first: codec, maxBitrate, encrypted: encryption !== null });
    this.#sending.set(transceiver, track);
    this.#shapes.set(transceiver, shape);
    track.sender = transceiver.sender;
  }

  sends(track: SentTrack): boolean {
    return [...this.#sending.values()].includes(track);
  }

  async stopSending(track: SentTrack): Promise<void> {
    track.sender = null;
    for (const [transceiver, current] of this.#sending) {
      if (current !== track && (!current?.backupOf || current.backupOf !== track.id)) continue;
      this.#negotiationNeeded = true;
      this.#sending.set(transceiver, null);
      await Promise.race([transceiver.sender.replaceTrack(null), this.#end]);
    }
  }

  /** Resolves when an offer made after this call is answered or the connection is closed. Waiting calls share one offer. */
  negotiate({ iceRestart = false } = {}): Promise<void> {
    this.#restart ||= iceRestart;
    if (this.#waiting) return this.#waiting;
    const run = this.#queue.then(() => {
      this.#waiting = null;
      return Promise.race([this.#exchange(), this.#end]);
    });
    this.#waiting = run;
    this.#queue = run.catch(() => {});
    return run;
  }

  /** Resolves when the server knows all sections, after a pending or a new offer. */
  negotiated(): Promise<void> {
    return this.#negotiationNeeded ? this.negotiate() : (this.#waiting ?? this.#queue);
  }

  /** Aborts when the transport is closed. */
  get ended(): AbortSignal {
    return this.#closed.signal;
  }

  get closed(): boolean {
    return this.#closed.signal.aborted;
  }

  close(): void {
    this.#closed.abort();
    this.pc.close();
  }

  async #exchange(): Promise<void> {
    if (this.#closed.signal.aborted) return;
    const { pc } = this;
    const iceRestart = this.#restart;
    this.#restart = this.#negotiationNeeded = false;
    try {
      await this.#describe(await pc.createOffer({ iceRestart }));
      this.#deps.encryption?.described(pc.localDescription?.sdp ?? "");
      const ack = await this.#deps.request("media.offer", {
        ...(await packSdp(withoutCandidates(pc.localDescription?.sdp ?? ""))),
        ...(iceRestart ? { iceRestart } : {}),
        publish: this.#published(),
        subscribe: this.#deps.subscribed(),
      });
      if (this.#closed.signal.aborted) return;
      await pc.setRemoteDescription({
        type: "answer",
        sdp: tuneOpusAnswer(await unpackSdp(ack), (mid) => this.#audioContent(mid)),
      });
      for (const { clientTrackId, trackId } of ack.tracks) {
        for (const track of this.#sending.values()) if (track?.clientTrackId === clientTrackId) track.id = trackId;
      }
    } catch (error) {
      if (this.#closed.signal.aborted) return;
      // The ICE restart is not repeated, because the connection may have recovered before the next offer.
      this.#negotiationNeeded = true;
      if (pc.signalingState === "have-local-offer") await pc.setLocalDescription({ type: "rollback" });
      throw error;
    }
    await this.#connectionSettled();
  }

  async #describe({ sdp = "" }: RTCSessionDescriptionInit): Promise<void> {
    try {
      await this.pc.setLocalDescription({ type: "offer", sdp: tuneOpusOffer(sdp) });
    } catch {
      // Some browsers do not allow a page to change its offer.
      await this.pc.setLocalDescription({ type: "offer", sdp });
    }
  }

  #audioContent(mid: string): AudioContent | undefined {
    for (const [transceiver, track] of this.#sending) {
      if (transceiver.mid === mid) return track?.music ? { maxBitrate: track.maxBitrate } : "voice";
    }
    return undefined;
  }

  #published(): PublishedSection[] {
    const sections: PublishedSection[] = [];
    for (const [{ mid }, track] of this.#sending) {
      if (mid === null || track === null) continue;
      const { clientTrackId, kind, source, name, backupOf } = track;
      const encryption = this.#deps.encryption ? { encryption: "gcm" as const } : {};
      // Undefined fields are not sent.
      sections.push({ mid, clientTrackId, kind, source, name, backupOf, ...encryption } as PublishedSection);
    }
    return sections;
  }

  /** Some peers fail on a second offer before the first connection is established, so this waits for a limited time. */
  #connectionSettled(): Promise<void> {
    const { pc } = this;
    return new Promise((resolve) => {
      const check = () => {
        if (pc.connectionState === "new" || pc.connectionState === "connecting") return;
        finish();
      };
      const finish = () => {
        clearTimeout(timer);
        pc.removeEventListener("connectionstatechange", check);
        this.#closed.signal.removeEventListener("abort", finish);
        resolve();
      };
      const timer = setTimeout(finish, SETTLE_MS);
      pc.addEventListener("connectionstatechange", check);
      this.#closed.signal.addEventListener("abort", finish);
      check();
    });
  }
}
