/** One participant in a room: its connections, its negotiations, its uplink and its downlink. */

import { mayPublish } from "../../protocol/may-publish.ts";
import type { FlightDump } from "../../protocol/media/flight.ts";
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
import { FlightRecorder, type FlightState } from "../flight/flight-recorder.ts";
import { BadNetwork } from "../transport/bad-network.ts";
import type { Connection } from "../transport/connection.ts";
import type { Path } from "../transport/ice/ice-session.ts";
import { planNegotiation } from "../transport/negotiation.ts";
import { decideSections } from "../wire/sdp/answer.ts";
import { parseOffer } from "../wire/sdp/offer.ts";
import { DataRelay, type DataSink } from "./data-relay.ts";
import { Downlink } from "./downlink.ts";
import { type ExpectedMedia, Health, StallWatch } from "./health.ts";
import type {
  MediaOwner,
  ParticipantEvent,
  ParticipantHost,
  ParticipantIdentity,
  RoomTracks,
  TrackOwner,
  WithoutIdentity,
} from "./host.ts";
import { PeerConnection } from "./peer-connection.ts";
import { Uplink } from "./uplink.ts";

export class Participant implements MediaOwner, TrackOwner {
  readonly self: ParticipantIdentity;
  readonly uplink: Uplink;
  readonly downlink: Downlink;
  readonly data: DataRelay;
  readonly health = new Health();
  readonly #stall = new StallWatch();
  readonly #flight = new FlightRecorder();
  permissions: Permissions;
  state: MediaState = "new";
  #network: NetworkProfile = "none";
  readonly #host: ParticipantHost;
  readonly #main: PeerConnection;
  /** The second peer connection, for clients that receive on a separate one. */
  #receiving: PeerConnection | null = null;
  #firstOfferAtMs: number | null = null;

  constructor(
    host: ParticipantHost,
    room: RoomTracks & DataSink,
    self: ParticipantIdentity,
    permissions: Permissions,
    readonly isAgent: boolean,
  ) {
    this.#host = host;
    this.self = self;
    this.permissions = permissions;
    this.uplink = new Uplink(host, room, this, this.#flight);
    this.downlink = new Downlink(host, room, this);
    this.data = new DataRelay(room, this, host.now);
    this.#main = this.#createMain();
  }

  get connection(): Connection | null {
    return this.#main.connection;
  }

  get receivingConnection(): Connection | null {
    return (this.#receiving ?? this.#main).connection;
  }

  get #connections(): Connection[] {
    return [this.#main.connection, this.#receiving?.connection ?? null].filter((connection) => connection !== null);
  }

  get rttMs(): number | null {
    return this.downlink.rttMs;
  }

  emit(event: WithoutIdentity<ParticipantEvent>): void {
    this.#host.emit({ ...this.self, ...event } as ParticipantEvent);
  }

  negotiate(request: Negotiate): NegotiateAnswer {
    this.#firstOfferAtMs ??= this.#host.now();
    const receives = request.connection === "receive";
    const offer = parseOffer(request.sdp, receives ? "later" : "now");
    const placed = new Map((request.subscribe ?? []).map((section) => [section.mid, section.stream]));
    const sections = decideSections(offer, request.idleInactive ? new Set(placed.keys()) : undefined);
    const wanted = planNegotiation(sections, request, this.permissions);
    if (receives) this.#receiving ??= this.#createReceiving();
    if (request.data === "packets") this.data.expectPackets();
    const peerConnection = receives ? (this.#receiving ?? this.#main) : this.#main;
    const connection = peerConnection.applyOffer(offer);
    const isForAll = this.#receiving === null;
    if (receives || isForAll) this.downlink.negotiated(sections);
    const tracks = receives ? [] : this.uplink.negotiated(offer, sections, wanted.publish);
    if (receives || isForAll) this.downlink.subscribe(wanted.subscribe, wanted.voices);
    const data = offer.sections.find((section) => section.kind === "application" && !section.rejected);
    if (data) {
      this.data.expectChannels();
      connection.openSctp(data.sctpPort ?? 5000);
    }
    const streams = new Map([...placed].flatMap(([mid, stream]) => (stream === undefined ? [] : [[mid, stream]])));
    return {
      sdp: peerConnection.answer(offer, sections, { outgoing: this.downlink.outgoingStreams, streams }),
      tracks,
    };
  }

  #createMain(): PeerConnection {
    return new PeerConnection(this.#host, {
      onOpened: (connection) => {
        this.state = "connecting";
        this.#impair(connection);
      },
      onIceState: (state) => this.emit({ type: "iceStateChanged", state }),
      onDtlsState: (state) => this.emit({ type: "dtlsStateChanged", state }),
      onReady: (path, again) => this.#ready(path, again),
      onLost: (reason, stage) => this.#lost(reason, stage),
      streams: this.uplink.fastStreams,
      onRtp: (data, length, nowMs) => this.uplink.receiveRtp(data, length, nowMs),
      onRtcp: (data, length, nowMs) => this.#receiveRtcp(data, length, nowMs),
      onChannel: (channel) => this.data.opened(channel),
      onMessage: (channel, data) => this.data.received(channel, data),
      onReplaced: () => {
        this.#stall.restart();
        this.uplink.reset();
        if (!this.#receiving) this.downlink.reset();
        this.data.reset();
      },
    });
  }

  /** Emits no events, because the participant's state is that of its main connection. */
  #createReceiving(): PeerConnection {
    this.downlink.reset();
    return new PeerConnection(this.#host, {
      onOpened: (connection) => this.#impair(connection),
      onIceState: () => {},
      onDtlsState: () => {},
      onReady: () => this.downlink.connected(),
      onLost: () => {},
      streams: null,
      onRtp: () => {},
      onRtcp: (data, length, nowMs) => this.#receiveRtcp(data, length, nowMs),
      // The channels of the main connection carry data both ways.
      onChannel: (channel) => channel.close(),
      onMessage: () => {},
      onReplaced: () => this.downlink.reset(),
    });
  }

  #impair(connection: Connection): void {
    const profile = this.#network;
    if (profile !== "none") connection.setNetwork(new BadNetwork(profile, this.#host.now));
  }

  #ready(path: Path, again: boolean): void {
    this.state = "connected";
    const way = this.connection?.describePath();
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
    this.#flight.reported(data, length, nowMs);
    const packets = this.uplink.receiveRtcp(data, length, nowMs);
    this.downlink.receiveRtcp(packets, nowMs);
  }

  setPermissions(permissions: Permissions): void {
    this.permissions = permissions;
    for (const publication of this.uplink.publications()) {
      if (!mayPublish(permissions, publication.kind, publication.source)) this.uplink.unpublish(publication.trackId);
    }
    if (permissions.subscribe) this.downlink.fillAutomatically();
    else this.downlink.unsubscribeAll("permission");
  }

  setNetwork(profile: NetworkProfile): void {
    this.#network = profile;
    for (const connection of this.#connections) {
      connection.setNetwork(profile === "none" ? null : new BadNetwork(profile, this.#host.now));
    }
  }

  /** Runs ten times a second; more urgent work is in `uplink.tick`. */
  tick(nowMs: number): void {
    this.#main.connection?.tick(nowMs);
    this.#receiving?.connection?.tick(nowMs);
    this.downlink.tick(nowMs);
    this.data.tick();
    if (this.state === "connected") this.#watchFlow(nowMs);
    if (this.state === "connected" || this.state === "disconnected") this.#watchHealth(nowMs);
  }

  #watchFlow(nowMs: number): void {
    const connection = this.uplink.isExpected ? this.connection : this.receivingConnection;
    if (!connection || !this.#stall.isDue(nowMs)) return;
    const { mediaAtMs, checkedAtMs } = connection.liveness;
    const change = this.#stall.update({ due: this.#duty(nowMs), mediaAtMs, checkedAtMs }, nowMs);
    if (change === null) return;
    this.emit({ type: change === "stalled" ? "mediaStalled" : "mediaFlows" });
    this.#weigh(nowMs);
  }

  #duty(nowMs: number): ExpectedMedia["due"] {
    const flow = this.downlink.takeFlow(nowMs);
    if (this.uplink.isExpected || flow === "video") return "media";
    return flow === "audio" ? "audio reports" : "nothing";
  }

  #weigh(nowMs: number): void {
    const silentMs = this.connection?.liveness.silentMs(nowMs) ?? 0;
    const quality = this.health.update(this.stats(), silentMs, this.#stall.isStalled);
    if (quality) this.emit({ type: "qualityChanged", quality });
  }

  #watchHealth(nowMs: number): void {
    if (this.#flight.isStateDue(nowMs)) this.#flight.state(flightState(this), nowMs);
    if (this.health.isQualityDue(nowMs)) this.#weigh(nowMs);
    if (this.health.isStatsDue(nowMs)) this.emit({ type: "transportStats", stats: this.stats() });
  }

  /** The flight record of its last seconds. */
  flight(): FlightDump {
    return this.#flight.dump(streamsOf(this.uplink), this.downlink.history, this.#host.now());
  }

  close(): void {
    this.uplink.unpublishAll();
    this.downlink.unsubscribeAll("requested");
    this.#main.close();
    this.#receiving?.close();
    this.state = "failed";
  }

  stats(): TransportStats {
    const { transport = null, remoteAddress = null } = this.connection?.describePath() ?? {};
    return {
      transport,
      remoteAddress,
      srtpProfile: this.connection?.srtpProfile ?? null,
      rttMs: this.downlink.rttMs,
      jitterMs: this.uplink.feedback.jitterMs,
      packetLossPercent: worst(this.uplink.feedback.lossPercent, this.downlink.lossPercent),
      uplinkLossPercent: this.uplink.feedback.pathLossPercent,
      downlinkLossPercent: this.downlink.lossPercent,
      availableOutBps: this.downlink.availableBps,
      heldBack: this.downlink.isHeldBack,
      uplinkWaitMs: this.health.uplinkWaitMs(remoteAddress, this.downlink.rttMs, this.downlink.queueMs),
      serverBusyPercent: this.#host.busyPercent(),
      usesLinks: this.downlink.usesLinks,
      bytesIn: sum(this.#connections.map((connection) => connection.bytesIn)),
      bytesOut: sum(this.#connections.map((connection) => connection.controlBytesOut)) + this.downlink.bytesOut,
    };
  }

  /** Refused packets of the current connections by reason. */
  refusals(): Record<string, number> {
    const total: Record<string, number> = {};
    for (const { refusals } of this.#connections)
      for (const [reason, count] of Object.entries(refusals ?? {})) total[reason] = (total[reason] ?? 0) + count;
    return total;
  }

  snapshot(): ParticipantSnapshot {
    return {
      participantId: this.self.participantId,
      identity: this.self.identity,
      state: this.state,
      permissions: this.permissions,
      quality: this.health.quality,
      tracks: this.uplink.publications().flatMap((one) => (one.announced ? [one.describe()] : [])),
      subscriptions: this.downlink.describe(),
      transport: this.stats(),
      ...(this.data.lastSequence > 0 && { lastDataSequence: this.data.lastSequence }),
    };
  }
}

function sum(counts: readonly number[]): number {
  return counts.reduce((total, count) => total + count, 0);
}

function worst(a: number | null, b: number | null): number | null {
  return a === null || b === null ? (a ?? b) : Math.max(a, b);
}

function flightState({ uplink, downlink }: { uplink: Uplink; downlink: Downlink }): FlightState {
  const { pathLossPercent: uplinkLossPercent, jitterMs } = uplink.feedback;
  const { availableBps: estimateBps, queueMs, rttMs, lossPercent: downlinkLossPercent } = downlink;
  return { estimateBps, queueMs, rttMs, uplinkLossPercent, downlinkLossPercent, jitterMs };
}

/** The streams that a participant publishes now, by which packets in its flight record are read. */
function streamsOf(uplink: Uplink): FlightDump["streams"] {
  return uplink.publications().flatMap(({ kind, codec, layers }) =>
    layers
      .filter(({ ssrc }) => ssrc !== 0)
      .map(({ ssrc, rid }) => ({
        ssrc,
        kind,
        rid,
        codec: codec?.codec ?? "",
        clockRate: codec?.clockRate ?? 90_000,
      })),
  );
}
