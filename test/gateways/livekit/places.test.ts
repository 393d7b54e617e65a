import { afterEach, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { bars, join, tone } from "../../../src/rtc-client/participant/participant.ts";
import { type ServerProcess, startServer } from "../../e2e/sdk/server-process.ts";
import { Fleet } from "../../nodes/remote/fleet-of-processes.ts";
import { until } from "../../nodes/remote/until.ts";
import { meet } from "./harness/meeting.ts";
import { startNative } from "./harness/native-process.ts";
import { type StageBeside, stageBeside, WAIT_MS } from "./harness/stage.ts";

const cleanup: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of cleanup.splice(0).reverse()) await one.close();
});

const closing = <T extends { close(): Promise<void> }>(opened: T): T => {
  cleanup.push(opened);
  return opened;
};

async function recordsOf({ stoa }: StageBeside) {
  // They are written a little later.
  const records = await until(async () => {
    const written = await stoa.connections.list();
    return written.length >= 2 && written;
  });
  expect(records.map(({ participantIdentity }) => participantIdentity).sort()).toEqual(["ann", "ben"]);
  return records;
}

/** The protocol by which each peer connection of this page reaches the server. */
const protocolsOf = (page: Page) =>
  page.evaluate(async () => {
    const { publisher, subscriber } = window.livekit.engine.pcManager;
    const connections = [publisher, subscriber].flatMap((one) => (one ? [one._pc as RTCPeerConnection] : []));
    return Promise.all(
      connections.map(async (connection) => {
        const stats = await connection.getStats();
        // Whichever is in use: the state of a pair says "in-progress" again whenever a check of it is not answered yet.
        const transport = [...stats.values()].find(({ type }) => type === "transport");
        const pair = stats.get(transport?.selectedCandidatePairId);
        return stats.get(pair?.remoteCandidateId)?.protocol as string | undefined;
      }),
    );
  });

/** In a page: of the server's addresses, only those for TCP can be reached. */
function blockUdp(): void {
  const { prototype } = RTCPeerConnection;
  const setRemoteDescription: (description: RTCSessionDescriptionInit) => Promise<void> =
    prototype.setRemoteDescription;
  prototype.setRemoteDescription = function (description: RTCSessionDescriptionInit) {
    const sdp = description.sdp?.replace(/^a=candidate:\S+ \d+ udp .*\r\n/gim, "");
    return setRemoteDescription.call(this, { type: description.type, sdp });
  };
}

test(
  "a room on a remote media node takes LiveKit's clients with one and two connections",
  async () => {
    const fleet = closing(await Fleet.startOnLoopback());
    await fleet.node("eu1", "eu");
    const stage = closing(await stageBeside(await fleet.facts()));
    await stage.stoa.rooms.create({ name: "far", region: "eu" });
    await meet(stage, "far");
    expect((await recordsOf(stage)).map(({ serverName }) => serverName)).toEqual(["eu1", "eu1"]);
  },
  4 * WAIT_MS,
);

test(
  "on two media nodes, LiveKit's clients on one and a participant on the other hear and see each other, and are forwarded",
  async () => {
    const fleet = closing(await Fleet.startOnLoopback());
    await Promise.all([fleet.node("eu1", "eu"), fleet.node("us1", "us")]);
    const stage = closing(await stageBeside(await fleet.facts()));
    const roomId = await fleet.room("eu");
    const { name, sites: before } = await fleet.call("GET", `/v1/rooms/${roomId}`);
    expect(before).toEqual([] as never);
    const tokens = { ann: await stage.token(String(name), "ann"), ben: await stage.token(String(name), "ben") };
    const pair = startNative("native-pair.mjs", { packages: stage.packages, url: stage.wsUrl, tokens });
    closing({ close: () => pair.end() });
    await pair.says("ready");
    const far = closing(await join(fleet.url, await fleet.mint(roomId, "far", "us")));
    const got = new Set<string>();
    far.on("video", ({ identity }) => void got.add(`${identity} video`));
    far.on("audio", ({ identity }) => void got.add(`${identity} audio`));
    await far.publishAudio(tone({ hz: 440 }), { sampleRate: 48_000, channels: 1 });
    await far.publishVideo(bars());
    await Promise.all(
      ["ann", "ben"].flatMap((one) => ["audio", "video"].map((kind) => pair.says(`${one} gets far ${kind}`))),
    );
    await until(() => ["ann audio", "ann video", "ben audio"].every((one) => got.has(one)));
    const { sites } = await fleet.call("GET", `/v1/rooms/${roomId}`);
    expect(sites).toEqual([
      { serverName: "eu1", region: "eu", participants: 2 },
      { serverName: "us1", region: "us", participants: 1 },
    ] as never);
    const overflow = await stage.stoa.rooms.create({ name: "overflow", region: "eu" });
    const guest = closing(await join(fleet.url, await fleet.mint(overflow.id, "guest", "eu")));
    const forwarded = new Set<string>();
    guest.on("video", ({ identity }) => void forwarded.add(`${identity} video`));
    guest.on("audio", ({ identity }) => void forwarded.add(`${identity} audio`));
    await stage.rooms.forwardParticipant(String(name), "far", "overflow");
    await until(() => ["far audio", "far video"].every((one) => forwarded.has(one)));
    pair.does("unpublish");
    await new Promise<void>((resolve) => far.once("trackUnpublished", () => resolve()));
    far.sendData("from afar", { topic: "t" });
    await Promise.all(["ann", "ben"].map((one) => pair.says(`${one} reads far t from afar`)));
  },
  4 * WAIT_MS,
);

test(
  "without UDP LiveKit's clients connect over TCP on the same port",
  async () => {
    const server: ServerProcess = closing(await startServer());
    const stage = closing(await stageBeside(server, { firstOfAll: blockUdp }));
    const { ann, ben } = await meet(stage, "narrow");
    expect(await protocolsOf(ann)).toEqual(["tcp"]);
    expect(await protocolsOf(ben)).toEqual(["tcp", "tcp"]);
    for (const { connectionId } of await recordsOf(stage)) {
      const { events } = await stage.stoa.connections.get(connectionId);
      expect(events.find(({ type }) => type === "connected")?.data).toMatchObject({ transport: "tcp" });
    }
  },
  4 * WAIT_MS,
);
