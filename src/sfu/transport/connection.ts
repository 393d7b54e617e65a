/** One client's transport: ICE path, DTLS, SRTP both ways and the SCTP association. It knows nothing of rooms and tracks. */
import type { MediaFailure, MediaTransport } from "../../protocol/media-node.ts";
import { PACKET_BUFFER_BYTES } from "../fast-path/send-batch.ts";
import type { FanOutTransport } from "../forwarding/fan-out-target.ts";
import { createSctp, type DataChannel, type DtlsCertificate, type SctpEngine } from "../werift/werift-hooks.ts";
import type { Fingerprint } from "../wire/sdp/offer.ts";
import { SRTP_MAX_OVERHEAD, type SrtpProfile, type SrtpRefusals, SrtpSender } from "../wire/srtp/srtp.ts";
import type { IceCredentials } from "../wire/stun/stun.ts";
import type { BadNetwork } from "./bad-network.ts";
import { ControlBudget, DATA_SHARE } from "./control-budget.ts";
import { type Dtls, type DtlsOptions, DtlsSession } from "./dtls.ts";
import { type IceAgent, plainAddress } from "./ice/ice.ts";
import { IceSession, type Path } from "./ice/ice-session.ts";
import { IncomingMedia, type MediaEvents } from "./incoming-media.ts";
import type { UdpPort } from "./udp.ts";

/** Messages of data channels need several passes of the event loop, but none of its timers soon. */
const AWAKE_FOR_DATA_MS = 10;
/** A data channel message of 64 KB and its framing. */
export const MAX_DATA_MESSAGE_BYTES = 70_000;

/** The RTCP packet that is being sent. */
const rtcp = new Uint8Array(PACKET_BUFFER_BYTES);

type IceState = "new" | "checking" | "connected" | "disconnected" | "failed" | "closed";

/** Shared by all connections of a worker. */
export type ConnectionHost = {
  agent: IceAgent;
  udp: UdpPort;
  certificate: DtlsCertificate;
  srtpProfiles: readonly SrtpProfile[];
  now(): number;
  /** Called when a DTLS handshake has succeeded or failed. */
  onHandshakeEnded(): void;
  /** Replaces the DTLS handshake where the keys are known in advance. */
  openDtls?: ((options: DtlsOptions) => Dtls) | undefined;
  /** How many streams a connection may bring; by default those of a client. */
  maxStreams?: number;
};

export type ConnectionEvents = MediaEvents & {
  onIceState(state: IceState): void;
  onDtlsState(state: "new" | "connecting" | "connected" | "failed" | "closed"): void;
  /** Called when media can flow, and again after each `onLost`. */
  onReady(path: Path, again: boolean): void;
  onLost(reason: MediaFailure, stage: "disconnected" | "failed"): void;
  onChannel(channel: DataChannel): void;
  onMessage(channel: DataChannel, data: string | Buffer): void;
};

const DISCONNECTED_AFTER_MS = 15_000;
const FAILED_AFTER_MS = 30_000;
/** The timeout that applies until the first check. */
const NEVER_REACHED_AFTER_MS = 15_000;

/**
 * Whether the client is still there. Authentic checks, packets and reports count alike: browsers send checks every few seconds, other
 * clients hardly ever while media flows.
 */
class Liveness {
  /** The times of the last check and of the last packet; 0 before the first. */
  checkedAtMs = 0;
  mediaAtMs = 0;
  readonly #startedAtMs: number;

  constructor(startedAtMs: number) {
    this.#startedAtMs = startedAtMs;
  }

  silentMs(nowMs: number): number {
    return nowMs - Math.max(this.checkedAtMs, this.mediaAtMs, this.#startedAtMs);
  }

  state(nowMs: number): "alive" | "disconnected" | "failed" {
    const silentMs = this.silentMs(nowMs);
    if (silentMs > (this.checkedAtMs === 0 ? NEVER_REACHED_AFTER_MS : FAILED_AFTER_MS)) return "failed";
    return silentMs > DISCONNECTED_AFTER_MS ? "disconnected" : "alive";
  }

  /** Returns whether the client has had enough time to finish its handshake. */
  isOverdue(nowMs: number): boolean {
    return nowMs - this.#startedAtMs > FAILED_AFTER_MS;
  }
}

export class Connection {
  readonly ice: IceSession;
  readonly liveness: Liveness;
  /** Null until DTLS is connected, because nothing can be sent before. */
  transport: FanOutTransport | null = null;
  srtpProfile: SrtpProfile | null = null;
  bytesIn = 0;
  /** Counts RTCP and data; media is counted by its streams. */
  controlBytesOut = 0;
  readonly #host: ConnectionHost;
  readonly #events: ConnectionEvents;
  readonly #dtls: Dtls;
  readonly #fingerprints: Fingerprint[];
  #incoming: IncomingMedia | null = null;
  #outgoing: SrtpSender | null = null;
  #sctp: SctpEngine | null = null;
  #sctpPort: number | null = null;
  #iceState: IceState = "new";
  #handshaking = false;
  #network: BadNetwork | null = null;
  /** Reports and data have separate budgets, so that data cannot prevent the reports on a participant's media. */
  readonly #control: { readonly reports: ControlBudget; readonly data: ControlBudget };
  /** The datagram that is being read contains an authentic record. */
  #isAuthentic = false;

  constructor(host: ConnectionHost, fingerprints: readonly Fingerprint[], events: ConnectionEvents) {
    this.#host = host;
    this.#events = events;
    this.#fingerprints = [...fingerprints];
    this.#control = { reports: new ControlBudget(host.now), data: new ControlBudget(host.now, DATA_SHARE) };
    this.liveness = new Liveness(host.now());
    this.ice = new IceSession({
      onDtls: (data) => {
        if (this.#network) this.#network.up(data, (late) => this.#receiveDtls(late));
        else this.#receiveDtls(data);
      },
      onMedia: (data, nowMs, path) => {
        if (this.#network) this.#network.up(data, (late) => this.#receiveMedia(late, host.now(), path));
        else this.#receiveMedia(data, nowMs, path);
      },
      onCheck: (path, moved, nowMs) => this.#checked(path, moved, nowMs),
      onPathLost: (next) => {
        if (next) this.#follow(next);
      },
    });
    const dtls: DtlsOptions = {
      certificate: host.certificate,
      profiles: host.srtpProfiles,
      fingerprints: this.#fingerprints,
      send: (data) => this.#sendRaw(data),
      onConnected: ({ incoming, outgoing }) => {
        const srtp = host.udp.path.createReceiver(incoming, host.maxStreams);
        this.#incoming = new IncomingMedia(srtp, host.udp, {
          events,
          onAuthentic: (path, nowMs) => this.#onAuthentic(path, nowMs),
          isDirect: (path) => this.#network === null && this.#iceState === "connected" && host.agent.isOwner(path),
          countBytes: (bytes) => (this.bytesIn += bytes),
          control: this.#control.reports,
        });
        this.#outgoing = new SrtpSender(outgoing, host.udp.path.createCipher);
        this.srtpProfile = incoming.profile;
        this.#ready();
      },
      onData: (data) => {
        this.#isAuthentic = true;
        this.#sctp?.deliver(data);
      },
      onFailed: () => {
        events.onDtlsState("failed");
        events.onLost("dtls_failed", "failed");
      },
      onClosed: () => {
        events.onDtlsState("closed");
        events.onLost("dtls_closed", "failed");
      },
      onHandshakeEnded: () => host.onHandshakeEnded(),
    };
    this.#dtls = host.openDtls ? host.openDtls(dtls) : new DtlsSession(dtls);
  }

  get isReady(): boolean {
    return this.transport !== null;
  }

  /**
   * `controlOverShare` counts the RTCP and data packets that were dropped because the connection had used its share of the thread.
   */
  get refusals(): (SrtpRefusals & { controlOverShare: number }) | null {
    const { reports, data } = this.#control;
    return this.#incoming && { ...this.#incoming.refusals, controlOverShare: reports.dropped + data.dropped };
  }

  /** Called when a stream of either direction has ended and none with its SSRC follows. */
  forget(ssrc: number): void {
    this.#outgoing?.forget(ssrc);
    this.#incoming?.forget(ssrc);
  }

  /** Creates ICE credentials for the first answer and for every restart. */
  issueCredentials(theirs: IceCredentials | null): IceCredentials {
    return this.#host.agent.issueCredentials(this.ice, theirs);
  }

  /** Sets the fingerprints of a client whose offer had none. They cannot change afterwards. */
  certificateNamed(fingerprints: readonly Fingerprint[]): void {
    if (this.#fingerprints.length === 0) this.#fingerprints.push(...fingerprints);
  }

  /** Called with the data section of the offer. */
  openSctp(remotePort: number): void {
    this.#sctpPort ??= remotePort;
    if (this.#sctp || !this.isReady) return;
    this.#sctp = createSctp(MAX_DATA_MESSAGE_BYTES, this.#sctpPort, {
      send: (data) => this.#dtls.send(data),
      onChannel: (channel) => this.#events.onChannel(channel),
      onMessage: (channel, data) => this.#events.onMessage(channel, data),
      onClosed: () => {},
    });
  }

  /** Copies, protects and sends the packet. */
  sendRtcp(packet: Uint8Array): void {
    if (!this.#outgoing || packet.length + SRTP_MAX_OVERHEAD > PACKET_BUFFER_BYTES) return;
    rtcp.set(packet);
    this.#sendRaw(rtcp.subarray(0, this.#outgoing.protectRtcp(rtcp, packet.length)));
  }

  /** Simulates a bad network to this client, for development; null ends it. */
  setNetwork(network: BadNetwork | null): void {
    this.#network = network;
    this.ice.unreachable = network?.isDown ?? false;
    if (this.ice.selected) this.#follow(this.ice.selected);
  }

  tick(nowMs: number): void {
    this.#network?.tick(nowMs);
    this.#host.agent.tick(this.ice, nowMs);
    const state = this.#iceState;
    if (state === "closed" || state === "failed") return;
    const liveness = this.liveness.state(nowMs);
    if (liveness === "failed") {
      this.#setIceState("failed");
      this.#events.onLost(this.isReady ? "consent_timeout" : "ice_timeout", "failed");
    } else if (liveness === "disconnected" && state === "connected") {
      this.#setIceState("disconnected");
      this.#events.onLost("consent_timeout", "disconnected");
    }
    // The handshake hangs although checks arrive.
    if (!this.isReady && this.#dtls.state === "connecting" && this.liveness.isOverdue(nowMs)) {
      this.#dtls.close();
      this.#events.onDtlsState("failed");
      this.#events.onLost("dtls_failed", "failed");
    }
  }

  close(): void {
    this.#setIceState("closed");
    this.#sctp?.close();
    this.#dtls.close();
    this.#host.agent.close(this.ice);
    this.#leaveSlots();
    this.transport = null;
    this.#incoming?.close();
    this.#incoming = null;
    this.#outgoing?.close();
    this.#outgoing = null;
  }

  #sendRaw(data: Uint8Array): void {
    this.controlBytesOut += data.length;
    if (this.#network) this.#network.down(data, (late) => this.#transmit(late));
    else this.#transmit(data);
  }

  #transmit(data: Uint8Array): void {
    const path = this.ice.selected;
    if (!path) return;
    if (path.tcp) path.tcp.send(data);
    else this.#host.udp.send(data, path.port, path.address);
  }

  #receiveDtls(data: Buffer): void {
    this.bytesIn += data.length;
    this.#host.udp.receiveLoop?.stayAwake(this.#host.now(), this.isReady ? AWAKE_FOR_DATA_MS : undefined);
    // The fingerprint of the client is not known yet; the client repeats its ClientHello within a second.
    if (this.#fingerprints.length === 0) return;
    if (!this.#handshaking) {
      this.#handshaking = true;
      this.#events.onDtlsState("connecting");
    }
    if (this.isReady) this.#receiveRecords(data);
    else this.#dtls.receive(data);
  }

  #receiveRecords(data: Buffer): void {
    if (this.#control.data.drops()) return;
    this.#control.data.spend(() => {
      this.#isAuthentic = false;
      this.#dtls.receive(data);
      return this.#isAuthentic ? undefined : "forged";
    });
  }

  #receiveMedia(data: Buffer, nowMs: number, path: Path): void {
    this.bytesIn += data.length;
    this.#incoming?.receive(data, nowMs, path);
  }

  #onAuthentic(path: Path, nowMs: number): void {
    this.liveness.mediaAtMs = nowMs;
    path.lastCheckMs = nowMs;
    if (this.#iceState !== "connected") this.#reached(path);
  }

  #checked(path: Path, moved: boolean, nowMs: number): void {
    this.liveness.checkedAtMs = nowMs;
    if (moved) this.#follow(path);
    this.#reached(path);
  }

  #reached(path: Path): void {
    const before = this.#iceState;
    if (before === "connected" || before === "closed") return;
    this.#setIceState("connected");
    if (this.isReady && (before === "disconnected" || before === "failed")) this.#events.onReady(path, true);
  }

  /** Sends media to the client's new address, so that a phone that leaves its Wi-Fi keeps the call. */
  #follow(path: Path): void {
    if (!this.transport) return;
    this.#leaveSlots();
    this.transport.address = path.address;
    this.transport.port = path.port;
    this.transport.deliver = this.#delivery(path);
  }

  #leaveSlots(): void {
    for (const slot of [...(this.transport?.slots ?? [])]) slot.leave();
  }

  #delivery({ tcp }: Path): FanOutTransport["deliver"] {
    const network = this.#network;
    if (network) return (packet) => network.down(packet, (late) => this.#transmit(late));
    return tcp ? (packet) => tcp.send(packet) : undefined;
  }

  #ready(): void {
    const path = this.ice.selected;
    if (!path || !this.#outgoing) return;
    this.transport = {
      srtp: this.#outgoing,
      address: path.address,
      port: path.port,
      deliver: undefined,
      slots: new Set(),
    };
    this.#follow(path);
    this.#events.onDtlsState("connected");
    if (this.#sctpPort !== null) this.openSctp(this.#sctpPort);
    this.#events.onReady(path, false);
  }

  #setIceState(state: IceState): void {
    if (this.#iceState === state) return;
    this.#iceState = state;
    this.#events.onIceState(state);
  }

  describePath(): { transport: MediaTransport; remoteAddress: string } | null {
    const path = this.ice.selected;
    const client = path && this.#host.agent.relayedClient(path);
    if (client) return { transport: "relay", remoteAddress: `${client.address}:${client.port}` };
    return path && { transport: path.tcp ? "tcp" : "udp", remoteAddress: `${plainAddress(path.address)}:${path.port}` };
  }
}
