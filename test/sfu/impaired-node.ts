/** A media node in this thread, with a bad network between its socket and chosen clients. */

import { Impairment, type ImpairmentOptions } from "../../src/kernel/net/impairment.ts";
import type { MediaEvent, MediaMethod, MediaNode, MediaRequest, MediaResponse } from "../../src/protocol/media-node.ts";
import { Engine } from "../../src/sfu/engine.ts";
import type { FastPath } from "../../src/sfu/fast-path/fast-path.ts";
import type { Impair } from "../../src/sfu/transport/udp.ts";
import type { WorkerCall, WorkerSettings } from "../../src/sfu/worker-protocol.ts";
import { libraryUnderTest } from "./fast-path/both-paths.ts";

const PUMP_MS = 2;

/** One direction of the path to every client, or to those of the given ports. */
class Link {
  readonly #queues = new Map<number, Impairment<() => void>>();
  #options: ImpairmentOptions = {};
  #ports: ReadonlySet<number> | null = null;
  readonly #seed: number;

  constructor(seed: number) {
    this.#seed = seed;
  }

  set(options: ImpairmentOptions, ports: number[] | null): void {
    this.#options = options;
    this.#ports = ports && new Set(ports);
    for (const [port, queue] of this.#queues) queue.set(this.#isAffected(port) ? options : {});
  }

  #isAffected(port: number): boolean {
    return this.#ports === null || this.#ports.has(port);
  }

  readonly impair: Impair = (data, port, deliver) => {
    let queue = this.#queues.get(port);
    if (!queue) {
      queue = new Impairment(this.#seed + port, this.#isAffected(port) ? this.#options : {});
      this.#queues.set(port, queue);
    }
    const copy = data.slice();
    queue.push(() => deliver(copy), data.length, performance.now());
    for (const due of queue.takeDue(performance.now())) due();
  };

  pump(): void {
    for (const queue of this.#queues.values()) for (const due of queue.takeDue(performance.now())) due();
  }
}

export type ImpairedNode = MediaNode & {
  /** Towards the clients; `ports` are theirs, all when null. */
  impairDown(options: ImpairmentOptions, ports?: number[] | null): void;
  impairUp(options: ImpairmentOptions, ports?: number[] | null): void;
};

export async function startImpairedNode(
  seed = 1,
  settings: Partial<WorkerSettings> = {},
  path?: FastPath,
  now?: () => number,
): Promise<ImpairedNode> {
  const listeners = new Set<(event: MediaEvent) => void>();
  const down = new Link(seed);
  const up = new Link(seed + 1);
  const engine = await Engine.start(
    {
      hostname: "127.0.0.1",
      port: 0,
      announce: ["127.0.0.1"],
      tcp: false,
      srtpProfiles: ["AEAD_AES_128_GCM", "AES_CM_128_HMAC_SHA1_80"],
      nativeLibrary: await libraryUnderTest(),
      ...settings,
    },
    {
      emit: (event) => {
        for (const listener of listeners) listener(event);
      },
      onFault: (error) => {
        throw error;
      },
    },
    { impairIn: up.impair, impairOut: down.impair, ...(path ? { path } : {}), ...(now ? { now } : {}) },
  );
  const pump = setInterval(() => {
    up.pump();
    down.pump();
  }, PUMP_MS);
  const call = async <M extends MediaMethod>(method: M, request: MediaRequest<M>): Promise<MediaResponse<M>> =>
    engine.call({ type: "call", id: 0, method, request } as WorkerCall) as MediaResponse<M>;
  return {
    openRoom: (request) => call("openRoom", request),
    closeRoom: (request) => call("closeRoom", request),
    addParticipant: (request) => call("addParticipant", request),
    removeParticipant: (request) => call("removeParticipant", request),
    setPermissions: (request) => call("setPermissions", request),
    negotiate: (request) => call("negotiate", request),
    updateSubscriptions: (request) => call("updateSubscriptions", request),
    setTrackMuted: (request) => call("setTrackMuted", request),
    unpublish: (request) => call("unpublish", request),
    sendData: (request) => call("sendData", request),
    startRecording: (request) => call("startRecording", request),
    stopRecording: (request) => call("stopRecording", request),
    setNetwork: (request) => call("setNetwork", request),
    limitDownlink: (request) => call("limitDownlink", request),
    flight: (request) => call("flight", request),
    room: (request) => call("room", request),
    rooms: () => call("rooms", undefined),
    load: () => call("load", undefined),
    linkPoint: async () => {
      throw new Error("one engine has no links");
    },
    relay: async () => {},
    onEvent(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    async close() {
      clearInterval(pump);
      engine.close();
    },
    impairDown: (options, ports = null) => down.set(options, ports),
    impairUp: (options, ports = null) => up.set(options, ports),
  };
}

/** The port a participant's packets come from. */
export async function portOf(node: MediaNode, roomId: string, identity: string): Promise<number> {
  const room = await node.room({ roomId });
  const address = room?.participants.find((p) => p.identity === identity)?.transport.remoteAddress ?? "";
  return Number(address.split(":").at(-1));
}
