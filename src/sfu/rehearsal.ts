/**
 * A fresh worker interprets its code, and what makes it fast costs as much again as the packets of its first room. So two short
 * calls are played to engines of their own before there is one: a publisher, two viewers, their reports, and twenty seconds of time.
 * Nothing of it leaves the process, and nothing of it stays but code that has been compiled.
 */
import type { Permissions } from "../protocol/room-records.ts";
import { Engine } from "./engine.ts";
import { type PacketPath, type SendDirectly, typescriptPath } from "./forwarding/packet-path.ts";
import { SEND_SLOT_BYTES, type SendBatch } from "./forwarding/send-batch.ts";
import { openNativePath } from "./native/native-path.ts";
import { ADDRESS, RehearsalPeer, type Stream } from "./rehearsal-peer.ts";
import { type SrtpMasterKey, SrtpSender } from "./srtp/srtp.ts";
import { masterSaltBytes } from "./srtp/srtp-keys.ts";
import type { DtlsOptions } from "./transport/dtls.ts";
import type { Impair } from "./transport/udp.ts";
import type { WorkerCall, WorkerSettings } from "./worker-protocol.ts";

const ROOM = "rehearsal";
const VIEWERS = 2;
/** Frames of all pictures, with sound and reports in between, each so long after the one before. */
export const FRAMES = 800;
/** In turns: code that has seen one call is compiled for the objects of that one, and thrown away with the first real call. */
const CALLS = 2;
const FRAME_MS = 50;
const PACKETS_A_FRAME = 10;
const KEYFRAME_EVERY = 60;
const REPORT_EVERY = 20;
/** Others who use this core wait no longer than this takes, about a millisecond, and as long again is left to them. */
const FRAMES_AT_ONCE = 4;
const PAUSE_MS = 2;
const PERMISSIONS: Permissions = {
  ...{ join: true, subscribe: true, publish: true, publishAudio: false, publishVideo: false },
  ...{ publishData: true, updateMetadata: true },
};

/** Until all is played, or `isOver`. */
export async function rehearse(
  settings: WorkerSettings,
  onFault: (error: unknown) => void,
  isOver: () => boolean,
): Promise<void> {
  const calls: Rehearsal[] = [];
  try {
    while (calls.length < CALLS) calls.push(await Rehearsal.begin(settings, onFault));
    for (let frame = 0; frame < FRAMES && !isOver(); frame++) {
      await calls[frame % CALLS]?.play(Math.floor(frame / CALLS));
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
  readonly #engine: Engine;
  readonly #clock: { ms: number };
  readonly #publisher: RehearsalPeer;
  readonly #viewers: RehearsalPeer[] = [];
  readonly #audio: Stream = { kind: "audio", ssrc: 6, sequenceNumber: 1, timestamp: 0 };
  readonly #payload = new Uint8Array(1_000);
  readonly #silence = new Uint8Array(100);
  readonly #video: Stream = { kind: "video", ssrc: 7, sequenceNumber: 1, timestamp: 0 };

  static async begin(settings: WorkerSettings, onFault: (error: unknown) => void): Promise<Rehearsal> {
    const clock = { ms: performance.timeOrigin };
    const [profile = "AEAD_AES_128_GCM"] = settings.srtpProfiles;
    const master = { profile, key: new Uint8Array(16), salt: new Uint8Array(masterSaltBytes(profile)) };
    let call: Rehearsal | null = null;
    const output = outputOf(settings, (data, port) => call?.arrived(data, port));
    const engine = await Engine.start(
      { ...settings, hostname: ADDRESS, port: 0, announce: [ADDRESS], tcp: false },
      { emit() {}, onFault },
      {
        ...output,
        now: () => clock.ms,
        openDtls: (options) => new AgreedKeys(options, master),
      },
    );
    call = new Rehearsal(engine, clock, () => new SrtpSender(master, output.path.createCipher));
    return call;
  }

  private constructor(engine: Engine, clock: { ms: number }, createSender: () => SrtpSender) {
    this.#engine = engine;
    this.#clock = clock;
    this.#call("openRoom", { roomId: ROOM });
    this.#publisher = this.#admit(1, createSender());
    const { tracks } = this.#publisher.join(ROOM, {
      publish: [
        { mid: "0", clientTrackId: "audio", kind: "audio", source: "microphone" },
        { mid: "1", clientTrackId: "video", kind: "video", source: "camera" },
      ],
      subscribe: [],
    });
    const subscribe = tracks.map(({ trackId }, mid) => ({ mid: `${mid}`, trackId }));
    for (let i = 0; i < VIEWERS; i++) {
      const viewer = this.#admit(2 + i, createSender());
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
      },
      port,
      sender,
    );
    const { id } = peer;
    this.#call("addParticipant", { roomId: ROOM, participantId: id, identity: id, permissions: PERMISSIONS });
    return peer;
  }

  #call<M extends WorkerCall["method"]>(method: M, request: Extract<WorkerCall, { method: M }>["request"]): unknown {
    return this.#engine.call({ type: "call", id: 0, method, request } as WorkerCall);
  }

  arrived(data: Uint8Array, port: number): void {
    const viewer = this.#viewers.find((other) => other.port === port);
    if (!viewer) this.toPublisher++;
    else if (viewer.receive(data, this.#clock.ms)) this.toViewers++;
  }

  /** A frame in one turn of the loop, and sound in others, as browsers send them. */
  async play(frame: number): Promise<void> {
    this.#clock.ms += FRAME_MS - 20;
    this.#picture(frame % KEYFRAME_EVERY === 0);
    await endOfTurn();
    this.#clock.ms += 10;
    this.#sound();
    await endOfTurn();
    this.#clock.ms += 10;
    this.#sound();
    for (const viewer of this.#viewers) viewer.sendTransportFeedback();
    if (frame % REPORT_EVERY === 0) this.#report();
    await endOfTurn();
  }

  #picture(isKeyframe: boolean): void {
    const video = this.#video;
    video.timestamp += FRAME_MS * 90;
    for (let i = 0; i < PACKETS_A_FRAME; i++) {
      const payload = this.#payload;
      payload.set([i === 0 ? 0x90 : 0x80, 0x80, 0x80, 1, isKeyframe && i === 0 ? 0x10 : 0x11, 0, 0, 0x9d, 1, 0x2a]);
      this.#publisher.sendRtp(video, payload, i === PACKETS_A_FRAME - 1);
    }
  }

  #sound(): void {
    this.#audio.timestamp += (FRAME_MS * 48) / 2;
    this.#publisher.sendRtp(this.#audio, this.#silence, false);
  }

  #report(): void {
    for (const stream of [this.#audio, this.#video]) this.#publisher.sendSenderReport(stream, this.#clock.ms);
    for (const viewer of this.#viewers) viewer.sendReceiverReport(1);
  }

  /** Keys and buffers go with the engine. */
  close(): void {
    this.#engine.close();
  }
}

/** Native code sends to a descriptor that is none, and a socket not at all: all before that is as ever. */
function outputOf(
  { nativeLibrary }: WorkerSettings,
  onSent: (data: Uint8Array, port: number) => void,
): { path: PacketPath; impairOut?: Impair } {
  if (!nativeLibrary) return { path: typescriptPath, impairOut: (data, port) => onSent(data, port) };
  const path = openNativePath(nativeLibrary);
  const { send } = path;
  const nowhere: SendDirectly = (_socket, batch, count) => {
    for (let i = 0; i < count; i++) onSent(packetOf(batch, i), batch.port(i));
    return send?.({ fd: -1, isV6: false }, batch, count) ?? true;
  };
  // The same object, so that code which is compiled now knows it again.
  return { path: Object.assign(path, { send: nowhere }) };
}

function packetOf(batch: SendBatch, slot: number): Uint8Array {
  return batch.arena.subarray(slot * SEND_SLOT_BYTES, slot * SEND_SLOT_BYTES + batch.length(slot));
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

function endOfTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
