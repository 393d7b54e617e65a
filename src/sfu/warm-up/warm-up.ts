/**
 * The JIT warm-up: a fresh worker interprets its code, and compiling it costs as much again as the packets of its first room. So the
 * worker plays two short calls to engines of its own before there is one: a publisher, four viewers, their reports and checks. All of it
 * stays on loopback, and nothing of it remains but compiled code.
 */
import type { Negotiate } from "../../protocol/media-node.ts";
import type { Permissions } from "../../protocol/room-records.ts";
import { Engine, type EngineOutput } from "../engine.ts";
import { typescriptPath } from "../fast-path/fast-path.ts";
import { openNativePath } from "../fast-path/native-path.ts";
import { clockAhead } from "../ticker.ts";
import { AgreedKeys } from "../transport/agreed-keys.ts";
import { SrtpSender } from "../wire/srtp/srtp.ts";
import { masterSaltBytes } from "../wire/srtp/srtp-cipher.ts";
import type { WorkerCall, WorkerSettings } from "../worker-protocol.ts";
import { ADDRESS, type Stream, WarmUpPeer } from "./warm-up-peer.ts";

const ROOM = "warm-up";
const VIEWERS = 4;
const FRAMES = 1_200;

type Layer = { rid: string; packets: number; bytes: number; height: number };
/**
 * Publishers send video in one size, or in three as browsers do. The two calls alternate, because code that has seen only one of
 * them is compiled for its objects alone, and discarded with the first real call.
 */
export const CALLS: readonly (readonly Layer[])[] = [
  [{ rid: "", packets: 10, bytes: 1_000, height: 720 }],
  [
    { rid: "q", packets: 1, bytes: 350, height: 180 },
    { rid: "h", packets: 3, bytes: 700, height: 360 },
    { rid: "f", packets: 6, bytes: 1_000, height: 720 },
  ],
];
/**
 * The clock runs ahead by this much between two steps, because code that runs ten times a second is compiled only after thousands
 * of runs.
 */
const STEP_MS = 100;
const FRAME_MS = 3 * STEP_MS;
/** Browsers name their layers until the server has reported on them. */
const NAMED_FRAMES = 20;
const KEYFRAME_EVERY = 60;
const REPORT_EVERY = 20;
/** In a real worker the event loop itself also receives some packets. */
const EVENT_LOOP_EVERY = 4;
/** Browsers begin with random numbers; code that has only seen small ones is compiled for those alone. */
const LARGE = { ssrc: 0xf0000006, sequenceNumber: 1, timestamp: 0xfff00000, rid: 0 };
/** Other threads wait at most as long as these frames take, about a millisecond, and then get as much time themselves. */
const FRAMES_AT_ONCE = 4;
const PAUSE_MS = 2;
/** A step ends once the engine has received nothing for this many rounds of the event loop, or after MAX_ROUNDS. */
const QUIET_ROUNDS = 2;
const MAX_ROUNDS = 100;
const SUBSCRIPTIONS = [{}, { layer: "high" }, { maxHeight: 360 }, { layer: "low" }] as const;
const PERMISSIONS: Permissions = {
  join: true,
  subscribe: true,
  publish: true,
  publishAudio: false,
  publishVideo: false,
  publishData: true,
  updateMetadata: true,
};

/** The functions of the worker itself, so that compiled code stays valid. Events are discarded. */
type WarmUpOutput = Pick<EngineOutput, "onFault" | "beat">;

/** Resolves when everything has been played, or when `isOver` returns true. */
export async function warmUp(settings: WorkerSettings, output: WarmUpOutput, isOver: () => boolean): Promise<void> {
  const calls: WarmUpCall[] = [];
  try {
    for (const layers of CALLS) calls.push(await WarmUpCall.start(settings, output, layers));
    for (let frame = 0; frame < FRAMES && !isOver(); frame++) {
      await calls[frame % calls.length]?.play(Math.floor(frame / calls.length));
      if (frame % FRAMES_AT_ONCE === 0) await Bun.sleep(PAUSE_MS);
    }
  } finally {
    for (const call of calls) call.close();
    Bun.gc(true);
  }
}

export class WarmUpCall {
  readonly engine: Engine;
  readonly viewers: readonly WarmUpPeer[];
  readonly publisher: WarmUpPeer;
  readonly #peers: readonly WarmUpPeer[];
  readonly #ahead: { ms: number };
  readonly #audio: Stream = { kind: "audio", ...LARGE };
  readonly #audioPayload = new Uint8Array(100);
  readonly #video: { layer: Layer; stream: Stream; payload: Uint8Array }[];
  /** Runs the receive loop of the engine step by step, because a blocked thread could not send the next packets. */
  #runLoop: (() => void) | null = null;

  static async start(
    settings: WorkerSettings,
    output: WarmUpOutput,
    layers: readonly Layer[],
    path = settings.nativeLibrary ? openNativePath(settings.nativeLibrary) : typescriptPath,
  ): Promise<WarmUpCall> {
    const ahead = { ms: 0 };
    const now = clockAhead(ahead);
    const [profile = "AEAD_AES_128_GCM"] = settings.srtpProfiles;
    const master = { profile, key: new Uint8Array(16), salt: new Uint8Array(masterSaltBytes(profile)) };
    let call: WarmUpCall | null = null;
    const engine = await Engine.start(
      { ...settings, hostname: ADDRESS, port: 0, announce: [ADDRESS], tcp: false, succeeds: undefined },
      { ...output, emit: () => {} },
      {
        path,
        now,
        usesReceiveLoop: true,
        scheduleLoop: (run) => call?.scheduleLoop(run),
        openDtls: (options) => new AgreedKeys(options, { incoming: master, outgoing: master }),
      },
    );
    const open = (id: string) =>
      WarmUpPeer.open(id, {
        enginePort: engine.port,
        now,
        srtp: new SrtpSender(master, path.createCipher),
        negotiate: (request) => callEngine(engine, "negotiate", request) as ReturnType<WarmUpPeer["join"]>,
      });
    const peers = await Promise.all(Array.from({ length: 1 + VIEWERS }, (_, i) => open(`peer-${i}`)));
    call = new WarmUpCall(engine, ahead, layers, peers);
    return call;
  }

  private constructor(engine: Engine, ahead: { ms: number }, layers: readonly Layer[], peers: WarmUpPeer[]) {
    const [publisher, ...viewers] = peers as [WarmUpPeer, ...WarmUpPeer[]];
    this.engine = engine;
    this.#ahead = ahead;
    this.publisher = publisher;
    this.viewers = viewers;
    this.#peers = peers;
    this.#video = layers.map((layer, i) => ({
      layer,
      stream: { kind: "video", ...LARGE, ssrc: LARGE.ssrc + 1 + i },
      payload: new Uint8Array(layer.bytes),
    }));
    callEngine(engine, "openRoom", { roomId: ROOM });
    for (const { id } of peers)
      callEngine(engine, "addParticipant", { roomId: ROOM, participantId: id, identity: id, permissions: PERMISSIONS });
    const publish: Negotiate["publish"] = [
      { mid: "0", clientTrackId: "audio", kind: "audio", source: "microphone" },
      { mid: "1", clientTrackId: "video", kind: "video", source: "camera" },
    ];
    const rids = layers.map(({ rid }) => rid).filter(Boolean);
    const { tracks } = publisher.join(ROOM, { publish, subscribe: [] }, rids);
    for (const [i, viewer] of viewers.entries()) {
      const settings = SUBSCRIPTIONS[i % SUBSCRIPTIONS.length];
      const subscribe = tracks.map(({ trackId }, mid) => ({ mid: `${mid}`, trackId, ...settings }));
      viewer.join(ROOM, { publish: [], subscribe });
    }
  }

  scheduleLoop(run: () => void): void {
    this.#runLoop = run;
  }

  /** Plays a frame in one step and audio in two others, as browsers send them. */
  async play(frame: number): Promise<void> {
    const usesLoop = frame % EVENT_LOOP_EVERY !== 0;
    this.#ahead.ms += STEP_MS;
    this.#sendFrame(frame);
    await this.#settle(usesLoop);
    this.#ahead.ms += STEP_MS;
    this.#sendAudio();
    await this.#settle(usesLoop);
    this.#ahead.ms += STEP_MS;
    this.#sendAudio();
    for (const viewer of this.viewers) viewer.sendTransportFeedback();
    this.viewers[frame % VIEWERS]?.sendCheck();
    if (frame % REPORT_EVERY === 0) this.#sendReports();
    await this.#settle(usesLoop);
  }

  /** Waits until all packets in flight, and the responses to them, have been received. */
  async #settle(usesLoop: boolean): Promise<void> {
    for (let quiet = 0, rounds = 0; quiet < QUIET_ROUNDS && rounds < MAX_ROUNDS; rounds++) {
      const sent = this.#peers.reduce((sum, peer) => sum + peer.sent, 0);
      quiet = this.engine.packetsIn >= sent ? quiet + 1 : 0;
      if (usesLoop && quiet === 0) {
        // If a tick is due, the first run only ticks, without waiting.
        this.#runScheduledLoop();
        this.#runScheduledLoop();
      }
      await new Promise(setImmediate);
    }
  }

  #runScheduledLoop(): void {
    const run = this.#runLoop;
    if (!run) return;
    this.#runLoop = null;
    // A datagram for the event loop ends the wait as soon as the engine has received all of its own.
    this.publisher.sendTo(this.viewers[0]);
    run();
  }

  #sendFrame(frame: number): void {
    const keyframe = frame % KEYFRAME_EVERY === 0 ? 0x10 : 0x11;
    for (const { layer, stream, payload } of this.#video) {
      stream.rid = frame < NAMED_FRAMES ? layer.rid.charCodeAt(0) || 0 : 0;
      stream.timestamp = (stream.timestamp + FRAME_MS * 90) >>> 0;
      for (let i = 0; i < layer.packets; i++) {
        payload.set([i === 0 ? 0x90 : 0x80, 0x80, 0x80, 1, i === 0 ? keyframe : 0x11, 0, 0, 0x9d, 1, 0x2a]);
        payload.set([layer.height & 0xff, layer.height >> 8, layer.height & 0xff, layer.height >> 8], 10);
        this.publisher.sendRtp(stream, payload, i === layer.packets - 1);
      }
    }
  }

  #sendAudio(): void {
    this.#audio.timestamp = (this.#audio.timestamp + (FRAME_MS * 48) / 2) >>> 0;
    this.publisher.sendRtp(this.#audio, this.#audioPayload, false);
  }

  #sendReports(): void {
    for (const stream of [this.#audio, ...this.#video.map((one) => one.stream)])
      this.publisher.sendSenderReport(stream);
    for (const viewer of this.viewers) viewer.sendReceiverReport();
  }

  close(): void {
    this.engine.close();
    for (const peer of this.#peers) peer.close();
  }
}

/** Clones the message, as it comes from another thread: its strings are compared in another way than those of this code. */
function callEngine<M extends WorkerCall["method"]>(
  engine: Engine,
  method: M,
  request: Extract<WorkerCall, { method: M }>["request"],
): unknown {
  return engine.call(structuredClone({ type: "call", id: 0, method, request } as WorkerCall));
}
