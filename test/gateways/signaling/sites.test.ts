/** A room on several media nodes, none of which carries packets here. */
import { afterEach, expect, test } from "bun:test";
import { Glob } from "bun";
import type { MediaEvent } from "../../../src/protocol/media-node.ts";
import { QUIET } from "../../features/sessions/measured-calls.ts";
import { type FakeMediaNode, fakeMediaNode } from "../../harness/media-node.ts";
import { type RtcServer, rtcServer, settled } from "../../harness/rtc.ts";

const HEARD = { connected: true, links: true, silentMs: 0 };
let server: RtcServer;
afterEach(() => server?.close());

/** Ada in Europe, Ben in America and Cyd in Asia; the main site is Ada's. */
async function apart() {
  server = await rtcServer();
  const { nodes } = server;
  const { fleet } = server.services;
  const add = async (name: string, region: string) => {
    const node: FakeMediaNode = Object.assign(fakeMediaNode(), { remote: HEARD });
    nodes.add(name, node);
    const fields = { region, publicHost: "127.0.0.1", internalUrl: `http://${name}` };
    await server.runtime.write((unit) => fleet.register(unit, { name, ...fields }));
    const linkIds: string[] = [];
    node.onEvent((event) => void (event.type === "linkChanged" && linkIds.push(event.linkId)));
    return { node, linkIds };
  };
  const [eu, us, asia] = [await add("eu", "eu"), await add("us", "us"), await add("asia", "asia")];
  const roomId = await server.room();
  const joined = (identity: string, region: string) => server.joined(roomId, identity, { mint: { region } });
  const [ada, ben, cyd] = [await joined("ada", "eu"), await joined("ben", "us"), await joined("cyd", "asia")];
  expect([ada, ben, cyd].map(({ ack }) => ack.serverName)).toEqual(["eu", "us", "asia"]);
  const linkOf = (one: typeof eu, two: typeof eu) => one.linkIds.find((id) => two.linkIds.includes(id)) ?? "";
  const says = ({ node }: typeof eu, linkId: string, state: "silent" | "down") =>
    node.emit({ type: "linkChanged", linkId, state, rttMs: null });
  /** The participants who were told to join again. */
  const moved = async () => {
    await settled();
    const all = { ada, ben, cyd };
    return Object.entries(all).flatMap(([name, { of }]) => (of("bye").length > 0 ? [name] : []));
  };
  return { roomId, eu, us, asia, ada, ben, cyd, add, linkOf, says, moved };
}

test("no code assumes that a room is on one media node", async () => {
  const found: string[] = [];
  for await (const file of new Glob("src/**/*.ts").scan(".")) {
    if (
      /\broom\??\.placed\b|\{[^{}=]*\bplaced\b[^{}=]*\}(: LiveRoom| = \w*[rR]oom\b)/.test(await Bun.file(file).text())
    )
      found.push(file);
  }
  expect(found).toEqual([]);
});

test("of two nodes that cannot reach each other, the main site of the room stays", async () => {
  const { eu, us, ben, linkOf, says, moved } = await apart();
  says(eu, linkOf(eu, us), "down");
  expect(await moved()).toEqual(["ben"]);
  expect(ben.of("bye")[0]).toMatchObject({ reason: "node_lost", action: "rejoin" });
});

test("of two nodes that cannot reach each other, the one that a third node cannot reach either leaves the room", async () => {
  const { eu, us, asia, linkOf, says, moved } = await apart();
  says(asia, linkOf(eu, asia), "silent");
  says(us, linkOf(eu, us), "down");
  expect(await moved()).toEqual(["ada"]);
});

test("a main site leaves the room at once if neither the server nor the other nodes can reach it", async () => {
  const { eu, us, asia, linkOf, says, moved } = await apart();
  Object.assign(eu.node, { remote: { ...HEARD, silentMs: 3_000 } });
  for (const other of [us, asia]) says(other, linkOf(eu, other), "down");
  expect(await moved()).toEqual(["ada"]);
});

test("operators see the links between nodes, with the worse figures of the two ends, and the participants of each node", async () => {
  const { roomId, eu, us, asia, linkOf } = await apart();
  const id = linkOf(eu, us);
  eu.node.emit({ type: "linkChanged", linkId: id, state: "up", rttMs: 80, lossPercent: 0.5, limitBps: 900_000 });
  us.node.emit({ type: "linkChanged", linkId: id, state: "silent", rttMs: 78.4, lossPercent: 4 });
  const { token: operator } = await server.session({ operator: true });
  const { status, body } = await server.call("GET", "/v1/rtc/links", { key: operator });
  expect(status).toBe(200);
  const { links, rooms } = body as { links: { id: string; servers: string[] }[]; rooms: unknown[] };
  expect(links.map(({ servers }) => servers.join()).sort()).toEqual(["eu,asia", "eu,us", "us,asia"]);
  expect(links.find((link) => link.id === id)).toEqual({
    id,
    servers: ["eu", "us"],
    state: "silent",
    rttMs: 80,
    lossPercent: 4,
    limitBps: 900_000,
    tracks: 0,
    rooms: 1,
  } as never);
  expect(rooms).toEqual([
    {
      id: roomId,
      projectId: server.projectId,
      name: expect.any(String),
      sites: ["eu", "us", "asia"].map((name) => ({ serverName: name, region: name, participants: 1 })),
      links: [id, linkOf(eu, asia), linkOf(us, asia)],
    },
  ]);
  expect((await server.call("GET", "/v1/rtc/links", { key: server.key })).status).toBe(401);
});

test.each([
  {
    here: { lossPercent: 8 },
    there: { lossPercent: 0 },
    sentence: "8 % of the packets were lost between two media servers of the room, on their way to the participant.",
  },
  {
    here: { limitBps: null },
    there: { limitBps: 700_000 },
    sentence:
      "For 10 seconds, the bandwidth between two media servers of the room was too low for the video: it fell to 700 kbit/s.",
  },
])("[17] a call made bad by a link is explained to those who get tracks over it: $sentence", async (told) => {
  const { roomId, eu, us, ada, ben, linkOf } = await apart();
  const id = linkOf(eu, us);
  eu.node.emit({ type: "linkChanged", linkId: id, state: "up", rttMs: 80, ...told.there });
  us.node.emit({ type: "linkChanged", linkId: id, state: "up", rttMs: 80, ...told.here });
  const measured = (site: typeof eu, identity: string, usesLinks: boolean) => {
    const participantId = site.node.peers().find((peer) => peer.identity === identity)?.participantId ?? "";
    const stats = { ...QUIET, usesLinks };
    site.node.emit({ type: "transportStats", roomId, participantId, identity, stats });
  };
  const dan = await server.joined(roomId, "dan", { mint: { region: "us" } });
  for (let n = 0; n < 8; n++) {
    server.clock.advance(5_000);
    measured(eu, "ada", true);
    measured(us, "ben", true);
    measured(us, "dan", false);
  }
  expect(ben.of("quality.explained")).toMatchObject([{ cause: "server_link", sentence: told.sentence }]);
  // Nothing is lost in the other direction, and a participant who gets no media over the link is not affected.
  expect([ada, dan].flatMap(({ of }) => of("quality.explained"))).toEqual([]);
});

test("a room is linked again when the worker with the links crashes, and not when another one does", async () => {
  const { roomId, eu, us, moved } = await apart();
  const crash = async (worker: number) => {
    for (const { node } of [eu, us]) node.calls.length = 0;
    const rooms = [{ roomId, participantIds: [], remains: true }];
    eu.node.emit({ type: "workerCrashed", worker, rooms } satisfies MediaEvent);
    await settled();
    return us.node.calls.filter((call) => call !== "relay");
  };
  expect(await crash(1)).toEqual([]);
  expect(await crash(0)).toEqual(expect.arrayContaining(["unshareRoom", "openLink", "shareRoom"]));
  expect(await moved()).toEqual([]);
});

test("no new participant is placed on a node that is not connected", async () => {
  const { roomId, us } = await apart();
  Object.assign(us.node, { remote: { ...HEARD, connected: false } });
  const dan = await server.joined(roomId, "dan", { mint: { region: "us" } });
  expect(dan.ack.serverName).toBe("eu");
});

/** The records of the participants that are added to the node from now on, with which it reports them after a restart. */
function recordsGivenTo(node: FakeMediaNode): Map<string, string | undefined> {
  const records = new Map<string, string | undefined>();
  const { addParticipant } = node;
  Object.assign(node, {
    addParticipant: async (request: Parameters<typeof addParticipant>[0]) => {
      records.set(request.participantId, request.record);
      await addParticipant(request);
    },
  });
  return records;
}

test("participants whom a node reports after a restart are removed from it if they are unknown or have joined elsewhere", async () => {
  const { roomId, us, ada } = await apart();
  const records = recordsGivenTo(us.node);
  const dan = await server.joined(roomId, "dan", { mint: { region: "us" } });
  const eve = await server.joined(roomId, "eve", { mint: { region: "us" } });
  const found = await us.node.room({ roomId });
  const reported = (found?.participants ?? []).map((one) => ({ ...one, record: records.get(one.participantId) }));
  const [danId, eveId] = [dan, eve].map(({ ack }) => String(ack.sessionId));
  // The state after a restart: Dan is expected to return, and Eve has joined elsewhere meanwhile.
  for (const client of [dan, eve]) await client.ask("room.leave");
  const again = await server.joined(roomId, "eve", { mint: { region: "eu" } });
  for (const session of server.services.signaling.core.registry.sessions())
    if (session.site.serverName === "us")
      server.services.signaling.core.membership.leave(session, "left", { keepMedia: true });
  server.services.signaling.core.registry.room(roomId)?.sites.delete("us");
  const removed: string[] = [];
  const { removeParticipant } = us.node;
  Object.assign(us.node, {
    removeParticipant: async (request: Parameters<typeof removeParticipant>[0]) =>
      void removed.push(request.participantId),
  });
  us.node.emit({ type: "roomsFound", rooms: [{ roomId, participants: reported }], links: [] });
  await settled();
  const unknown = reported.flatMap(({ participantId, record }) => (record === undefined ? [participantId] : []));
  expect(unknown).toHaveLength(1);
  expect(removed.sort()).toEqual([...unknown, eveId ?? ""].sort());
  const present = server.services.signaling.core.registry.room(roomId)?.sessions;
  expect(present?.get("dan")?.id).toBe(danId ?? "");
  expect(present?.get("eve")?.id).toBe(String(again.ack.sessionId));
  expect(ada.of("bye")).toEqual([]);
});

test("a node that reports its calls while another one is being added to the room keeps them", async () => {
  const { roomId, us, add, linkOf } = await apart();
  const { registry, membership } = server.services.signaling.core;
  const records = recordsGivenTo(us.node);
  const dan = await server.joined(roomId, "dan", { mint: { region: "us" } });
  const found = await us.node.room({ roomId });
  const participants = (found?.participants ?? []).flatMap((one) => {
    const record = records.get(one.participantId);
    return record === undefined ? [] : [{ ...one, record }];
  });
  // The state after a restart: the server has not heard of the node yet.
  for (const session of registry.sessions())
    if (session.site.serverName === "us") membership.leave(session, "left", { keepMedia: true });
  registry.room(roomId)?.sites.delete("us");
  us.node.calls.length = 0;

  const africa = await add("africa", "africa");
  const opening = Promise.withResolvers<void>();
  const isOpening = Promise.withResolvers<void>();
  const { openRoom } = africa.node;
  Object.assign(africa.node, {
    openRoom: async (request: Parameters<typeof openRoom>[0]) => {
      isOpening.resolve();
      await opening.promise;
      return openRoom(request);
    },
  });
  const joining = server.joined(roomId, "fay", { mint: { region: "africa" } });
  await isOpening.promise;
  us.node.emit({ type: "roomsFound", rooms: [{ roomId, participants }], links: [] });
  opening.resolve();
  const fay = await joining;
  expect(us.node.calls).not.toContain("closeRoom");
  expect(registry.room(roomId)?.sessions.get("dan")?.id).toBe(String(dan.ack.sessionId));
  expect(fay.ack.serverName).toBe("africa");
  expect([...(registry.room(roomId)?.sites.keys() ?? [])].sort()).toEqual(["africa", "asia", "eu", "us"]);
  expect(linkOf(africa, us)).not.toBe("");
});
