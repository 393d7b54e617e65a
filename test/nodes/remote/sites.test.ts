/** A room on several media nodes: processes of `stoa node` on this machine, and participants without browsers. */
import { afterEach, expect, test } from "bun:test";
import type { Recording } from "../../../src/protocol/recordings.ts";
import { RtcPeer } from "../../../src/rtc-client/peer.ts";
import { RtpSource } from "../../../src/rtc-client/rtp-source.ts";
import { Fleet } from "./fleet-of-processes.ts";
import type { Member } from "./member.ts";
import { until } from "./until.ts";

type Site = { serverName: string; region: string; participants: number };

const LONG = 180_000;
const IN_SYNC_MS = 50;
let fleet: Fleet;

afterEach(async () => fleet.close());

const sitesOf = async (roomId: string) => (await fleet.call("GET", `/v1/rooms/${roomId}`)).sites as unknown as Site[];
const serverOf = (member: Member) => member.client.ack?.serverName;
const payloads = (member: Member) => member.of("data").map(({ from, payload }) => `${from}: ${payload}`);

/** Ada in Europe, Ben in America, who see each other. */
async function apart() {
  fleet = await Fleet.startOnLoopback();
  const [eu1, us1] = await Promise.all([fleet.node("eu1", "eu"), fleet.node("us1", "us")]);
  const roomId = await fleet.room("eu");
  const ada = await fleet.member(roomId, "ada");
  const ben = await fleet.member(roomId, "ben", "us");
  expect([ada, ben].map(serverOf)).toEqual(["eu1", "us1"]);
  return { eu1, us1, roomId, ada, ben };
}

test(
  "participants join the node of their region, see each other, and get each other's data in order",
  async () => {
    const { roomId, ada, ben } = await apart();
    const cyd = await fleet.member(roomId, "cyd", "eu");
    await ada.publish();
    await ben.watch("ada");
    await cyd.watch("ada");
    expect(await sitesOf(roomId)).toEqual([
      { serverName: "eu1", region: "eu", participants: 2 },
      { serverName: "us1", region: "us", participants: 1 },
    ]);
    // A participant without a region, or with one that has no nodes, goes to the main site.
    const [dan, eve] = [await fleet.member(roomId, "dan", "us"), await fleet.member(roomId, "eve", "mars")];
    expect([dan, eve].map(serverOf)).toEqual(["us1", "eu1"]);
    await dan.publish();
    await eve.watch("dan");
    const words = Array.from({ length: 50 }, (_, n) => `word ${n}`);
    for (const payload of words) await ada.client.request("data.send", { payload });
    await fleet.call("POST", `/v1/rooms/${roomId}/data`, { payload: "from the backend" });
    for (const member of [ben, cyd, dan, eve]) {
      await until(() => payloads(member).length > words.length);
      expect(payloads(member)).toEqual([...words.map((word) => `ada: ${word}`), "null: from the backend"]);
    }
    expect(payloads(ada)).toEqual(["null: from the backend"]);
    await ada.client.request("data.send", { payload: "for Ben alone", to: ["ben"] });
    await until(() => payloads(ben).includes("ada: for Ben alone"));
    expect(payloads(dan)).not.toContain("ada: for Ben alone");
    // The last participant on a node ends the room there, and nothing else.
    ben.close();
    dan.close();
    await until(async () => (await sitesOf(roomId)).length === 1);
    await cyd.receives();
  },
  LONG,
);

test(
  "a WHIP publisher on one node reaches a WHEP viewer and a participant on another",
  async () => {
    fleet = await Fleet.startOnLoopback();
    await Promise.all([fleet.node("eu1", "eu"), fleet.node("us1", "us")]);
    const roomId = await fleet.room("eu");
    const ada = await fleet.member(roomId, "ada");
    const locations: string[] = [];
    const connect = async (kind: "whip" | "whep", region: string) => {
      const authorization = `Bearer ${await fleet.mint(roomId, kind, region)}`;
      const negotiate = async ({ sdp }: { sdp: string }) => {
        const headers = { authorization, "content-type": "application/sdp" };
        const response = await fetch(`${fleet.url}/${kind}/${roomId}`, { method: "POST", headers, body: sdp });
        expect(response.status).toBe(201);
        locations.push(response.headers.get("location") ?? "");
        return { sdp: await response.text(), tracks: [] };
      };
      const direction = kind === "whip" ? ("sendonly" as const) : ("recvonly" as const);
      const sections = [{ kind: "video" as const, direction }];
      const peer = await RtcPeer.create({ node: { negotiate }, roomId: "", participantId: "", sections });
      await peer.connect(undefined, undefined);
      return {
        peer,
        leave: (location: string) => fetch(`${fleet.url}${location}`, { method: "DELETE", headers: { authorization } }),
      };
    };
    const viewer = await connect("whep", "eu");
    const publisher = await connect("whip", "us");
    const source = new RtpSource({ ssrc: 7, payloadType: 96, mid: "0" });
    const timer = setInterval(() => source.sendFrame(publisher.peer, true), 40);
    try {
      await ada.watch("whip");
      await until(() => viewer.peer.packetsIn > 10);
      expect((await sitesOf(roomId)).map(({ serverName }) => serverName)).toEqual(["eu1", "us1"]);
      await publisher.leave(locations[1] ?? "");
      expect(await until(() => ada.of("participant.left")[0])).toMatchObject({ identity: "whip", reason: "left" });
      await until(async () => (await sitesOf(roomId)).length === 1);
    } finally {
      clearInterval(timer);
      for (const { peer } of [viewer, publisher]) peer.close();
    }
  },
  LONG,
);

test(
  "a mute and the end of a track reach the other node, and a participant is removed from either",
  async () => {
    const { roomId, ada, ben } = await apart();
    await ada.publish();
    await ben.watch("ada");
    const trackId = ben.of("track.published")[0]?.track.id ?? "";
    await fleet.call("POST", `/v1/rooms/${roomId}/participants/ada/tracks/${trackId}/mute`, { muted: true });
    expect(await until(() => ben.of("track.muted")[0])).toMatchObject({ identity: "ada", trackId });
    await until(async () => {
      const before = ben.peer?.packetsIn ?? 0;
      await Bun.sleep(500);
      return ben.peer?.packetsIn === before;
    });
    await ada.client.request("track.mute", { trackId, muted: false });
    await ben.receives();
    await ada.client.request("track.unpublish", { trackId });
    expect(await until(() => ben.of("track.unpublished")[0])).toMatchObject({ identity: "ada", trackId });
    await fleet.call("DELETE", `/v1/rooms/${roomId}/participants/ben`);
    expect(await until(() => ben.of("bye")[0])).toMatchObject({ reason: "removed" });
    await until(async () => (await sitesOf(roomId)).length === 1);
  },
  LONG,
);

test(
  "a node is killed: its participants come back on another, and the others lose only their tracks",
  async () => {
    const { us1, roomId, ada, ben } = await apart();
    const cyd = await fleet.member(roomId, "cyd", "eu");
    await ada.publish();
    await ben.watch("ada");
    await cyd.watch("ada");
    const dan = await fleet.member(roomId, "dan", "us");
    await dan.publish();
    await until(() => ada.of("track.published").find(({ identity }) => identity === "dan"));
    cyd.longestGapMs = 0;
    us1.child.kill("SIGKILL");
    for (const member of [ben, dan])
      expect(await until(() => member.of("bye")[0])).toMatchObject({ reason: "node_lost", action: "rejoin" });
    const left = await until(() => cyd.of("participant.left").length === 2 && cyd.of("participant.left"));
    expect(left.map(({ identity }) => identity).sort()).toEqual(["ben", "dan"]);
    expect(ada.of("bye")).toEqual([]);
    const again = await fleet.member(roomId, "ben", "us");
    expect(serverOf(again)).toBe("eu1");
    await again.watch("ada");
    await cyd.receives();
    expect(cyd.longestGapMs).toBeLessThan(2_000);
    expect((await sitesOf(roomId)).map(({ serverName }) => serverName)).toEqual(["eu1"]);
  },
  LONG,
);

test(
  "the control plane is killed: media continues between the nodes, and the next one takes over both",
  async () => {
    const { roomId, ada, ben } = await apart();
    await ada.publish();
    await ben.watch("ada");
    const sessionId = ben.client.ack?.sessionId;
    await fleet.stopServer("SIGKILL");
    await until(() => ben.client.closeCode ?? undefined);
    await ben.receives();
    ben.longestGapMs = 0;
    const [, ack] = await Promise.all([fleet.startServer(), ben.resume()]);
    expect(ack).toMatchObject({ mode: "resumed", sessionId, serverName: "us1" });
    expect(await ada.resume()).toMatchObject({ mode: "resumed", serverName: "eu1" });
    expect((await sitesOf(roomId)).map(({ serverName }) => serverName).sort()).toEqual(["eu1", "us1"]);
    await ben.receives();
    // Tracks that are published from now on cross the same link.
    const cyd = await fleet.member(roomId, "cyd", "us");
    await cyd.watch("ada");
    const dan = await fleet.member(roomId, "dan", "us");
    await dan.publish();
    const eve = await fleet.member(roomId, "eve", "eu");
    await eve.watch("dan");
    await ada.client.request("data.send", { payload: "still here" });
    await until(() => payloads(ben).includes("ada: still here"));
    await ben.receives();
    expect(ben.longestGapMs).toBeLessThan(2_000);
    expect([ada, ben].flatMap((member) => member.of("bye"))).toEqual([]);
  },
  LONG,
);

test(
  "the control plane and a node are killed together: media on the other node continues, and all find the room again there",
  async () => {
    const { us1, roomId, ada, ben } = await apart();
    const cyd = await fleet.member(roomId, "cyd", "eu");
    await ada.publish();
    for (const member of [ben, cyd]) await member.watch("ada");
    cyd.longestGapMs = 0;
    us1.child.kill("SIGKILL");
    await fleet.stopServer("SIGKILL");
    await until(() => [ada, cyd].every(({ client }) => client.closeCode !== null));
    const [, ...acks] = await Promise.all([fleet.startServer(), ada.resume(), cyd.resume()]);
    for (const ack of acks) expect(ack).toMatchObject({ mode: "resumed", serverName: "eu1" });
    const again = await fleet.member(roomId, "ben", "us");
    expect(serverOf(again)).toBe("eu1");
    await again.watch("ada");
    await cyd.receives();
    expect(cyd.longestGapMs).toBeLessThan(2_000);
    expect([ada, cyd].flatMap((member) => member.of("bye"))).toEqual([]);
    expect((await sitesOf(roomId)).map(({ serverName }) => serverName)).toEqual(["eu1"]);
  },
  LONG,
);

test(
  "[18] each node records its own participants, and all files share one clock",
  async () => {
    const { roomId, ada, ben } = await apart();
    await ada.publish();
    await ben.publish();
    await until(() => ada.of("track.published")[0] && ben.of("track.published")[0]);
    const { id } = await fleet.call("POST", `/v1/rooms/${roomId}/recordings`, {});
    const read = async () => (await fleet.call("GET", `/v1/recordings/${id}`)) as unknown as Recording;
    await until(async () => (await read()).files.filter(({ bytes }) => bytes > 1_000).length === 2);
    const { status, error, files } = (await fleet.call("POST", `/v1/recordings/${id}/stop`)) as unknown as Recording;
    expect({ status, error }).toEqual({ status: "READY", error: null });
    expect(files.map(({ identity }) => identity).sort()).toEqual(["ada", "ben"]);
    const ends = files.map(({ offsetMs, durationMs }) => offsetMs + durationMs);
    // The files end with the same request, to within a frame in each direction.
    expect(Math.abs((ends[0] ?? 0) - (ends[1] ?? 0))).toBeLessThan(IN_SYNC_MS + 2 * 40);
  },
  LONG,
);

test(
  "a node is drained during a call: its participants move to another, viewers first, and it is empty",
  async () => {
    const { roomId, ada, ben } = await apart();
    const cyd = await fleet.member(roomId, "cyd", "eu");
    await ada.publish();
    for (const member of [ben, cyd]) await member.watch("ada");
    await fleet.asOperator("POST", "/v1/rtc/servers/eu1/drain");
    const byes = await until(() => cyd.of("bye")[0] && [ada, cyd].map((member) => member.of("bye")));
    expect(byes).toMatchObject([[], [{ reason: "restart", action: "rejoin" }]]);
    await until(() => ada.of("bye")[0]);
    const ada2 = await fleet.member(roomId, "ada", "eu");
    await ada2.publish();
    const [cyd2, dan] = [await fleet.member(roomId, "cyd", "eu"), await fleet.member(roomId, "dan")];
    expect([ada2, cyd2, dan].map(serverOf)).not.toContain("eu1");
    for (const member of [cyd2, dan]) await member.watch("ada");
    await until(async () => !(await sitesOf(roomId)).some(({ serverName }) => serverName === "eu1"));
    expect(ben.of("bye")).toEqual([]);
  },
  LONG,
);
