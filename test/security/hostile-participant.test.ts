// suite: all
/** A participant who attacks the worker that its room shares with the room of another tenant. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import {
  joinPublisher,
  joinSubscriber,
  type LoadParticipant,
  makeCertificate,
} from "../../src/ops/load-test/participants.ts";
import { type Api, createApi } from "../harness/api.ts";
import { type RealServer, realServer } from "../harness/real-server.ts";
import { HostileParticipant, PARTICIPANT_ATTACKS } from "./hostile-participant.ts";

const LONG = 60_000;
const PACKETS = 1_500;
const AT_ONCE = 50;
/** What a frame of the honest call may take; without bounds the worker hung for minutes. */
const MAX_FREEZE_MS = 2_000;

let server: RealServer;
const leaving: LoadParticipant[] = [];
/** When the newest packet of the honest call arrived, and a promise of the next. */
const heard = { atMs: 0, next: Promise.withResolvers<void>() };

async function tenant(): Promise<Api> {
  const { runtime, services, url } = server;
  return runtime.write((unit) => {
    const account = { email: `${crypto.randomUUID()}@example.com`, passwordHash: null, emailVerified: true };
    const owner = services.users.create(unit, { ...account, isOperator: false });
    const { id } = services.projects.create(unit, owner.id, { name: "tenant" });
    return createApi(url, services.apiKeys.create(unit, id, { name: "test", environment: "DEVELOPMENT" }).key);
  });
}

beforeAll(async () => {
  server = await realServer({
    ...{ LOG_LEVEL: "silent", MEDIA_WORKERS: 1, SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 10_000 },
    RATE_LIMIT_RTC_TOKENS: 10_000,
  });
  const honest = await tenant();
  const roomId = String((await honest.call("POST", "/v1/rooms", { name: "honest" })).body.id);
  const credentials = async (identity: string) => {
    const { token } = await honest.mint(roomId, identity);
    return { url: server.url, token, certificate: await makeCertificate() };
  };
  const publisher = await joinPublisher(await credentials("ann"));
  leaving.push(publisher);
  leaving.push(
    await joinSubscriber(await credentials("ben"), [await publisher.trackId], () => {
      heard.atMs = performance.now();
      const { resolve } = heard.next;
      heard.next = Promise.withResolvers();
      resolve();
    }),
  );
}, LONG);

afterAll(async () => {
  for (const participant of leaving) await participant.leave();
  await server.close();
}, LONG);

for (const [name, attack] of Object.entries(PARTICIPANT_ATTACKS)) {
  test(
    `${name}: the call of another tenant on the same worker goes on`,
    async () => {
      const owner = await tenant();
      const roomId = String((await owner.call("POST", "/v1/rooms", { name: "hostile" })).body.id);
      const { token } = await owner.mint(roomId, "mallory");
      const mallory = await HostileParticipant.join(server.url, token);
      expect((await owner.call("POST", `/v1/rooms/${roomId}/recordings`, {})).status).toBe(201);
      let longestMs = 0;
      for (let round = 0; round < PACKETS; round++) {
        attack(mallory, round);
        if (round % AT_ONCE > 0) continue;
        const sinceMs = heard.atMs;
        await heard.next.promise;
        longestMs = Math.max(longestMs, heard.atMs - sinceMs);
      }
      expect(longestMs).toBeLessThan(MAX_FREEZE_MS);
      await mallory.leave();
    },
    LONG,
  );
}

test("control packets beyond a connection's share are dropped", async () => {
  const { refused } = await server.media.node.load();
  expect(refused.controlOverShare).toBeGreaterThan(0);
});
