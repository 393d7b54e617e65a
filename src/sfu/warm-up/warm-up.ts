/**
 * A fresh worker interprets its code, and what makes it fast costs as much again as the packets of its first room. So two short
 * calls are played to engines of their own before there is one: a publisher, four viewers, their reports and checks, and three
 * minutes of time each. Nothing of it leaves the process, and nothing of it stays but code that has been compiled.
 */
import type { Negotiate } from "../../protocol/media-node.ts";
import type { Permissions } from "../../protocol/room-records.ts";
import { Engine, type EngineOutput } from "../engine.ts";
import { openNativePath } from "../fast-path/native-path.ts";
import { type PacketPath, type SendDirectly, typescriptPath } from "../forwarding/packet-path.ts";
import { clockAhead } from "../pace.ts";
import type { DtlsOptions } from "../transport/dtls.ts";
import type { Impair } from "../transport/udp.ts";
import { type SrtpMasterKey, SrtpSender } from "../wire/srtp/srtp.ts";
import { masterSaltBytes } from "../wire/srtp/srtp-cipher.ts";
import { isStun } from "../wire/stun/stun.ts";
import type { WorkerCall, WorkerSettings } from "../worker-protocol.ts";
import { ADDRESS, RehearsalPeer, type Stream } from "./warm-up-peer.ts";
import { packetOf, RehearsalWire, standIn } from "./warm-up-wire.ts";

const ROOM = "rehearsal";
const VIEWERS = 4;
/** Frames of all pictures, with sound and reports in between. */
export const FRAMES = 1_200;
/**
 * What publishers send a picture in: once, or in three sizes as browsers do. In turns: code that has seen one call is compiled
 * for the objects of that one, and thrown away with the first real call.
 */
export const CALLS: readonly (readonly Layer[])[] = [
  [{ rid: "", packets: 10, bytes: 1_000, height: 720 }],
  [
    { rid: "q", packets: 1, bytes: 350, height: 180 },
    { rid: "h", packets: 3, bytes: 700, height: 360 },
    { rid: "f", packets: 6, bytes: 1_000, height: 720 },
  ],
];
type Layer = { rid: string; packets: number; bytes: number; height: number };
/**
 * What is done now and then for each viewer, every tenth of a second and with every report, is compiled the last time after
 * thousands of each: so long passes from one turn to the next, and two packets are worth a report.
 */
const TURN_MS = 100;
const FRAME_MS = 3 * TURN_MS;
/** Browsers name their layers until they hear that these have come. */
const NAMED_FRAMES = 20;
const KEYFRAME_EVERY = 60;
const REPORT_EVERY = 20;
/** Now and then the loop of a real worker is awake, and takes packets itself. */
const AWAKE_EVERY = 4;
/** Browsers begin anywhere: code that has seen small numbers only is compiled for these alone. Time begins anew on the way. */
const LARGE = { ssrc: 0xf0000006, sequenceNumber: 1, timestamp: 0xfff00000, rid: 0 };
/** Others who use this core wait no longer than this takes, about a millisecond, and as long again is left to them. */
const FRAMES_AT_ONCE = 4;
const PAUSE_MS = 2;
/** Those who insist on something, and those who do not. */
const WISHES = [{}, { layer: "high" }, { maxHeight: 360 }, { layer: "low" }] as const;
const PERMISSIONS: Permissions = {
  ...{ join: true, subscribe: true, publish: true, publishAudio: false, publishVideo: false },
  ...{ publishData: true, updateMetadata: true },
};

type RehearsalParts = { engine: Engine; wire: RehearsalWire; ahead: { ms: number }; layers: readonly Layer[] };

/** The worker's own, so that compiled code knows it again. Events are nobody's. */
type RehearsalOutput = Pick<EngineOutput, "onFault" | "beat">;

/** Until all is played, or `isOver`. */
export async function rehearse(
  settings: WorkerSettings,
  output: RehearsalOutput,
  isOver: () => boolean,
): Promise<void> {
  const calls: Rehearsal[] = [];
  try {
    for (const layers of CALLS) calls.push(await Rehearsal.begin(settings, output, layers));
    for (let frame = 0; frame < FRAMES && !isOver(); frame++) {
      await calls[frame % calls.length]?.play(Math.floor(frame / calls.length));
      if (frame % FRAMES_AT_ONCE === 0) await Bun.sleep(PAUSE_MS);
    }
  } finally {
    for (const call of calls) call.close();
    Bun.gc(true);
  }
}

export class Rehearsal {
  /** Packets of media that would have been sent to viewers, and of control to the publisher. */
  toViewers = 0;
  toPublisher = 0;
  /** Checks of viewers that would have been answered. */
  answers = 0;
  #isAwake = false;
  readonly #engine: Engine;
  readonly #wire: RehearsalWire;
  readonly #ahead: { ms: number };
  readonly #now: () => number;
  readonly #publisher: RehearsalPeer;
  readonly #viewers: RehearsalPeer[] = [];
  readonly #audio: Stream = { kind: "audio", ...LARGE };
  readonly #silence = new Uint8Array(100);
  readonly #video: { layer: Layer; stream: Stream; payload: Uint8Array }[];

  static async begin(settings: WorkerSettings, output: RehearsalOutput, layers: readonly Layer[]): Promise<Rehearsal> {
    const ahead = { ms: 0 };
    const [profile = "AEAD_AES_128_GCM"] = settings.srtpProfiles;
    const master = { profile, key: new Uint8Array(16), salt: new Uint8Array(masterSaltBytes(profile)) };
    let call: Rehearsal | null = null;
    const wire = await RehearsalWire.open(1 + VIEWERS, (data, port) => call?.received(data, port));
    const way = wayOut(settings, wire, (data, port) => call?.arrived(data, port));
    const engine = await Engine.start(
      { ...settings, hostname: ADDRESS, port: 0, announce: [ADDRESS], tcp: false },
      { ...output, emit: standIn(() => {}) },
      {
        ...way,
        watches: true,
        later: wire.later,
        now: clockAhead(ahead),
        openDtls: (options) => new AgreedKeys(options, master),
      },
    );
    call = new Rehearsal({ engine, wire, ahead, layers }, () => new SrtpSender(master, way.path.createCipher));
    return call;
  }

  private constructor({ engine, wire, ahead, layers }: RehearsalParts, createSender: () => SrtpSender) {
    this.#engine = engine;
    this.#wire = wire;
    this.#ahead = ahead;
    this.#now = clockAhead(ahead);
    this.#video = layers.map((layer, i) => ({
      layer,
      stream: { kind: "video", ...LARGE, ssrc: LARGE.ssrc + 1 + i },
      payload: new Uint8Array(layer.bytes),
    }));
    this.#call("openRoom", { roomId: ROOM });
    const [port = 0, ...viewerPorts] = wire.ports;
    this.#publisher = this.#admit(port, createSender());
    const publish: Negotiate["publish"] = [
      { mid: "0", clientTrackId: "audio", kind: "audio", source: "microphone" },
      { mid: "1", clientTrackId: "video", kind: "video", source: "camera" },
    ];
    const rids = layers.map(({ rid }) => rid).filter(Boolean);
    const { tracks } = this.#publisher.join(ROOM, { publish, subscribe: [] }, rids);
    for (const [i, viewerPort] of viewerPorts.entries()) {
      const viewer = this.#admit(viewerPort, createSender());
      const subscribe = tracks.map(({ trackId }, mid) => ({ mid: `${mid}`, trackId, ...WISHES[i % WISHES.length] }));
      this.#viewers.push(viewer);
      viewer.join(ROOM, { publish: [], subscribe });
    }
  }

  #admit(port: number, sender: SrtpSender): RehearsalPeer {
    const engine = this.#engine;
    const peer = new RehearsalPeer(
      {
        negotiate: (request) => this.#call("negotiate", request) as ReturnType<RehearsalPeer["join"]>,
        receive: (data, from, address) => engine.receive(data, from, address),
        receiveBySocket: (data, from) => this.#wire.send(data, from),
      },
      port,
      sender,
    );
    const { id } = peer;
    this.#call("addParticipant", { roomId: ROOM, participantId: id, identity: id, permissions: PERMISSIONS });
    return peer;
  }

  /** As it comes from another thread: the words of such a message are compared in another way than those of this code. */
  #call<M extends WorkerCall["method"]>(method: M, request: Extract<WorkerCall, { method: M }>["request"]): unknown {
    return this.#engine.call(structuredClone({ type: "call", id: 0, method, request } as WorkerCall));
  }

  /** Packets that native code has forwarded by itself. */
  get forwarded(): number {
    return this.#wire.forwarded;
  }

  received(data: Buffer, port: number): void {
    this.#engine.receive(data, port, ADDRESS);
  }

  arrived(data: Uint8Array, port: number): void {
    const viewer = this.#viewers.find((other) => other.port === port);
    if (!viewer) this.toPublisher++;
    else if (isStun(data)) this.answers++;
    else if (viewer.receive(data, this.#now())) this.toViewers++;
  }

  /** A frame in one turn of the loop, and sound in others, as browsers send them. */
  async play(frame: number): Promise<void> {
    this.#isAwake = frame % AWAKE_EVERY === 0;
    this.#ahead.ms += TURN_MS;
    this.#picture(frame);
    await this.#endOfTurn();
    this.#ahead.ms += TURN_MS;
    this.#sound();
    await this.#endOfTurn();
    this.#ahead.ms += TURN_MS;
    this.#sound();
    for (const viewer of this.#viewers) viewer.sendTransportFeedback();
    this.#viewers[frame % VIEWERS]?.sendCheck();
    if (frame % REPORT_EVERY === 0) this.#report();
    await this.#endOfTurn();
  }

  /** And once more, for what comes of the packets. */
  async #endOfTurn(): Promise<void> {
    if (!this.#isAwake) this.#wire.watch();
    while (!this.#wire.isEmpty) await turn();
    await turn();
  }

  #picture(frame: number): void {
    const keyframe = frame % KEYFRAME_EVERY === 0 ? 0x10 : 0x11;
    for (const { layer, stream, payload } of this.#video) {
      stream.rid = frame < NAMED_FRAMES ? layer.rid.charCodeAt(0) || 0 : 0;
      stream.timestamp = (stream.timestamp + FRAME_MS * 90) >>> 0;
      for (let i = 0; i < layer.packets; i++) {
        payload.set([i === 0 ? 0x90 : 0x80, 0x80, 0x80, 1, i === 0 ? keyframe : 0x11, 0, 0, 0x9d, 1, 0x2a]);
        payload.set([layer.height & 0xff, layer.height >> 8, layer.height & 0xff, layer.height >> 8], 10);
        this.#publisher.sendRtp(stream, payload, i === layer.packets - 1);
      }
    }
  }

  #sound(): void {
    this.#audio.timestamp = (this.#audio.timestamp + (FRAME_MS * 48) / 2) >>> 0;
    this.#publisher.sendRtp(this.#audio, this.#silence, false);
  }

  #report(): void {
    for (const stream of [this.#audio, ...this.#video.map((one) => one.stream)])
      this.#publisher.sendSenderReport(stream, this.#now());
    for (const viewer of this.#viewers) viewer.sendReceiverReport();
  }

  /** Keys and buffers go with the engine. */
  close(): void {
    this.#engine.close();
    this.#wire.close();
  }
}

/** Native code sends to a descriptor that is none, and a socket not at all: all before that is as ever. */
function wayOut(
  { nativeLibrary }: WorkerSettings,
  wire: RehearsalWire,
  onSent: (data: Uint8Array, port: number) => void,
): { path: PacketPath; impairOut?: Impair } {
  if (!nativeLibrary) return { path: typescriptPath, impairOut: (data, port) => onSent(data, port) };
  const path = openNativePath(nativeLibrary);
  const { send } = path;
  wire.lead(path, onSent);
  const nowhere: SendDirectly = (_socket, batch, count) => {
    for (let i = 0; i < count; i++) onSent(packetOf(batch, i), batch.port(i));
    return send?.({ fd: -1, isV6: false }, batch, count) ?? true;
  };
  // The same object, so that code which is compiled now knows it again.
  return { path: Object.assign(path, { send: standIn(nowhere) }) };
}

/** Instead of a handshake: both sides know the key. */
class AgreedKeys {
  state: "connecting" | "connected" | "closed" = "connecting";
  readonly #options: DtlsOptions;
  readonly #master: SrtpMasterKey;

  constructor(options: DtlsOptions, master: SrtpMasterKey) {
    this.#options = options;
    this.#master = master;
  }

  receive(): void {
    if (this.state !== "connecting") return;
    this.state = "connected";
    this.#options.onConnected({ incoming: this.#master, outgoing: this.#master });
  }

  async send(): Promise<void> {}

  close(): void {
    this.state = "closed";
  }
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
