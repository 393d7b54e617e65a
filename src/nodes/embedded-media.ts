/** The media node inside this process: one worker thread per core; every room is pinned to one worker. */
import { cpus, totalmem } from "node:os";
import type { NodeLoad } from "../protocol/media/node-load.ts";
import {
  type AddParticipant,
  MediaError,
  type MediaEvent,
  type MediaMethod,
  type MediaNode,
  type MediaRequest,
  type MediaResponse,
  type ParticipantRef,
  type RoomRef,
} from "../protocol/media-node.ts";
import type { SrtpProfile } from "../sfu/wire/srtp/srtp.ts";
import { MediaWorker } from "./media-worker.ts";
import { type FanOutChoice, findNativeLibrary, type NativeLibrary } from "./native-library.ts";

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
  /** Uses native code by default, if it is available. */
  fanOut?: FanOutChoice;
  /** The accepted profiles; all by default. */
  srtpProfiles?: SrtpProfile[];
};

export type EmbeddedMediaOptions = ListenOptions & { workers: number; log: MediaLog };

const MAX_MEMORY_MB = 2048;
const ALL_PROFILES: SrtpProfile[] = ["AEAD_AES_128_GCM", "AES_CM_128_HMAC_SHA1_80"];

export class EmbeddedMedia implements MediaNode {
  readonly #workers: MediaWorker[] = [];
  /** The worker and participants of each room, which are lost when the worker crashes. */
  readonly #rooms = new Map<string, { worker: MediaWorker; participants: Set<string> }>();
  readonly #listeners = new Set<(event: MediaEvent) => void>();
  readonly #log: MediaLog;
  #library: NativeLibrary | null = null;
  #cpu: { atMs: number; micros: number } | null = null;

  static async start({ workers, log, ...options }: EmbeddedMediaOptions): Promise<EmbeddedMedia> {
    const media = EmbeddedMedia.spawn(workers, log);
    await media.listen(options);
    return media;
  }

  /** The threads start to load their code; `listen` starts the workers. */
  static spawn(workers: number, log: MediaLog): EmbeddedMedia {
    const media = new EmbeddedMedia(log);
    for (let index = 0; index < workers; index++) {
      const worker = new MediaWorker(index, {
        onEvent: (event) => media.#emit(event),
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
    const { port, fanOut = "auto", srtpProfiles = ALL_PROFILES, maxMemoryMb = MAX_MEMORY_MB, ...settings } = options;
    if (this.#workers.length === 0) throw new Error("the media node is closed");
    try {
      this.#library = await findNativeLibrary(fanOut, this.#log);
      const nativeLibrary = this.#library?.path;
      await Promise.all(
        this.#workers.map((worker) =>
          worker.start({
            ...settings,
            srtpProfiles,
            maxMemoryMb,
            nativeLibrary,
            port: port === 0 ? 0 : port + worker.index,
          }),
        ),
      );
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  /** UDP (and TCP) ports in use, one per worker. */
  get ports(): number[] {
    return this.#workers.map((worker) => worker.port);
  }

  #emit(event: MediaEvent): void {
    for (const listener of this.#listeners) listener(event);
  }

  #crashed(worker: MediaWorker): void {
    const rooms: { roomId: string; participantIds: string[] }[] = [];
    for (const [roomId, room] of this.#rooms) {
      if (room.worker !== worker) continue;
      rooms.push({ roomId, participantIds: [...room.participants] });
      this.#rooms.delete(roomId);
    }
    this.#emit({ type: "workerCrashed", worker: worker.index, rooms });
  }

  /** The worker with the fewest participants, which determine the load. */
  #leastLoaded(): MediaWorker {
    const load = new Map(this.#workers.map((worker) => [worker, 0]));
    for (const room of this.#rooms.values())
      load.set(room.worker, (load.get(room.worker) ?? 0) + room.participants.size + 1);
    const [first] = [...load].sort(([, a], [, b]) => a - b);
    if (!first) throw new MediaError("RTC_SERVER_UNREACHABLE", "The media node is closed.");
    return first[0];
  }

  #call<M extends MediaMethod>(method: M, request: MediaRequest<M> & RoomRef): Promise<MediaResponse<M>> {
    const room = this.#rooms.get(request.roomId);
    if (!room) return Promise.reject(new MediaError("ROOM_NOT_FOUND", "The room is not open on this node."));
    return room.worker.call(method, request);
  }

  async openRoom(request: MediaRequest<"openRoom">): Promise<void> {
    if (this.#rooms.has(request.roomId)) return;
    const worker = this.#leastLoaded();
    this.#rooms.set(request.roomId, { worker, participants: new Set() });
    await worker.call("openRoom", request);
  }

  async closeRoom(request: RoomRef): Promise<void> {
    const room = this.#rooms.get(request.roomId);
    this.#rooms.delete(request.roomId);
    await room?.worker.call("closeRoom", request);
  }

  async addParticipant(request: AddParticipant): Promise<void> {
    this.#rooms.get(request.roomId)?.participants.add(request.participantId);
    await this.#call("addParticipant", request);
  }

  async removeParticipant(request: ParticipantRef): Promise<void> {
    const room = this.#rooms.get(request.roomId);
    room?.participants.delete(request.participantId);
    await room?.worker.call("removeParticipant", request);
  }

  setPermissions = (request: MediaRequest<"setPermissions">) => this.#call("setPermissions", request);
  negotiate = (request: MediaRequest<"negotiate">) => this.#call("negotiate", request);
  updateSubscriptions = (request: MediaRequest<"updateSubscriptions">) => this.#call("updateSubscriptions", request);
  setTrackMuted = (request: MediaRequest<"setTrackMuted">) => this.#call("setTrackMuted", request);
  unpublish = (request: MediaRequest<"unpublish">) => this.#call("unpublish", request);
  setNetwork = (request: MediaRequest<"setNetwork">) => this.#call("setNetwork", request);
  flight = (request: ParticipantRef) => this.#call("flight", request);
  sendData = (request: MediaRequest<"sendData">) => this.#call("sendData", request);
  startRecording = (request: MediaRequest<"startRecording">) => this.#call("startRecording", request);
  stopRecording = (request: MediaRequest<"stopRecording">) => this.#call("stopRecording", request);

  async room(request: RoomRef): Promise<MediaResponse<"room">> {
    const room = this.#rooms.get(request.roomId);
    return room ? room.worker.call("room", request) : null;
  }

  async rooms(): Promise<{ roomId: string; participants: number }[]> {
    return [...this.#rooms].map(([roomId, room]) => ({ roomId, participants: room.participants.size }));
  }

  async load(): Promise<NodeLoad> {
    const loads = await Promise.all(this.#workers.map((worker) => worker.call("load", undefined)));
    const refused: Record<string, number> = {};
    for (const load of loads)
      for (const [reason, count] of Object.entries(load.refused)) refused[reason] = (refused[reason] ?? 0) + count;
    const sum = (field: Exclude<keyof NodeLoad, "cpuPercent" | "memoryPercent" | "refused">) =>
      loads.reduce((total, load) => total + load[field], 0);
    return {
      rooms: this.#rooms.size,
      participants: [...this.#rooms.values()].reduce((total, room) => total + room.participants.size, 0),
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
