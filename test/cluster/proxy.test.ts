import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "bun:test";
import { REPEAT_PROTOCOL } from "../../src/protocol/again.ts";
import { type TestPostgres, testPostgres } from "../harness/postgres.ts";
import { openPage, type Page } from "../web/sdk/page.ts";
import { Group, type GroupMember, readyz } from "./group.ts";
import { NOTHING_WRONG } from "./history.ts";
import { giveAddress, Load } from "./load.ts";

const TYPING_LIMIT = 5;

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await testPostgres();
}, 180_000);
afterAll(() => postgres.close());

let group: Group;
let edge: GroupMember;
let page: Page;
let withoutAddress: () => void;
beforeEach(async () => {
  page = openPage();
  withoutAddress = giveAddress();
  group = new Group(await postgres.database(), { CHAT_TYPING_RATE_LIMIT: String(TYPING_LIMIT) });
  await group.startFirst();
  await group.leader();
  edge = await startEdge("edge");
  group.through = edge.url;
}, 180_000);
async function startEdge(name: string): Promise<GroupMember> {
  const started = await group.start(name, { ROLE: "edge" });
  while ((await readyz(started.url))?.status !== "ready") await Bun.sleep(50);
  return started;
}
afterEach(async () => {
  await group.close();
  withoutAddress();
  page.close();
});

test("an edge forwards requests unchanged, and a client's address cannot be forged", async () => {
  const leader = await group.leader();
  const made = await group.call("POST", "/v1/rooms", { name: "carried" });
  expect(made.status).toBe(201);
  const direct = await fetch(`${leader.url}/v1/rooms/${made.body.id ?? made.body.publicId}`, {
    headers: { authorization: `Bearer ${group.key}` },
  });
  expect(direct.status).toBe(200);
  const stranger = await fetch(`${edge.url}/v1/rooms`);
  expect(stranger.status).toBe(401);
  expect(await stranger.json()).toMatchObject({ code: expect.any(String), requestId: expect.any(String) });
  // A member's route needs the secret, whatever a client says of itself.
  const headers = { "x-stoa-edge": "guessed", "x-stoa-edge-client": "203.0.113.9" };
  expect((await fetch(`${edge.url}/v1/cluster/snapshot`, { headers })).status).toBe(404);
  expect((await fetch(`${edge.url}/v1/chat/ws`)).status).toBe(400);
  expect(await readyz(edge.url)).toMatchObject({ status: "ready", role: "edge", leader: leader.url });
}, 180_000);

test("[contract 24] /readyz of an edge says `starting` before it has found a leader, and `standby` after it has lost one", async () => {
  const unready = (state: string) => ({ status: "unavailable", reasons: { [state]: "not connected to a leader" } });
  await group.kill(await group.leader());
  while ((await readyz(edge.url))?.status === "ready") await Bun.sleep(50);
  expect(await readyz(edge.url)).toMatchObject(unready("standby"));
  const late = await group.start("late", { ROLE: "edge" });
  expect(await readyz(late.url)).toMatchObject(unready("starting"));
}, 180_000);

/** A client without the SDK, which stays for as long as it is let. */
async function plainClient(protocols: string[]) {
  const { body } = await group.call("POST", "/v1/chat/tokens", { userId: "plain", ttlSeconds: 3600 });
  const socket = new WebSocket(`${edge.url.replace("http", "ws")}/v1/chat/ws`, [`token.${body.token}`, ...protocols]);
  const greetings: string[] = [];
  let greeted = Promise.withResolvers<void>();
  socket.addEventListener("message", ({ data }) => {
    const frame = JSON.parse(String(data));
    if (frame.type !== "connected") return;
    greetings.push(frame.connectionId);
    greeted.resolve();
    greeted = Promise.withResolvers();
  });
  const closed = new Promise<number>((resolve) => socket.addEventListener("close", ({ code }) => resolve(code)));
  await greeted.promise;
  return { socket, greetings, closed, greeted: () => greeted.promise };
}

test("clients of an edge keep their sockets when the leader is killed, and nothing is lost, doubled or skipped", async () => {
  await group.start("second");
  const load = await Load.start(group);
  const stays = await plainClient([REPEAT_PROTOCOL]);
  const cannot = await plainClient([]);
  const greetedAgain = stays.greeted();
  await load.more(50);
  await group.kill(await group.leader());
  expect((await group.leader()).name).toBe("second");
  await greetedAgain;
  expect(stays.socket.readyState).toBe(WebSocket.OPEN);
  expect(new Set(stays.greetings).size).toBe(2);
  // Told to come back, as by a server that restarts.
  expect(await cannot.closed).toBe(1012);
  await load.more(50);
  expect(await load.finish()).toEqual(NOTHING_WRONG);
  stays.socket.close();
}, 180_000);

type Frame = { type: string; id?: string; code?: string; userId?: string; status?: string };

/** A user in a conversation, with all frames it got. */
async function inConversation(url: string, userId: string, room: string) {
  const { body } = await group.call("POST", "/v1/chat/tokens", { userId, ttlSeconds: 3600 });
  const socket = new WebSocket(`${url.replace("http", "ws")}/v1/chat/ws`, [`token.${body.token}`]);
  const frames: Frame[] = [];
  socket.addEventListener("message", ({ data }) => void frames.push(JSON.parse(String(data))));
  const told = async (is: (frame: Frame) => boolean): Promise<Frame> => {
    for (;;) {
      const found = frames.find(is);
      if (found !== undefined) return found;
      await Bun.sleep(10);
    }
  };
  let asked = 0;
  const ask = (frame: object): Promise<Frame> => {
    const id = `${userId}-${++asked}`;
    socket.send(JSON.stringify({ ...frame, id }));
    return told((frame) => frame.id === id);
  };
  await told(({ type }) => type === "connected");
  expect(await ask({ type: "room.join", room })).toMatchObject({ type: "ack" });
  return { socket, frames, told, ask };
}

test("presence, limits and message order are consistent across two edges", async () => {
  const other = await startEdge("edge-2");
  const room = "both";
  await group.call("POST", "/v1/chat/conversations", { name: room, members: [{ userId: "ann" }, { userId: "bob" }] });
  const ann = await inConversation(edge.url, "ann", room);
  const isOfBob = (status: string) => (frame: Frame) =>
    frame.type === "presence" && frame.userId === "bob" && frame.status === status;
  const here = await inConversation(edge.url, "bob", room);
  await ann.told(isOfBob("online"));
  const there = await inConversation(other.url, "bob", room);
  // Bob is still there, by his other socket.
  await here.ask({ type: "room.leave", room });
  await there.ask({ type: "presence.set", status: "away" });
  await ann.told(isOfBob("away"));

  // One was that. The rest of what he may do is the same at either edge.
  const answers: Frame[] = [];
  expect(await here.ask({ type: "room.join", room })).toMatchObject({ type: "ack" });
  for (let times = 0; times < TYPING_LIMIT; times++) {
    answers.push(await (times % 2 === 0 ? here : there).ask({ type: "typing.start", room }));
  }
  expect(answers.map(({ type, code }) => code ?? type)).toEqual(["ack", "ack", "ack", "ack", "RATE_LIMITED"]);
  await here.ask({ type: "room.leave", room });
  await there.ask({ type: "room.leave", room });
  await ann.told(isOfBob("offline"));
  const ofBob = ann.frames.filter(({ type, userId }) => type === "presence" && userId === "bob");
  expect(ofBob.map(({ status }) => status)).toEqual(["online", "away", "offline"]);
  for (const { socket } of [ann, here, there]) socket.close();

  const load = await Load.start(group, { fronts: [edge.url, other.url], senders: 6, listeners: 4 });
  await load.more(300);
  expect(await load.finish()).toEqual(NOTHING_WRONG);
  const metrics = await (await fetch(`${other.url}/metrics`)).text();
  expect(metrics).toContain("\nstoa_edge_connected 1\n");
  expect(metrics).toMatch(/\nstoa_edge_sockets \d+\n/);
}, 180_000);
