/** One participant in a room: its connection, its negotiations, and the two halves that carry its media. */

import { mayPublish } from "../../protocol/may-publish.ts";
import type {
  MediaFailure,
  MediaState,
  Negotiate,
  NegotiateAnswer,
  ParticipantSnapshot,
  TransportStats,
} from "../../protocol/media-node.ts";
import type { NetworkProfile } from "../../protocol/playground.ts";
import type { Permissions } from "../../protocol/room-records.ts";
import { decideSections, writeAnswer } from "../sdp/answer.ts";
import { type Offer, parseOffer } from "../sdp/offer.ts";
import { BadNetwork } from "../transport/bad-network.ts";
import { Connection, MAX_DATA_MESSAGE_BYTES } from "../transport/connection.ts";
import type { Path } from "../transport/ice.ts";
import { planNegotiation } from "../transport/negotiation.ts";
import { DataRelay, type DataSink } from "./data.ts";
import { Downlink } from "./downlink.ts";
import { Health } from "./health.ts";
import type {
  MediaOwner,
  OwnEvent,
  ParticipantHost,
  ParticipantIdentity,
  RoomOfTracks,
  TrackOwner,
  WithoutSelf,
} from "./host.ts";
import { type MediaDuty, StallWatch } from "./stall.ts";
import { Uplink } from "./uplink.ts";

export class Participant implements MediaOwner, TrackOwner {
  readonly self: ParticipantIdentity;
  readonly uplink: Uplink;
  readonly downlink: Downlink;
  readonly data: DataRelay;
  readonly health = new Health();
  readonly #stall = new StallWatch();
  permissions: Permissions;
  state: MediaState = "new";
  #network: NetworkProfile = "none";
  readonly #host: ParticipantHost;
  #connection: Connection | null = null;
  #offer: Offer | null = null;
  #ice = { ufrag: "", pwd: "" };
  readonly #sessionId = String(BigInt.asUintN(62, BigInt(Bun.hash(crypto.randomUUID()))));
  #version = 1;
  #firstOfferAtMs: number | null = null;

  constructor(
    host: ParticipantHost,
    room: RoomOfTracks & DataSink,
    self: ParticipantIdentity,
    permissions: Permissions,
  ) {
    this.#host = host;
    this.self = self;
    this.permissions = permissions;
    this.uplink = new Uplink(host, room, this);
    this.downlink = new Downlink(host, room, this);
    this.data = new DataRelay(room, this, host.now);
  }

  get connection(): Connection | null {
    return this.#connection;
  }

  get rttMs(): number | null {
    return this.downlink.rttMs;
  }

  emit(event: WithoutSelf<OwnEvent>): void {
    this.#host.emit({ ...this.self, ...event } as OwnEvent);
  }

  negotiate(request: Negotiate): NegotiateAnswer {
    const nowMs = this.#host.now();
    this.#firstOfferAtMs ??= nowMs;
    const offer = parseOffer(request.sdp);
    const sections = decideSections(offer);
    const wanted = planNegotiation(sections, request, this.permissions);
    const connection = this.#connectionFor(offer);
    this.#offer = offer;
    this.downlink.negotiated(sections);
    const tracks = this.uplink.negotiated(offer, sections, wanted.publish);
    this.downlink.subscribe(wanted.subscribe);
    const data = offer.sections.find((section) => section.kind === "application" && !section.rejected);
    if (data) connection.openSctp(data.sctpPort ?? 5000);
    const sdp = writeAnswer({
      offer,
      sections,
      outgoing: this.downlink.outgoingStreams,
      sessionId: this.#sessionId,
      version: this.#version++,
      ice: this.#ice,
      fingerprint: this.#host.fingerprint,
      candidates: this.#host.candidates,
      maxMessageSize: MAX_DATA_MESSAGE_BYTES,
    });
    return { sdp, tracks };
  }

  /** Another `o=` session or certificate is another peer connection of the client: it starts from nothing. */
  #connectionFor(offer: Offer): Connection {
    const before = this.#offer;
    const same =
      this.#connection !== null &&
      before?.sessionId === offer.sessionId &&
      before.fingerprints.every((old) => offer.fingerprints.some((fresh) => fresh.value === old.value));
    if (same && this.#connection) {
      if (before?.iceUfrag !== offer.iceUfrag) this.#ice = this.#connection.issueCredentials();
      return this.#connection;
    }
    this.#closeConnection();
    this.state = "connecting";
    const connection = new Connection(this.#host, offer.fingerprints, {
      onIceState: (state) => this.emit({ type: "iceStateChanged", state }),
      onDtlsState: (state) => this.emit({ type: "dtlsStateChanged", state }),
      onReady: (path, again) => this.#ready(path, again),
      onLost: (reason, stage) => this.#lost(reason, stage),
      onRtp: (data, length, nowMs) => this.uplink.receiveRtp(data, length, nowMs),
      onRtcp: (data, length, nowMs) => this.#receiveRtcp(data, length, nowMs),
      onChannel: (channel) => this.data.opened(channel),
      onMessage: (channel, data) => this.data.received(channel, data),
    });
    this.#connection = connection;
    if (this.#network !== "none") this.setNetwork(this.#network);
    this.#ice = connection.issueCredentials();
    return connection;
  }

  #closeConnection(): void {
    if (!this.#connection) return;
    this.#host.retired(this.#connection.refusals ?? {});
    this.#connection.close();
    this.#connection = null;
    this.#stall.restart();
    this.uplink.reset();
    this.downlink.reset();
    this.data.reset();
  }

  #ready(path: Path, again: boolean): void {
    this.state = "connected";
    const way = this.#connection?.describePath();
    const transport = way?.transport ?? (path.tcp ? "tcp" : "udp");
    const remoteAddress = way?.remoteAddress ?? "";
    if (again) this.emit({ type: "participantReconnected", transport, remoteAddress });
    else {
      const connectMs = Math.round(this.#host.now() - (this.#firstOfferAtMs ?? this.#host.now()));
      this.emit({ type: "participantConnected", transport, remoteAddress, connectMs });
    }
    this.downlink.connected();
  }

  #lost(reason: MediaFailure, stage: "disconnected" | "failed"): void {
    this.state = stage;
    this.emit({ type: stage === "failed" ? "participantFailed" : "participantDisconnected", reason });
  }

  #receiveRtcp(data: Buffer, length: number, nowMs: number): void {
    const packets = this.uplink.receiveRtcp(data, length, nowMs);
    this.downlink.receiveRtcp(packets, nowMs);
  }

  setPermissions(permissions: Permissions): void {
    this.permissions = permissions;
    for (const publication of this.uplink.publications()) {
      if (!mayPublish(permissions, publication.kind)) this.uplink.unpublish(publication.trackId);
    }
    if (permissions.subscribe) this.downlink.fillAutomatically();
    else this.downlink.unsubscribeAll("permission");
  }

  setNetwork(profile: NetworkProfile): void {
    this.#network = profile;
    this.#connection?.setNetwork(profile === "none" ? null : new BadNetwork(profile, this.#host.now));
  }

  /** Every tenth of a second; what cannot wait that long is in `uplink.tick`. */
  tick(nowMs: number): void {
    this.#connection?.tick(nowMs);
    this.downlink.tick(nowMs);
    this.data.tick();
    if (this.state === "connected") this.#watchFlow(nowMs);
    if (this.state === "connected" || this.state === "disconnected") this.#watchHealth(nowMs);
  }

  #watchFlow(nowMs: number): void {
    const connection = this.#connection;
    if (!connection || !this.#stall.isDue(nowMs)) return;
    const { mediaAtMs, checkedAtMs } = connection.liveness;
    const change = this.#stall.update({ due: this.#duty(nowMs), mediaAtMs, checkedAtMs }, nowMs);
    if (change === null) return;
    this.emit({ type: change === "stalled" ? "mediaStalled" : "mediaFlows" });
    this.#weigh(nowMs);
  }

  #duty(nowMs: number): MediaDuty["due"] {
    const flow = this.downlink.takeFlow(nowMs);
    if (this.uplink.isExpected || flow === "picture") return "media";
    return flow === "sound" ? "reports of sound" : "nothing";
  }

  #weigh(nowMs: number): void {
    const silentMs = this.#connection?.liveness.silentMs(nowMs) ?? 0;
    const quality = this.health.update(this.stats(), silentMs, this.#stall.isStalled);
    if (quality) this.emit({ type: "qualityChanged", quality });
  }

  #watchHealth(nowMs: number): void {
    if (this.health.isQualityDue(nowMs)) this.#weigh(nowMs);
    if (this.health.isStatsDue(nowMs)) this.emit({ type: "transportStats", stats: this.stats() });
  }

  close(): void {
    this.uplink.unpublishAll();
    this.downlink.unsubscribeAll("requested");
    this.#closeConnection();
    this.state = "failed";
  }

  stats(): TransportStats {
    const path = this.#connection?.describePath() ?? null;
    return {
      transport: path?.transport ?? null,
      remoteAddress: path?.remoteAddress ?? null,
      srtpProfile: this.#connection?.srtpProfile ?? null,
      rttMs: this.downlink.rttMs,
      jitterMs: this.uplink.feedback.jitterMs,
      packetLossPercent: worst(this.uplink.feedback.lossPercent, this.downlink.lossPercent),
      uplinkLossPercent: this.uplink.feedback.lossPercent,
      downlinkLossPercent: this.downlink.lossPercent,
      availableOutBps: this.downlink.availableBps,
      bytesIn: this.#connection?.bytesIn ?? 0,
      bytesOut: (this.#connection?.controlBytesOut ?? 0) + this.downlink.bytesOut,
    };
  }

  snapshot(): ParticipantSnapshot {
    return {
      participantId: this.self.participantId,
      identity: this.self.identity,
      state: this.state,
      permissions: this.permissions,
      quality: this.health.quality,
      tracks: this.uplink
        .publications()
        .filter((p) => p.announced)
        .map((p) => p.describe()),
      subscriptions: this.downlink.describe(),
      transport: this.stats(),
    };
  }
}

function worst(a: number | null, b: number | null): number | null {
  return a === null || b === null ? (a ?? b) : Math.max(a, b);
}
