/** Small rooms on one server: each participant sends, and watches all others. */

import type { RtcPeer } from "../../../src/rtc-client/peer.ts";
import { carriesMedia } from "../../../src/rtc-client/sdp.ts";
import type { DtlsCertificate } from "../../../src/sfu/werift/werift-hooks.ts";
import { cpuNanos, rssMegabytes, untilIdle } from "../harness/processes.ts";
import { percentile } from "../harness/report.ts";
import type { MeetingServer, PeerHooks } from "./meeting-server.ts";
import { AUDIO, LARGEST, PACKETS_OF_LARGEST, readStamp, Traffic, VIDEO } from "./traffic.ts";

const FEEDBACK_EVERY_MS = 100;
const TURN_MS = 2;
const SETTLE_MS = 200;
const MAX_SETTLE_MS = 60_000;
/** Some packets may still be on their way. */
const ALL_OF_IT = 0.99;
/** Streams of a participant, each with a number of its own. */
const SSRCS = 8;
const ROOMS_AT_ONCE = 4;

export type Size = { rooms: number; members: number };

export type Figures = {
  /** Milliseconds of the server's CPU in each second, for each room. */
  cpuPerRoom: number;
  serverPercent: number;
  peersPercent: number;
  /** The share of the audio and the largest layer of each participant that reached all others. */
  arrivedPercent: number;
  /** For each hundred packets of audio and video those that carry neither: sent once more, or made up. */
  besidesPercent: number;
  p50: number;
  p99: number;
};

type Member = { traffic: Traffic; sends: RtcPeer; receives: RtcPeer };

export class Meetings {
  readonly server: MeetingServer;
  readonly #size: Size;
  readonly #members: Member[] = [];
  readonly #delays: number[] = [];
  #wanted = 0;
  megabytesPerParticipant = Number.NaN;

  static async gather(server: MeetingServer, size: Size, certificate: DtlsCertificate): Promise<Meetings> {
    const meetings = new Meetings(server, size);
    await untilIdle(server.pid);
    const before = rssMegabytes(server.pid);
    for (let room = 0; room < size.rooms; room += ROOMS_AT_ONCE)
      await Promise.all(
        range(Math.min(ROOMS_AT_ONCE, size.rooms - room)).map((i) => meetings.#fill(room + i, certificate)),
      );
    await meetings.#settle();
    meetings.megabytesPerParticipant = (rssMegabytes(server.pid) - before) / (size.rooms * size.members);
    return meetings;
  }

  private constructor(server: MeetingServer, size: Size) {
    this.server = server;
    this.#size = size;
  }

  /** All send before anyone watches. */
  async #fill(room: number, certificate: DtlsCertificate): Promise<void> {
    const joining = range(this.#size.members).map(async (member) => {
      const place = { room, member };
      const traffic = new Traffic((room * this.#size.members + member + 1) * SSRCS);
      const hooks: PeerHooks = {
        certificate,
        onRtp: ({ data, payloadOffset, payloadLength }) => this.#arrived(data, payloadOffset, payloadLength),
        onRtcp: ({ type }) => {
          if (type === "pli" || type === "fir") traffic.wantKeyframe();
        },
      };
      const sends = await this.server.publish(place, hooks);
      traffic.sendAudio(sends);
      traffic.sendFrame(sends);
      return { place, hooks, traffic, sends };
    });
    const watching = (await Promise.all(joining)).map(async ({ place, hooks, traffic, sends }) => ({
      traffic,
      sends,
      receives: await this.server.watch(place, sends, hooks),
    }));
    this.#members.push(...(await Promise.all(watching)));
  }

  #arrived(data: Uint8Array, offset: number, length: number): void {
    // Packets that servers make up to probe the path can contain anything.
    const stamp = carriesMedia(data) ? readStamp(data, offset, length) : null;
    if (!stamp) return;
    this.#delays.push(performance.now() - stamp.sentAt);
    if (stamp.layer === 0 || stamp.layer === LARGEST) this.#wanted++;
  }

  /** Servers that find out first what a path carries send less until then. */
  async #settle(): Promise<void> {
    const from = performance.now();
    for (let inARow = 0; inARow < 2; ) {
      this.#wanted = 0;
      const sent = await this.#stream(1_000);
      await Bun.sleep(SETTLE_MS);
      inARow = this.#wanted >= sent * this.server.copies * ALL_OF_IT ? inARow + 1 : 0;
      if (performance.now() - from > MAX_SETTLE_MS) return;
    }
  }

  async measure(warmUpMs: number, durationMs: number): Promise<Figures> {
    await this.#stream(warmUpMs);
    await Bun.sleep(SETTLE_MS);
    const { pid } = this.server;
    this.#delays.length = 0;
    this.#wanted = 0;
    const seen = this.#received();
    const before = { server: cpuNanos(pid), peers: cpuNanos(process.pid), at: performance.now() };
    const sent = await this.#stream(durationMs);
    const seconds = (performance.now() - before.at) / 1_000;
    const server = (cpuNanos(pid) - before.server) / 1e6 / seconds;
    const peers = (cpuNanos(process.pid) - before.peers) / 1e6 / seconds;
    await Bun.sleep(SETTLE_MS);
    const received = this.#received();
    return {
      cpuPerRoom: server / this.#size.rooms,
      serverPercent: server / 10,
      peersPercent: peers / 10,
      arrivedPercent: (100 * this.#wanted) / (sent * this.server.copies),
      besidesPercent: ((received.all - seen.all) / (received.media - seen.media) - 1) * 100,
      p50: percentile(this.#delays, 0.5),
      p99: percentile(this.#delays, 0.99),
    };
  }

  #received(): { media: number; all: number } {
    const sum = (of: (peer: RtcPeer) => number) =>
      this.#members.reduce((total, { receives }) => total + of(receives), 0);
    return { media: sum((peer) => peer.mediaIn), all: sum((peer) => peer.packetsIn) };
  }

  /** Each participant at a moment of its own. Returns how many packets of sound and of the largest layer were sent. */
  async #stream(durationMs: number): Promise<number> {
    const started = performance.now();
    const everybody = this.#members.map((member, i) => ({
      ...member,
      phase: i / this.#members.length,
      sent: { audio: 0, frames: 0, feedback: 0 },
    }));
    for (;;) {
      const elapsedMs = performance.now() - started;
      if (elapsedMs >= durationMs) break;
      for (const { traffic, sends, receives, phase, sent } of everybody) {
        const due = (perSecond: number) => Math.floor((elapsedMs * perSecond) / 1_000 + phase);
        for (; sent.audio < due(AUDIO.perSecond); sent.audio++) traffic.sendAudio(sends);
        for (; sent.frames < due(VIDEO.framesPerSecond); sent.frames++) traffic.sendFrame(sends);
        for (; sent.feedback < due(1_000 / FEEDBACK_EVERY_MS); sent.feedback++) receives.sendTransportFeedback();
      }
      await Bun.sleep(TURN_MS);
    }
    return everybody.reduce((sum, { sent }) => sum + sent.audio + sent.frames * PACKETS_OF_LARGEST, 0);
  }

  async disperse(): Promise<void> {
    for (const { sends, receives } of this.#members) for (const peer of new Set([sends, receives])) peer.close();
    await this.server.stop();
  }
}

const range = (length: number) => Array.from({ length }, (_, i) => i);
