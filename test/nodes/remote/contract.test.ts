/** One suite for both implementations of MediaNode: inside the process, and over the network. */
import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLog } from "../../../src/kernel/log.ts";
import { systemTimers } from "../../../src/kernel/time/timers.ts";
import { EmbeddedMedia } from "../../../src/nodes/embedded-media.ts";
import { nodeRecordings } from "../../../src/nodes/node-recordings.ts";
import { createNodeServer } from "../../../src/nodes/node-server.ts";
import { serveNode } from "../../../src/nodes/node-server-http.ts";
import { RemoteMedia } from "../../../src/nodes/remote-media.ts";
import type { StartRecording } from "../../../src/protocol/media/recording.ts";
import { MediaError, type MediaEvent, type MediaNode } from "../../../src/protocol/media-node.ts";
import { RtcPeer } from "../../../src/rtc-client/peer.ts";
import { RtpSource } from "../../../src/rtc-client/rtp-source.ts";
import { watchMediaWorkers } from "../../harness/media-workers.ts";
import { ALL } from "../../sfu/room-of-peers.ts";
import { until } from "./until.ts";

const log = createLog({ level: "silent", format: "json" });
const SECRET = "a-secret-of-the-fleet";
const ADA = { roomId: "r", participantId: "p1", identity: "ada", permissions: ALL };
const workers = watchMediaWorkers();
afterAll(() => workers.restore());
const cleanup: (() => unknown)[] = [];
const refused: string[] = [];
afterEach(async () => {
  for (const close of cleanup.splice(0).reverse()) await close();
  // Messages of an honest node are never refused.
  expect(refused.splice(0)).toEqual([]);
});

async function embedded(): Promise<EmbeddedMedia> {
  const loopback = { hostname: "127.0.0.1", announce: ["127.0.0.1"] };
  const media = await EmbeddedMedia.start({ workers: 1, warmUp: false, port: 0, ...loopback, tcp: false, log });
  cleanup.push(() => media.close());
  return media;
}

function serve(media: MediaNode, port = 0) {
  const recordings = nodeRecordings(join(tmpdir(), `stoa-node-${process.pid}`));
  const options = { hostname: "127.0.0.1", port, secret: SECRET, problem: () => null, recordings };
  const { server } = serveNode(createNodeServer(media, log, { recordings }), options);
  cleanup.push(() => server.stop(true));
  return server;
}

function reach(server: { port?: number }, secret = SECRET): RemoteMedia {
  const internalUrl = `http://127.0.0.1:${server.port}`;
  const remote = new RemoteMedia({
    serverName: "n",
    internalUrl,
    secret,
    term: 0,
    timers: systemTimers,
    log,
    onRefused: (reason) => void refused.push(reason),
  });
  cleanup.push(() => remote.close());
  return remote;
}

/** The way to a server, which can be cut in the middle of anything. */
async function cuttable(server: { port?: number }) {
  const open = new Set<Socket>();
  const proxy = createServer((near) => {
    const far = connect(server.port ?? 0, "127.0.0.1");
    way.connections += 1;
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(from);
      from.on("error", () => {});
      from.on("close", () => to.destroy());
      from.pipe(to);
    }
  });
  const way = {
    port: 0,
    connections: 0,
    cut() {
      for (const socket of open) socket.destroy();
      open.clear();
    },
  };
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  way.port = (proxy.address() as AddressInfo).port;
  cleanup.push(() => proxy.close(), way.cut);
  return way;
}

const IMPLEMENTATIONS = {
  embedded: async () => {
    const media = await embedded();
    return { media: media as MediaNode, inside: media };
  },
  remote: async () => {
    const inside = await embedded();
    return { media: reach(serve(inside)) as MediaNode, inside };
  },
};

function heard(media: MediaNode): MediaEvent[] {
  const events: MediaEvent[] = [];
  media.onEvent((event) => void events.push(event));
  return events;
}

async function publish(media: MediaNode): Promise<RtpSource> {
  await media.openRoom({ roomId: "r" });
  await media.addParticipant(ADA);
  const sections = [{ kind: "video" as const, direction: "sendonly" as const }];
  const peer = await RtcPeer.create({ node: media, roomId: "r", participantId: "p1", sections });
  cleanup.push(() => peer.close());
  await peer.connect([{ mid: "0", clientTrackId: "c", kind: "video", source: "camera" }], []);
  const source = new RtpSource({ ssrc: 7, payloadType: 96, mid: "0" });
  source.sendFrame(peer, true);
  return source;
}

for (const [name, start] of Object.entries(IMPLEMENTATIONS)) {
  describe(`[media node] ${name}`, () => {
    test("media is connected, announced in order, listed, muted and removed", async () => {
      const { media } = await start();
      const events = heard(media);
      await publish(media);
      await until(() => events.some(({ type }) => type === "trackPublished"));
      const types = events.map(({ type }) => type);
      expect(types.indexOf("participantConnected")).toBeLessThan(types.indexOf("trackPublished"));
      const [participant] = (await media.room({ roomId: "r" }))?.participants ?? [];
      expect(participant).toMatchObject({ participantId: "p1", identity: "ada", state: "connected", permissions: ALL });
      const trackId = participant?.tracks[0]?.id ?? "";
      await media.setTrackMuted({ roomId: "r", participantId: "p1", trackId, muted: true });
      await until(() => events.some(({ type }) => type === "trackMuted"));
      expect(await media.load()).toMatchObject({ rooms: 1, participants: 1 });
      await media.removeParticipant({ roomId: "r", participantId: "p1" });
      await until(() => events.some((event) => event.type === "trackUnpublished" && event.trackId === trackId));
      await media.closeRoom({ roomId: "r" });
      expect(await media.rooms()).toEqual([]);
    }, 20_000);

    test("errors keep their code, and calls about missing rooms return null or have no effect", async () => {
      const { media } = await start();
      const refusal = async (call: Promise<unknown>) => {
        const error = await call.then(() => null).catch((caught) => caught);
        expect(error).toBeInstanceOf(MediaError);
        return (error as MediaError).code;
      };
      expect(await refusal(media.addParticipant(ADA))).toBe("ROOM_NOT_FOUND");
      await media.openRoom({ roomId: "r" });
      await media.openRoom({ roomId: "r" });
      const nobody = { roomId: "r", participantId: "x" };
      expect(await refusal(media.negotiate({ ...nobody, sdp: "v=0" }))).toBe("PARTICIPANT_NOT_FOUND");
      await media.addParticipant(ADA);
      expect(await refusal(media.negotiate({ ...ADA, sdp: "nonsense" }))).toBe("NEGOTIATION_FAILED");
      expect(await refusal(media.unpublish({ ...ADA, trackId: "t" }))).toBe("TRACK_NOT_FOUND");
      expect(await media.room({ roomId: "other" })).toBeNull();
      await media.closeRoom({ roomId: "other" });
      await media.removeParticipant({ roomId: "r", participantId: "x" });
      expect(await media.rooms()).toEqual([{ roomId: "r", participants: 1 }]);
    }, 20_000);

    test("a crashed worker is reported with its rooms, and serves again", async () => {
      const { media } = await start();
      const events = heard(media);
      await media.openRoom({ roomId: "r" });
      await media.addParticipant(ADA);
      workers.crash();
      const crash = await until(() => events.find(({ type }) => type === "workerCrashed"));
      expect(crash).toEqual({ type: "workerCrashed", worker: 0, rooms: [{ roomId: "r", participantIds: ["p1"] }] });
      await media.openRoom({ roomId: "r" });
      await media.addParticipant(ADA);
      expect(await media.rooms()).toEqual([{ roomId: "r", participants: 1 }]);
    }, 20_000);
  });
}

describe("[media node] the connection to a node on another machine", () => {
  test("a broken connection neither loses nor repeats a call or an event", async () => {
    const inside = await embedded();
    const network = await cuttable(serve(inside));
    const media = reach(network);
    const events = heard(media);
    await media.openRoom({ roomId: "r" });
    for (const id of ["p1", "p2"]) await media.addParticipant({ ...ADA, participantId: id, identity: id });
    const calls: Promise<void>[] = [];
    for (let i = 0; i < 50; i++) {
      calls.push(media.sendData({ roomId: "r", from: "p1", payload: String(i) }));
      if (i % 20 !== 10) continue;
      await Bun.sleep(1);
      network.cut();
    }
    await Promise.all(calls);
    await until(() => events.filter(({ type }) => type === "data").length >= 50);
    await media.rooms();
    const payloads = events.flatMap((event) => (event.type === "data" ? [event.payload] : []));
    expect(payloads).toEqual(Array.from({ length: 50 }, (_, i) => String(i)));
    expect(events.some(({ type }) => type === "workerCrashed")).toBe(false);
    expect(network.connections).toBeGreaterThanOrEqual(3);
  }, 20_000);

  test("a node that goes away is unreachable at once, its rooms are lost, and it comes back empty", async () => {
    const inside = await embedded();
    const server = serve(inside);
    const media = reach(server);
    const events = heard(media);
    await media.openRoom({ roomId: "r" });
    await media.addParticipant(ADA);
    const { port } = server;
    await server.stop(true);
    const lost = await until(() => events.find(({ type }) => type === "workerCrashed"));
    expect(lost).toEqual({ type: "workerCrashed", worker: null, rooms: [{ roomId: "r", participantIds: ["p1"] }] });
    expect(await media.rooms().catch(({ code }) => code)).toBe("RTC_SERVER_UNREACHABLE");
    expect(media.remote.connected).toBe(false);
    serve(inside, port);
    await until(() => media.remote.connected);
    await until(async () => (await media.rooms()).length === 0);
  }, 20_000);

  test("another process finds the running rooms with the records of their participants", async () => {
    const inside = await embedded();
    const server = serve(inside);
    const first = reach(server);
    await first.openRoom({ roomId: "r" });
    await first.addParticipant({ ...ADA, record: "old" });
    await first.addParticipant({ ...ADA, record: "new" });
    await first.close();
    const second = reach(server);
    const events = heard(second);
    const found = await until(() => events.find((event) => event.type === "roomsFound"));
    expect(found.rooms).toMatchObject([{ roomId: "r", participants: [{ participantId: "p1", record: "new" }] }]);
  }, 20_000);

  test("[18] a recording starts at the same moment by the node's clock, whichever time that shows", async () => {
    const inside = await embedded();
    const starts: number[] = [];
    const media: MediaNode = Object.assign(inside, {
      startRecording: async ({ startedAtMs }: StartRecording) => void starts.push(startedAtMs),
    });
    const aheadMs = 3_600_000;
    const clock = () => Date.now() + aheadMs;
    const options = { hostname: "127.0.0.1", port: 0, secret: SECRET, problem: () => null };
    const { server } = serveNode(createNodeServer(media, log, { clock }), options);
    cleanup.push(() => server.stop(true));
    const remote = reach(server);
    const recording = { roomId: "r", recordingId: "1", directory: "/nowhere", startedAtMs: 1_000, audioOnly: false };
    await remote.openRoom({ roomId: "r" });
    await remote.startRecording(recording);
    expect(Math.abs((starts[0] ?? 0) - 1_000 - aheadMs)).toBeLessThan(1_000);
  }, 20_000);

  test("only requests with the secret are accepted, and nothing but a socket is served", async () => {
    const inside = await embedded();
    const server = serve(inside);
    const ask = (authorization: string) =>
      fetch(`http://127.0.0.1:${server.port}/v1/media`, { headers: { authorization } });
    expect((await ask("Bearer another-secret-of-20")).status).toBe(401);
    expect((await ask("")).status).toBe(401);
    expect((await ask(`Bearer ${SECRET}`)).status).toBe(426);
    const stranger = reach(server, "another-secret-of-20");
    await Bun.sleep(300);
    expect(stranger.remote.connected).toBe(false);
  }, 20_000);
});

test("[contract 20] a node that has seen a later term refuses the former leader", async () => {
  const server = serve(await embedded());
  const ask = async (term?: string) => {
    const headers = { authorization: `Bearer ${SECRET}`, ...(term === undefined ? {} : { "stoa-term": term }) };
    return (await fetch(`http://127.0.0.1:${server.port}/v1/media`, { headers, keepalive: false })).status;
  };
  // 426: it would be let in, were it a WebSocket.
  expect([await ask("2"), await ask("1"), await ask(), await ask("3"), await ask("2")]).toEqual([
    426, 409, 409, 426, 409,
  ]);
});
