// suite: all
/** A participant against the compiled binary: what its token opens, and the worker that its room shares with others. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import {
  joinPublisher,
  joinSubscriber,
  type LoadParticipant,
  makeCertificate,
} from "../../src/ops/load-test/participants.ts";
import { type AttackedServer, type AttackedTenant, attackedServer } from "./attacked-server.ts";
import { HostileParticipant, PARTICIPANT_ATTACKS } from "./hostile-participant.ts";
import { TOKEN_ATTACKS } from "./hostile-token.ts";

const LONG = 60_000;
const PACKETS = 1_500;
const AT_ONCE = 50;
/** The longest freeze of the honest call; without limits the worker hung for minutes. */
const MAX_FREEZE_MS = 2_000;

let server: AttackedServer;
let honest: AttackedTenant;
let owner: AttackedTenant;
const leaving: LoadParticipant[] = [];
/** When the newest packet of the honest call arrived, and a promise of the next. */
const heard = { atMs: 0, next: Promise.withResolvers<void>() };

beforeAll(async () => {
  server = await attackedServer({ env: { MEDIA_WORKERS: "1", SIGNALING_MAX_CONNECTIONS_PER_WINDOW: "10000" } });
  honest = await server.tenant("honest");
  owner = await server.tenant("hostile");
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
}, 240_000);

afterAll(async () => {
  for (const participant of leaving) await participant.leave();
  await server.stop();
}, LONG);

for (const [name, attack] of Object.entries(TOKEN_ATTACKS)) {
  test(name, () => attack({ server, owner }), LONG);
}

for (const [name, attack] of Object.entries(PARTICIPANT_ATTACKS)) {
  test(
    `${name}: the call of another tenant on the same worker continues`,
    async () => {
      const roomId = await owner.room();
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
  const figures = await (await fetch(`${server.url}/metrics`)).text();
  expect(Number(/^stoa_media_refused_packets_total(?:\{.*\})? (\d+)$/m.exec(figures)?.[1])).toBeGreaterThan(0);
});
