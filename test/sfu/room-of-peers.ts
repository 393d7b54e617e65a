/** A room on an engine of this thread, peopled by peers without a browser. */

import type { MediaEvent } from "../../src/protocol/media-node.ts";
import type { Permissions } from "../../src/protocol/room-records.ts";
import { type PeerOptions, RtcPeer } from "../../src/rtc-client/peer.ts";
import { RtpSource } from "../../src/rtc-client/rtp-source.ts";
import { createCertificate, type DtlsCertificate } from "../../src/sfu/werift/werift-hooks.ts";
import type { WorkerSettings } from "../../src/sfu/worker-protocol.ts";
import { type ImpairedNode, startImpairedNode } from "./impaired-node.ts";

export const ALL: Permissions = {
  join: true,
  subscribe: true,
  publish: true,
  publishAudio: false,
  publishVideo: false,
  publishData: true,
  updateMetadata: true,
};

export const ROOM = "room";
export const CAMERA = { mid: "0", clientTrackId: "camera", kind: "video", source: "camera" } as const;
export const MICROPHONE = { mid: "0", clientTrackId: "microphone", kind: "audio", source: "microphone" } as const;

/** The code with which a call was refused. */
export async function refusal(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
    return "accepted";
  } catch (error) {
    return (error as { code?: string }).code ?? String(error);
  }
}

export class RoomOfPeers {
  readonly events: MediaEvent[] = [];
  readonly #peers: RtcPeer[] = [];
  readonly #waiters = new Set<() => void>();

  /** The engine's clock is ahead of the true one by this. */
  aheadMs = 0;

  static async open(settings: Partial<WorkerSettings> = {}): Promise<RoomOfPeers> {
    let room: RoomOfPeers | null = null;
    const now = () => performance.timeOrigin + performance.now() + (room?.aheadMs ?? 0);
    const node = await startImpairedNode(1, settings, undefined, now);
    await node.openRoom({ roomId: ROOM, audibleVoices: 2 });
    room = new RoomOfPeers(node, await createCertificate());
    return room;
  }

  private constructor(
    readonly node: ImpairedNode,
    readonly certificate: DtlsCertificate,
  ) {
    node.onEvent((event) => {
      this.events.push(event);
      for (const wake of this.#waiters) wake();
    });
  }

  async join(
    identity: string,
    options: Omit<PeerOptions, "node" | "roomId" | "participantId">,
    permissions: Partial<Permissions> = {},
  ): Promise<RtcPeer> {
    await this.node.addParticipant({
      roomId: ROOM,
      participantId: identity,
      identity,
      permissions: { ...ALL, ...permissions },
    });
    const peer = await RtcPeer.create({
      node: this.node,
      roomId: ROOM,
      participantId: identity,
      certificate: this.certificate,
      ...options,
    });
    this.#peers.push(peer);
    return peer;
  }

  /** A participant with a microphone. */
  async speaker(identity: string, ssrc: number): Promise<{ peer: RtcPeer; source: RtpSource }> {
    const peer = await this.join(identity, { sections: [{ kind: "audio", direction: "sendonly" }] });
    await peer.connect([MICROPHONE], []);
    return { peer, source: new RtpSource({ ssrc, payloadType: 111, mid: "0", audioLevel: 20 }) };
  }

  /** The first such event, now or later. */
  async event<T extends MediaEvent["type"]>(
    type: T,
    matches: (event: Extract<MediaEvent, { type: T }>) => boolean = () => true,
    timeoutMs = 5_000,
  ): Promise<Extract<MediaEvent, { type: T }>> {
    return this.until(
      () =>
        this.events.find(
          (e): e is Extract<MediaEvent, { type: T }> =>
            e.type === type && matches(e as Extract<MediaEvent, { type: T }>),
        ),
      type,
      timeoutMs,
    );
  }

  async until<T>(check: () => T | undefined, what: string, timeoutMs = 5_000): Promise<T> {
    const deadline = performance.now() + timeoutMs;
    for (;;) {
      const value = check();
      if (value !== undefined) return value;
      if (performance.now() > deadline) throw new Error(`timed out waiting for ${what}`);
      await Bun.sleep(5);
    }
  }

  async participant(identity: string) {
    const room = await this.node.room({ roomId: ROOM });
    return room?.participants.find((participant) => participant.identity === identity);
  }

  async refused(): Promise<Record<string, number>> {
    return (await this.node.load()).refused;
  }

  async close(): Promise<void> {
    for (const peer of this.#peers) peer.close();
    await this.node.close();
  }
}
