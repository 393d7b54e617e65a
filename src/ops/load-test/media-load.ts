/** Fills rooms of a server with publishers and subscribers through its public API, and measures loss and delay. */
import { createApi } from "./api.ts";
import { causeOf, type Percentiles, percentiles, Tally, within } from "./figures.ts";
import {
  joinPublisher,
  joinSubscriber,
  type LoadParticipant,
  makeCertificate,
  type Publisher,
} from "./participants.ts";

type MediaLoad = {
  url: string;
  apiKey: string;
  rooms: number;
  publishers: number;
  subscribers: number;
  durationSeconds: number;
};

export type MediaReport = {
  wanted: number;
  joined: number;
  /** The number of failed joins, by error code. */
  refused: Record<string, number>;
  packetsSent: number;
  packetsExpected: number;
  packetsReceived: number;
  lossPercent: number | null;
  delayMs: Percentiles;
  receivedBps: number;
};

const JOIN_TIMEOUT_MS = 15_000;
const DRAIN_MS = 500;

export async function runMediaLoad(load: MediaLoad, progress: (line: string) => void): Promise<MediaReport> {
  const certificate = await makeCertificate();
  const api = createApi(load.url, load.apiKey);
  const refused = new Tally();
  const participants: LoadParticipant[] = [];
  const roomIds: string[] = [];
  const groups: { publishers: Publisher[]; subscribers: number }[] = [];
  const delays: number[] = [];
  const counted = { from: Number.POSITIVE_INFINITY, to: Number.POSITIVE_INFINITY, packets: 0, bytes: 0 };

  const mintToken = async (roomId: string, participantIdentity: string, publish: boolean) => {
    const body = { participantIdentity, permissions: { publish } };
    const { token } = await api("POST", `/v1/rooms/${roomId}/rtc-tokens`, body);
    return { url: load.url, token: String(token), certificate };
  };
  const tryJoin = async <T extends LoadParticipant>(join: () => Promise<T>): Promise<T | null> => {
    try {
      const one = await within(JOIN_TIMEOUT_MS, join());
      participants.push(one);
      return one;
    } catch (error) {
      refused.add(causeOf(error));
      return null;
    }
  };
  const onPacket = (sentAtMs: number, bytes: number) => {
    if (sentAtMs < counted.from || sentAtMs >= counted.to) return;
    counted.packets++;
    counted.bytes += bytes;
    delays.push(performance.now() - sentAtMs);
  };

  try {
    for (let index = 0; index < load.rooms; index++) {
      const room = await api("POST", "/v1/rooms", { name: `load-test-${crypto.randomUUID()}` });
      const roomId = String(room.id);
      roomIds.push(roomId);
      const publishers: Publisher[] = [];
      for (let p = 0; p < load.publishers; p++) {
        const one = await tryJoin(async () => joinPublisher(await mintToken(roomId, `publisher-${p}`, true)));
        if (one) publishers.push(one);
      }
      const trackIds = await Promise.all(publishers.map(({ trackId }) => within(JOIN_TIMEOUT_MS, trackId)));
      let subscribers = 0;
      for (let s = 0; trackIds.length > 0 && s < load.subscribers; s++) {
        const join = async () => joinSubscriber(await mintToken(roomId, `subscriber-${s}`, false), trackIds, onPacket);
        if (await tryJoin(join)) subscribers++;
      }
      groups.push({ publishers, subscribers });
      progress(`room ${index + 1} of ${load.rooms}: ${participants.length} joined`);
    }
    const sentBefore = groups.map(({ publishers }) => publishers.map((one) => one.packetsSent()));
    counted.from = performance.now();
    for (let second = 1; second <= load.durationSeconds; second++) {
      await Bun.sleep(1_000);
      progress(`${second} of ${load.durationSeconds} s: ${counted.packets} packets received`);
    }
    counted.to = performance.now();
    const sent = groups.map(({ publishers }, g) =>
      publishers.reduce((total, one, p) => total + one.packetsSent() - (sentBefore[g]?.[p] ?? 0), 0),
    );
    await Bun.sleep(DRAIN_MS);
    const expected = groups.reduce((total, { subscribers }, g) => total + subscribers * (sent[g] ?? 0), 0);
    return {
      wanted: load.rooms * (load.publishers + load.subscribers),
      joined: participants.length,
      refused: refused.counts,
      packetsSent: sent.reduce((total, count) => total + count, 0),
      packetsExpected: expected,
      packetsReceived: counted.packets,
      lossPercent: expected === 0 ? null : Math.max(0, (1 - counted.packets / expected) * 100),
      delayMs: percentiles(delays),
      receivedBps: Math.round((counted.bytes * 8_000) / (counted.to - counted.from)),
    };
  } finally {
    await Promise.all(participants.map((one) => one.leave()));
    for (const roomId of roomIds) await api("DELETE", `/v1/rooms/${roomId}`).catch(() => {});
  }
}
