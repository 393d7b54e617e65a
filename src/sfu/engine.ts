/** The packet engine of one worker: its socket, its rooms, its clock. It serves every call of a MediaNode. */
import type { SocketTuning } from "../kernel/net/socket-options.ts";
import { ClientTable } from "../protocol/client-table.ts";
import type { NodeLoad } from "../protocol/media/node-load.ts";
import {
  MediaError,
  type MediaEvent,
  type ParticipantRef,
  type RelayEvent,
  type RoomRef,
} from "../protocol/media-node.ts";
import { type FastPath, typescriptPath } from "./fast-path/fast-path.ts";
import { openNativePath } from "./fast-path/native-path.ts";
import type { ReceiveLoopHost } from "./fast-path/receive-loop.ts";
import { RelayLink } from "./relay/relay-link.ts";
import type { OpenLink } from "./relay/relayed-track.ts";
import type { ParticipantHost } from "./room/host.ts";
import type { Participant } from "./room/participant.ts";
import { Room, URGENT_TICK_MS } from "./room/room.ts";
import { threadLoad } from "./thread-load.ts";
import { clockAhead, Ticker } from "./ticker.ts";
import { createHandshakeCollector, fingerprintOf } from "./transport/dtls.ts";
import { EventLoopBudget } from "./transport/event-loop-budget.ts";
import { candidatesOf, IceAgent } from "./transport/ice/ice.ts";
import {
  PortSharing,
  type SharedPort,
  type SharingCounters,
  type Unshareable,
} from "./transport/port-sharing/port-sharing.ts";
import { type TcpConnection, TcpPort } from "./transport/tcp.ts";
import { type UdpOptions, UdpPort } from "./transport/udp.ts";
import { useNativeCurves } from "./werift/native-curves.ts";
import { createCertificate, type DtlsCertificate } from "./werift/werift-hooks.ts";
import { TransportFeedback } from "./wire/rtcp/twcc-feedback.ts";
import {
  ONLY_LOOKS,
  type WorkerCall,
  type WorkerMethod,
  type WorkerResponse,
  type WorkerSettings,
} from "./worker-protocol.ts";

/** Attempts to find a port that is free for both UDP and TCP. */
const PORT_ATTEMPTS = 20;
const FIRST_MEDIA_BYTE = 128;
const BUSY_FOR_MS = 2_000;

export type EngineOutput = {
  emit(event: MediaEvent): void;
  /** Called with what the other workers of the process need to know; a lone worker has none. */
  relay?(event: RelayEvent): void;
  /** Called with the number of other processes that use the port, whenever it changes. */
  portShared?(others: number): void;
  /** Called with an error that one packet or room has caused. */
  onFault(error: unknown): void;
  /** Called at every tick: a sign of life that does not depend on the event loop. */
  beat?(): void;
};

/** `usesReceiveLoop` lets native code block the thread at the socket. The other fields are for tests and for the JIT warm-up. */
type EngineHooks = Pick<UdpOptions, "impairIn" | "impairOut" | "path"> &
  Partial<Pick<ParticipantHost, "now" | "openDtls">> & {
    usesReceiveLoop?: boolean;
    scheduleLoop?: ReceiveLoopHost["schedule"];
  };

type OwnParts = Pick<ParticipantHost, "now" | "openDtls"> & { ticker: Ticker; sharing: PortSharing | null };

export class Engine {
  readonly #rooms = new Map<string, Room>();
  readonly #links = new Map<string, RelayLink>();
  readonly #relay: (event: RelayEvent) => void;
  readonly #udp: UdpPort;
  readonly #tcp: TcpPort | null;
  readonly #agent: IceAgent;
  readonly #host: ParticipantHost;
  readonly #ticker: Ticker;
  readonly #onFault: (error: unknown) => void;
  readonly #retired: Record<string, number> = {};
  readonly #eventLoopBudget = new EventLoopBudget();
  readonly #output: EngineOutput;
  /** Null until the port has been shared. */
  #sharing: PortSharing | null = null;
  #shed = 0;
  readonly #beat: () => void;
  readonly #busyPercent = threadLoad(() => performance.now());
  #sample: { atMs: number; bytesIn: number; bytesOut: number } | null = null;

  static async start(settings: WorkerSettings, output: EngineOutput, hooks: EngineHooks = {}): Promise<Engine> {
    useNativeCurves();
    const certificate = await createCertificate();
    const path = hooks.path ?? (settings.nativeLibrary ? openNativePath(settings.nativeLibrary) : typescriptPath);
    const { now = clockAhead({ ms: 0 }), scheduleLoop: schedule = setImmediate, usesReceiveLoop } = hooks;
    const sharing = settings.succeeds ? await PortSharing.reach(settings.succeeds, sharingOutput(output)) : null;
    const port = sharing && settings.succeeds ? settings.succeeds.port : settings.port;
    let { hostname } = settings;
    for (let attempt = 1; ; attempt++) {
      let engine: Engine | null = null;
      const ticker = new Ticker(now, (nowMs) => engine?.tick(nowMs));
      const udp = await UdpPort.bind({
        hostname,
        port,
        reusePort: sharing !== null,
        onBound: (fd) => sharing?.steerAtOnce(fd),
        onDatagram: (data, port, address) => engine?.receive(data, port, address),
        onFault: output.onFault,
        ...hooks,
        ...(usesReceiveLoop && { receiveLoop: { now, ticker, schedule } }),
        path,
      }).catch((error) => {
        // A machine without IPv6 has no `::`.
        if (hostname === "::" && error?.code !== "EADDRINUSE") return null;
        sharing?.close();
        throw error;
      });
      if (!udp) {
        hostname = "0.0.0.0";
        continue;
      }
      try {
        engine = new Engine({ ...settings, hostname }, certificate, udp, output, { ...hooks, now, ticker, sharing });
        return engine;
      } catch (error) {
        udp.close();
        if (port !== 0 || attempt === PORT_ATTEMPTS) {
          sharing?.close();
          throw error;
        }
      }
    }
  }

  private constructor(
    settings: WorkerSettings,
    certificate: DtlsCertificate,
    udp: UdpPort,
    output: EngineOutput,
    { now, openDtls, ticker, sharing }: OwnParts,
  ) {
    this.#output = output;
    this.#onFault = output.onFault;
    this.#beat = output.beat ?? (() => {});
    this.#relay = output.relay ?? (() => {});
    this.#udp = udp;
    this.#ticker = ticker;
    const relayed = settings.relayed ? new ClientTable(settings.relayed) : null;
    this.#agent = new IceAgent({ sendUdp: udp.send.bind(udp) }, settings.probe, relayed);
    this.#tcp = settings.tcp
      ? TcpPort.listen({
          hostname: settings.hostname,
          port: udp.port,
          reusePort: sharing !== null,
          onPacket: (data, connection) => this.receive(data, connection.port, connection.address, connection),
          onClosed: (connection) => this.#agent.tcpClosed(connection),
        })
      : null;
    this.#host = {
      agent: this.#agent,
      udp,
      certificate,
      srtpProfiles: settings.srtpProfiles,
      now,
      openDtls,
      onHandshakeEnded: createHandshakeCollector(),
      candidates: candidatesOf(settings, udp.port),
      fingerprint: fingerprintOf(certificate),
      transportFeedback: new TransportFeedback(),
      retired: (refusals) => addTo(this.#retired, refusals),
      emit: output.emit,
      relayData: (data) => this.#relay({ type: "relayData", data }),
      expediteFeedback: () => this.#ticker.expedite(URGENT_TICK_MS),
      newId: () => crypto.randomUUID(),
      busyPercent: threadLoad(() => performance.now(), BUSY_FOR_MS),
    };
    if (sharing) this.#share(sharing).join(this.#sockets());
  }

  #share(sharing: PortSharing): PortSharing {
    this.#agent.sharers = sharing;
    this.#udp.beforeWait = sharing.send;
    this.#sharing = sharing;
    return sharing;
  }

  #sockets() {
    return {
      udp: this.#udp,
      tcp: this.#tcp,
      addresses: () => this.#agent.addresses(),
      deliver: (data: Buffer, port: number, address: string) => {
        this.#udp.count(data.length);
        this.receive(data, port, address);
      },
    };
  }

  #sharePort(): SharedPort | Unshareable {
    const sharing = this.#sharing ?? this.#share(PortSharing.alone(sharingOutput(this.#output), this.#sockets()));
    return sharing.offer();
  }

  /** The datagrams that were relayed to and from other processes. */
  get relayed(): SharingCounters {
    return this.#sharing?.counters ?? { relayedOut: 0, relayedIn: 0 };
  }

  get address(): string {
    return this.#udp.address;
  }

  get port(): number {
    return this.#udp.port;
  }

  /** How busy the thread was in the last seconds; null when unknown. */
  get busyPercent(): number | null {
    return this.#host.busyPercent();
  }

  get fanOut(): FastPath["name"] {
    return this.#udp.path.name;
  }

  get packetsIn(): number {
    return this.#udp.counters.packetsIn;
  }

  /** How many links the worker has, and how many streams cross them now. */
  get relays(): { links: number; streams: number } {
    let streams = 0;
    for (const link of this.#links.values()) streams += link.outgoing.active;
    return { links: this.#links.size, streams };
  }

  get tuning(): SocketTuning {
    return this.#udp.tuning;
  }

  /** An error in one packet must not end other calls: it is reported, and the engine continues. */
  receive(data: Buffer, port: number, address: string, tcp: TcpConnection | null = null): void {
    const nowMs = this.#host.now();
    if (this.#eventLoopBudget.isSpent(nowMs) && (data[0] ?? 0) >= FIRST_MEDIA_BYTE) {
      this.#shed++;
      return;
    }
    try {
      this.#agent.receive(data, port, address, tcp, nowMs);
    } catch (error) {
      this.#onFault(error);
    }
    this.#ticker.packetReceived(nowMs);
  }

  tick(nowMs: number): void {
    this.#beat();
    for (const ticking of [this.#rooms, this.#links]) {
      for (const one of ticking.values()) {
        try {
          one.tick(nowMs);
        } catch (error) {
          this.#onFault(error);
        }
      }
    }
    this.#udp.schedule();
    this.#setTickInterval(nowMs);
  }

  /** Ticks as often as the busiest room needs, so that an idle server sleeps. */
  #setTickInterval(nowMs: number): void {
    let everyMs: number | null = null;
    for (const link of this.#links.values()) everyMs = Math.min(everyMs ?? link.everyMs, link.everyMs);
    for (const room of this.#rooms.values()) {
      const wanted = room.tickEveryMs(nowMs);
      if (wanted !== null && (everyMs === null || wanted < everyMs)) everyMs = wanted;
    }
    this.#ticker.setInterval(everyMs);
  }

  /** Serves one call. An exception goes back to the caller. */
  call(call: WorkerCall): WorkerResponse<WorkerMethod> {
    try {
      if (!ONLY_LOOKS.has(call.method)) this.#udp.receiveLoop?.stayAwake(this.#host.now());
      return this.#serve(call);
    } finally {
      this.#setTickInterval(this.#host.now());
    }
  }

  #serve(call: WorkerCall): WorkerResponse<WorkerMethod> {
    switch (call.method) {
      case "openRoom":
        if (!this.#rooms.has(call.request.roomId))
          this.#rooms.set(call.request.roomId, new Room(this.#host, call.request));
        return;
      case "closeRoom":
        for (const link of this.#links.values()) this.#unshare(call.request.roomId, link);
        this.#rooms.get(call.request.roomId)?.close();
        this.#rooms.delete(call.request.roomId);
        return;
      case "addParticipant":
        return this.#room(call.request).add(call.request);
      case "removeParticipant":
        return this.#rooms.get(call.request.roomId)?.remove(call.request.participantId);
      case "setPermissions":
        return this.#participant(call.request).setPermissions(call.request.permissions);
      case "negotiate":
        return this.#participant(call.request).negotiate(call.request);
      case "updateSubscriptions":
        return this.#participant(call.request).downlink.update(call.request.tracks);
      case "setTrackMuted":
        return this.#participant(call.request).uplink.setMuted(call.request.trackId, call.request.muted);
      case "unpublish":
        return this.#participant(call.request).uplink.unpublish(call.request.trackId);
      case "sendData":
        return this.#room(call.request).sendData(call.request);
      case "startRecording":
        return this.#room(call.request).startRecording(call.request);
      case "stopRecording":
        return this.#rooms.get(call.request.roomId)?.stopRecording(call.request);
      case "setNetwork":
        return this.#room(call.request).setNetwork(call.request);
      case "limitDownlink":
        return this.#participant(call.request).downlink.limit(call.request.bitsPerSecond);
      case "flight":
        return this.#rooms.get(call.request.roomId)?.find(call.request.participantId)?.flight() ?? null;
      case "room":
        return this.#rooms.get(call.request.roomId)?.snapshot() ?? null;
      case "rooms":
        return [...this.#rooms].map(([roomId, room]) => ({ roomId, participants: room.size }));
      case "load":
        return this.#load();
      case "openLink":
        return this.#openLink(call.request);
      case "closeLink":
        return this.#closeLink(call.request.linkId);
      case "shareRoom":
        return this.#room(call.request).share(this.#link(call.request.linkId).outgoing);
      case "unshareRoom":
        return this.#unshare(call.request.roomId, this.#link(call.request.linkId));
      case "addRelayed":
        return this.#link(call.request.linkId).incoming.add(this.#room(call.request), call.request);
      case "muteRelayed":
        return this.#link(call.request.linkId).incoming.setMuted(call.request, call.request.muted);
      case "removeRelayed":
        return this.#links.get(call.request.linkId)?.incoming.remove(call.request);
      case "deliverRelayed":
        return this.#rooms.get(call.request.roomId)?.deliverRelayed(call.request);
      case "sharePort":
        return this.#sharePort();
      case "keepPort":
        return this.#sharing?.withdraw();
    }
  }

  #openLink(request: OpenLink): undefined {
    const { linkId } = request;
    this.#closeLink(linkId);
    const link = new RelayLink(this.#host, request, {
      changed: (condition) => this.#relay({ type: "linkChanged", linkId, ...condition }),
      offered: (track) => this.#relay({ type: "relayOffered", track }),
      muted: (change) => this.#relay({ type: "relayMuted", ...change }),
      ended: (ref) => this.#relay({ type: "relayEnded", ...ref }),
    });
    this.#links.set(linkId, link);
  }

  #closeLink(linkId: string): undefined {
    const link = this.#links.get(linkId);
    if (!link) return;
    for (const room of this.#rooms.values()) room.unshare(link.outgoing);
    link.close();
    this.#links.delete(linkId);
  }

  #unshare(roomId: string, link: RelayLink): undefined {
    this.#rooms.get(roomId)?.unshare(link.outgoing);
    link.incoming.removeRoom(roomId);
  }

  #link(linkId: string): RelayLink {
    const link = this.#links.get(linkId);
    if (!link) throw new MediaError("RTC_SERVER_UNREACHABLE", "The link to the other media worker is not open.");
    return link;
  }

  #room({ roomId }: RoomRef): Room {
    const room = this.#rooms.get(roomId);
    if (!room) throw new MediaError("ROOM_NOT_FOUND", "The room is not open on this node.");
    return room;
  }

  #participant(ref: ParticipantRef): Participant {
    const participant = this.#room(ref).find(ref.participantId);
    if (!participant) throw new MediaError("PARTICIPANT_NOT_FOUND", "The participant is not in the room.");
    return participant;
  }

  #load(): NodeLoad {
    const nowMs = this.#host.now();
    const { bytesIn, bytesOut, packetsIn, packetsOut, dropped } = this.#udp.counters;
    const before = this.#sample ?? { atMs: nowMs - 1, bytesIn, bytesOut };
    const seconds = Math.max(0.001, (nowMs - before.atMs) / 1_000);
    this.#sample = { atMs: nowMs, bytesIn, bytesOut };
    let participants = 0;
    const refused: Record<string, number> = {
      ...this.#agent.refusals,
      sendBufferFull: dropped,
      overloaded: this.#shed,
    };
    addTo(refused, this.#retired);
    for (const room of this.#rooms.values()) {
      participants += room.size;
      addTo(refused, room.refusals());
    }
    return {
      rooms: this.#rooms.size,
      participants,
      cpuPercent: this.#busyPercent(),
      memoryPercent: null,
      networkInBps: ((bytesIn - before.bytesIn) * 8) / seconds,
      networkOutBps: ((bytesOut - before.bytesOut) * 8) / seconds,
      packetsIn,
      packetsOut,
      ...this.#udp.repairs,
      refused,
      relays: this.relays,
    };
  }

  close(): void {
    this.#ticker.stop();
    for (const linkId of [...this.#links.keys()]) this.#closeLink(linkId);
    for (const room of this.#rooms.values()) room.close();
    this.#rooms.clear();
    this.#tcp?.close();
    this.#udp.close();
    this.#sharing?.close();
    this.#udp.path.close();
  }
}

function sharingOutput({ portShared = () => {}, onFault }: EngineOutput) {
  return { onSharers: portShared, onFault };
}

function addTo(total: Record<string, number>, counts: Partial<Record<string, number>>): void {
  for (const [reason, count = 0] of Object.entries(counts)) total[reason] = (total[reason] ?? 0) + count;
}
