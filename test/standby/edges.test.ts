import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "bun:test";
import { AGAIN_PROTOCOL } from "../../src/protocol/again.ts";
import { type TestPostgres, testPostgres } from "../harness/postgres.ts";
import { openPage, type Page } from "../sdk/page.ts";
import { Group, type GroupMember, readyz } from "./group.ts";
import { NOTHING_WRONG } from "./history.ts";
import { giveAddress, Load } from "./load.ts";

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
  group = new Group(await postgres.database());
  await group.startFirst();
  await group.leader();
  edge = await group.start("edge", { ROLE: "edge" });
  while ((await readyz(edge.url))?.status !== "ready") await Bun.sleep(50);
  group.through = edge.url;
}, 180_000);
afterEach(async () => {
  await group.close();
  withoutAddress();
  page.close();
});

test("an edge carries requests as they are, and who asks cannot be made up", async () => {
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
  const stays = await plainClient([AGAIN_PROTOCOL]);
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
