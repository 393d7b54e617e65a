/** The media node inside this process: one worker thread per core. A room is on one worker, and on more while it is large. */
import { cpus, totalmem } from "node:os";
import type { NodeLoad } from "../protocol/media/node-load.ts";
import type { OpenedLink, RelayCall } from "../protocol/media/relay.ts";
import {
  type AddParticipant,
  MediaError,
  type MediaEvent,
  type MediaNode,
  type MediaRequest,
  type MediaResponse,
  type ParticipantRef,
  type RelayEvent,
  type RoomRef,
} from "../protocol/media-node.ts";
import type { SharedPort, Unshareable } from "../sfu/transport/port-sharing/port-sharing.ts";
import type { SrtpProfile } from "../sfu/wire/srtp/srtp.ts";
import type { EngineMethod } from "../sfu/worker-protocol.ts";
import { MediaWorker } from "./media-worker.ts";
import { type FanOutChoice, findNativeLibrary, type NativeLibrary } from "./native-library.ts";
import { NodeLinkEnds } from "./node-link-ends.ts";
import { RoomSites, SPREAD_FROM } from "./room-sites.ts";
import { workerLinks } from "./worker-links.ts";

type MediaLog = { info(details: object, message: string): void; error(details: object, message: string): void };

type ListenOptions = {
  /** The port of the first worker; the others follow. 0 for any free ports. */
  port: number;
  /** The IP address to bind; `::` for IPv4 and IPv6. */
  hostname: string;
  /** IP addresses under which clients reach this machine. */
  announce: string[];
  /** Whether to listen for ICE over TCP on the same ports. */
  tcp: boolean;
  /** The memory in MiB beyond which a worker is replaced; 2048 by default. */
  maxMemoryMb?: number;
  /** Credentials of connectivity checks that are answered without a connection. */
  probe?: { ufrag: string; pwd: string };
  /** The clients behind this machine's TURN relay. */
  relayed?: SharedArrayBuffer;
  /** Whether the workers compile their code before their first call; true by default. */
  warmUp?: boolean;
  /** Uses native code by default, if it is available. */
  fanOut?: FanOutChoice;
  /** A room with this many participants on a worker is spread over another one; infinite to never spread rooms. */
  spreadFrom?: number;
  /** The accepted profiles; all by default. */
  srtpProfiles?: SrtpProfile[];
  /** The ports of the process that this one succeeds, as its `sharePorts` returned them. Both processes use them until it ends. */
  succeeds?: readonly SharedPort[];
};

export type EmbeddedMediaOptions = ListenOptions & { workers: number; log: MediaLog };

const MAX_MEMORY_MB = 2048;
const GROW_AGAIN_AFTER_MS = 10_000;
const ALL_PROFILES: SrtpProfile[] = ["AEAD_AES_128_GCM", "AES_CM_128_HMAC_SHA1_80"];

export class EmbeddedMedia implements MediaNode {
  readonly #workers: MediaWorker[] = [];
  readonly #rooms = new Map<string, RoomSites<MediaWorker>>();
  readonly #links = workerLinks<MediaWorker>();
  /** The links to other nodes. */
  readonly #linkEnds = new NodeLinkEnds<MediaWorker>();
  #announce: readonly string[] = [];
  #spreadFrom = SPREAD_FROM;
  readonly #listeners = new Set<(event: MediaEvent) => void>();
  readonly #log: MediaLog;
  #library: NativeLibrary | null = null;
  #cpu: { atMs: number; micros: number } | null = null;

  static async start({ workers, log, ...options }: EmbeddedMediaOptions): Promise<EmbeddedMedia> {
    const media = EmbeddedMedia.spawn(workers, log);
    await media.listen(options);
    return media;
  }

  /** Starts the threads, which begin to load their code. `listen` starts the workers in them. */
  static spawn(workers: number, log: MediaLog): EmbeddedMedia {
    const media = new EmbeddedMedia(log);
    for (let index = 0; index < workers; index++) {
      const worker = new MediaWorker(index, {
        onEvent: (event) => media.#received(worker, event),
        onRelay: (event) => media.#relayed(worker, event),
        onCrash: () => media.#crashed(worker),
        log,
      });
      media.#workers.push(worker);
    }
    return media;
  }

  private constructor(log: MediaLog) {
    this.#log = log;
  }

  /** Resolves when all sockets are bound; closes the node when a socket cannot be bound. */
  async listen(options: ListenOptions): Promise<void> {
    const { port, fanOut = "auto", srtpProfiles = ALL_PROFILES, maxMemoryMb = MAX_MEMORY_MB, ...rest } = options;
    const { spreadFrom = SPREAD_FROM, succeeds = [], ...settings } = rest;
    if (this.#workers.length === 0) throw new Error("the media node is closed");
    try {
      this.#spreadFrom = spreadFrom;
      this.#announce = rest.announce;
      this.#library = await findNativeLibrary(fanOut, this.#log);
      const nativeLibrary = this.#library?.path;
      await Promise.all(
        this.#workers.map((worker) =>
          worker.start({
            ...settings,
            srtpProfiles,
            maxMemoryMb,
            nativeLibrary,
            succeeds: succeeds[worker.index],
            port: port === 0 ? 0 : port + worker.index,
          }),
        ),
      );
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  /**
   * Lets a newer process use the ports, by the option `succeeds` of its `listen`. Clients notice nothing, because each process
   * receives what its own clients send. The tokens in the result are secrets.
   */
  async sharePorts(): Promise<{ ports: SharedPort[] } | Unshareable> {
    const ports: SharedPort[] = [];
    for (const shared of await Promise.all(this.#workers.map((worker) => worker.sharePort()))) {
      if ("unavailable" in shared) {
        await this.keepPorts();
        return shared;
      }
      ports.push(shared);
    }
    return { ports };
  }

  /** Called when the newer process does not come: the ports belong to this process alone again. */
  async keepPorts(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.keepPort()));
  }

  /** Another process uses one of the ports now. */
  get sharesPorts(): boolean {
    return this.#workers.some((worker) => worker.sharesPort);
  }

  /** UDP (and TCP) ports in use, one per worker. */
  get ports(): number[] {
    return this.#workers.map((worker) => worker.port);
  }

  #emit(event: MediaEvent): void {
    for (const listener of this.#listeners) listener(event);
  }

  #received(worker: MediaWorker, event: MediaEvent): void {
    // Every worker has all voices of the room, so only the main worker reports the speakers.
    if (event.type === "speakersChanged" && this.#rooms.get(event.roomId)?.main !== worker) return;
    this.#emit(event);
  }

  /** Passes the event on to the other workers of the room, to the room's other nodes, or to both. */
  #relayed(worker: MediaWorker, event: RelayEvent): void {
    if (event.type === "relayData") {
      this.#links.received(worker, event);
      // Data from a backend is sent to every node by the control plane.
      const { roomId, from } = event.data;
      if (from !== null && this.#linkEnds.isShared(roomId)) this.#emit(event);
      return;
    }
    const linkId = event.type === "relayOffered" ? event.track.linkId : event.linkId;
    if (this.#linkEnds.has(linkId)) this.#emit(event);
    else this.#links.received(worker, event);
  }

  #crashed(worker: MediaWorker): void {
    const rooms: Extract<MediaEvent, { type: "workerCrashed" }>["rooms"] = [];
    this.#links.lost(worker);
    this.#linkEnds.lost(worker);
    for (const [roomId, room] of this.#rooms) {
      const lost = room.lose(worker);
      if (!lost) continue;
      const { participantIds, remains, wasMain } = lost;
      rooms.push({ roomId, participantIds, ...(remains && { remains, recordingEnds: wasMain }) });
      if (!remains) this.#rooms.delete(roomId);
    }
    this.#emit({ type: "workerCrashed", worker: worker.index, rooms });
  }

  /** The worker with the fewest participants, which determine the load; null if all are excluded. */
  #leastLoaded(except: readonly MediaWorker[] = []): MediaWorker | null {
    const load = new Map(this.#workers.map((worker) => [worker, 0]));
    for (const room of this.#rooms.values())
      for (const { worker, identities } of room.all) load.set(worker, (load.get(worker) ?? 0) + identities.size + 1);
    const [first] = [...load].filter(([worker]) => !except.includes(worker)).sort(([, a], [, b]) => a - b);
    return first?.[0] ?? null;
  }

  #find({ roomId }: RoomRef): RoomSites<MediaWorker> {
    const room = this.#rooms.get(roomId);
    if (!room) throw new MediaError("ROOM_NOT_FOUND", "The room is not open on this node.");
    return room;
  }

  async #call<M extends EngineMethod>(method: M, request: MediaRequest<M> & ParticipantRef): Promise<MediaResponse<M>> {
    const worker = this.#find(request).workerOf(request.participantId);
    return (await worker.call(method, request)) as MediaResponse<M>;
  }

  async openRoom(request: MediaRequest<"openRoom">): Promise<void> {
    if (this.#rooms.has(request.roomId)) return;
    const worker = this.#leastLoaded();
    if (!worker) throw new MediaError("RTC_SERVER_UNREACHABLE", "The media node is closed.");
    this.#rooms.set(request.roomId, new RoomSites(request, worker, this.#spreadFrom));
    await worker.call("openRoom", request);
  }

  async closeRoom(request: RoomRef): Promise<void> {
    const workers = this.#rooms.get(request.roomId)?.workers ?? [];
    this.#rooms.delete(request.roomId);
    await Promise.all(workers.map((worker) => this.#leave(request, worker)));
  }

  #leave({ roomId }: RoomRef, worker: MediaWorker): Promise<void> {
    this.#links.unshare(roomId, worker);
    return worker.call("closeRoom", { roomId });
  }

  async addParticipant(request: AddParticipant): Promise<void> {
    const { roomId, participantId, identity, unlisted } = request;
    const room = this.#find(request);
    const worker = unlisted ? room.main : room.place(participantId, identity);
    if (room.isFull) void this.#grow(roomId, room);
    await worker.call("addParticipant", request);
  }

  /** Opens a full room on another worker, for the participants who join from then on. */
  async #grow(roomId: string, room: RoomSites<MediaWorker>): Promise<void> {
    // The links of two processes that share a port could not be told apart.
    if (room.isGrowing || this.sharesPorts || performance.now() < room.growsFromMs) return;
    const worker = this.#leastLoaded(room.workers);
    if (!worker || worker.isBusy) return;
    room.isGrowing = true;
    try {
      await worker.call("openRoom", room.options);
      for (const other of room.workers) await this.#links.share(roomId, other, worker);
      for (const network of room.networks.values()) await worker.call("setNetwork", network);
      if (this.#rooms.get(roomId) !== room) throw new Error("the room was closed meanwhile");
      room.add(worker);
      this.#log.info({ roomId, worker: worker.index, workers: room.workers.length }, "media: room spread to a worker");
    } catch (error) {
      room.growsFromMs = performance.now() + GROW_AGAIN_AFTER_MS;
      // A new room with the same id may have been opened there meanwhile.
      if (this.#rooms.get(roomId)?.workers.includes(worker)) this.#links.unshare(roomId, worker);
      else this.#leave({ roomId }, worker).catch(() => {});
      if (this.#rooms.get(roomId) === room)
        this.#log.error({ roomId, worker: worker.index, error }, "media: room not spread to a worker");
    } finally {
      room.isGrowing = false;
    }
  }

  async removeParticipant(request: ParticipantRef): Promise<void> {
    const room = this.#rooms.get(request.roomId);
    if (!room) return;
    const worker = room.workerOf(request.participantId);
    const emptied = room.remove(request.participantId);
    // Both requests are sent now, because the room may be opened there again at any time.
    const removed = worker.call("removeParticipant", request);
    await Promise.all([removed, emptied && this.#leave(request, emptied)]);
  }

  setPermissions = (request: MediaRequest<"setPermissions">) => this.#call("setPermissions", request);
  negotiate = (request: MediaRequest<"negotiate">) => this.#call("negotiate", request);
  updateSubscriptions = (request: MediaRequest<"updateSubscriptions">) => this.#call("updateSubscriptions", request);
  setTrackMuted = (request: MediaRequest<"setTrackMuted">) => this.#call("setTrackMuted", request);
  unpublish = (request: MediaRequest<"unpublish">) => this.#call("unpublish", request);
  limitDownlink = (request: MediaRequest<"limitDownlink">) => this.#call("limitDownlink", request);
  flight = (request: ParticipantRef) => this.#call("flight", request);

  async setNetwork(request: MediaRequest<"setNetwork">): Promise<void> {
    const room = this.#find(request);
    room.networks.set(request.identity, request);
    await Promise.all(room.workers.map((worker) => worker.call("setNetwork", request)));
  }

  async sendData(request: MediaRequest<"sendData">): Promise<void> {
    // The response comes from the recipient of the request, so the recipient's worker has to know the request.
    const recipient = request.request ? (request.to?.[0] ?? null) : null;
    await this.#find(request)
      .workerOfIdentity(request.from ?? recipient)
      .call("sendData", request);
  }

  async startRecording(request: MediaRequest<"startRecording">): Promise<void> {
    await this.#find(request).main.call("startRecording", request);
  }

  async stopRecording(request: MediaRequest<"stopRecording">): Promise<void> {
    await this.#find(request).main.call("stopRecording", request);
  }

  async linkPoint(request: RoomRef): Promise<MediaResponse<"linkPoint">> {
    const { index: worker, port } = this.#find(request).main;
    // While another process shares the port, another node could not tell the two apart.
    if (this.sharesPorts) throw new MediaError("RTC_SERVER_UNREACHABLE", "Another process uses the ports of the node.");
    return { worker, publicKey: this.#linkEnds.publicKey, addresses: [...this.#announce], port };
  }

  async relay({ method, request }: RelayCall): Promise<void> {
    const ends = this.#linkEnds;
    switch (method) {
      case "openLink": {
        const worker = this.#workers[request.worker];
        if (!worker) throw new MediaError("RTC_SERVER_UNREACHABLE", "The node has no such worker.");
        await worker.call("openLink", ends.open(worker, request));
        break;
      }
      case "closeLink":
        await ends.close(request.linkId)?.relay(method, request);
        break;
      case "shareRoom":
        await ends.share(request).relay(method, request);
        break;
      case "unshareRoom":
        await ends.unshare(request)?.relay(method, request);
        break;
      case "addRelayed":
        await ends.add(request).relay(method, request);
        break;
      case "muteRelayed":
        await ends.workerOf(request.linkId).relay(method, request);
        break;
      case "removeRelayed":
        await ends.remove(request)?.relay(method, request);
        break;
      case "deliverRelayed": {
        const workers = this.#rooms.get(request.roomId)?.workers ?? [];
        await Promise.all(workers.map((worker) => worker.relay(method, request)));
        break;
      }
    }
  }

  /** The open links, which a control plane requests after its start. */
  get openedLinks(): OpenedLink[] {
    return this.#linkEnds.describe();
  }

  async room(request: RoomRef): Promise<MediaResponse<"room">> {
    const workers = this.#rooms.get(request.roomId)?.workers ?? [];
    const snapshots = await Promise.all(workers.map((worker) => worker.call("room", request)));
    const found = snapshots.filter((snapshot) => snapshot !== null);
    if (found.length === 0) return null;
    return { roomId: request.roomId, participants: found.flatMap(({ participants }) => participants) };
  }

  async rooms(): Promise<{ roomId: string; participants: number }[]> {
    return [...this.#rooms].map(([roomId, room]) => ({ roomId, participants: room.size }));
  }

  async load(): Promise<NodeLoad> {
    const loads = await Promise.all(this.#workers.map((worker) => worker.call("load", undefined)));
    const refused: Record<string, number> = {};
    for (const load of loads)
      for (const [reason, count] of Object.entries(load.refused)) refused[reason] = (refused[reason] ?? 0) + count;
    const sum = (field: Exclude<keyof NodeLoad, "cpuPercent" | "memoryPercent" | "refused" | "relays">) =>
      loads.reduce((total, load) => total + load[field], 0);
    return {
      rooms: this.#rooms.size,
      participants: [...this.#rooms.values()].reduce((total, room) => total + room.size, 0),
      cpuPercent: most([this.#cpuPercent(), ...loads.map(({ cpuPercent }) => cpuPercent)]),
      memoryPercent: memoryPercent(),
      networkInBps: Math.round(sum("networkInBps")),
      networkOutBps: Math.round(sum("networkOutBps")),
      packetsIn: sum("packetsIn"),
      packetsOut: sum("packetsOut"),
      nacksIn: sum("nacksIn"),
      nacksOut: sum("nacksOut"),
      keyframesIn: sum("keyframesIn"),
      keyframesOut: sum("keyframesOut"),
      refused,
      relays: {
        links: this.#links.size + this.#linkEnds.size,
        streams: loads.reduce((total, { relays }) => total + (relays?.streams ?? 0), 0),
      },
    };
  }

  /** The CPU time of the whole process since the last call, relative to all cores. */
  #cpuPercent(): number | null {
    const { user, system } = process.cpuUsage();
    const sample = { atMs: performance.now(), micros: user + system };
    const before = this.#cpu;
    this.#cpu = sample;
    if (!before) return null;
    const available = (sample.atMs - before.atMs) * 1_000 * Math.max(1, cpus().length);
    return available > 0 ? Math.min(100, ((sample.micros - before.micros) / available) * 100) : null;
  }

  onEvent(listener: (event: MediaEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async close(): Promise<void> {
    this.#rooms.clear();
    await Promise.all(this.#workers.map((worker) => worker.close()));
    // The library is closed once, even if this is called repeatedly.
    if (this.#workers.length > 0) this.#library?.close();
    this.#workers.length = 0;
    this.#listeners.clear();
  }
}

/** Null when memory use cannot be read: Bun opens a file for it, which fails without a free descriptor. */
function memoryPercent(): number | null {
  try {
    return Math.min(100, (process.memoryUsage.rss() / totalmem()) * 100);
  } catch {
    return null;
  }
}

/** The largest known value. */
function most(values: readonly (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length === 0 ? null : Math.max(...known);
}
