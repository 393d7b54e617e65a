import { afterAll, beforeAll, expect, test } from "bun:test";
import { decodeJwt, SignJWT } from "jose";
import { createTokenCutoffs } from "../../../src/features/rooms/token-cutoffs.ts";
import { COMMAND_LINE } from "../../../src/kernel/author.ts";
import { voidTokensBefore } from "../../../src/kernel/data-directory/installation.ts";
import { RawClient } from "./harness/raw-client.ts";
import { RawWorker } from "./harness/raw-worker.ts";
import { openStage, type Stage } from "./harness/stage.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
}, 120_000);
afterAll(() => stage.close());

const validate = async (token: string) =>
  (await fetch(`${stage.server.url}/rtc/v1/validate?access_token=${token}`)).status;

test("a client that outlives its token gets a new one, which a removal revokes as well", async () => {
  const options = { ttl: 120, name: "Ann Ö.", attributes: { team: "red" } };
  const first = await stage.token("long", "ann", options);
  const ann = await RawClient.open(stage.wsUrl, first);
  const { participant } = await ann.hears("join");
  const fresh = await ann.hears("refreshToken");
  const [before, after] = [decodeJwt(first), decodeJwt(fresh)];
  expect((after.exp ?? 0) - (before.exp ?? 0)).toBeGreaterThan(300);
  expect(after).toMatchObject({ sub: "ann", iss: stage.apiKey, name: "Ann Ö.", attributes: { team: "red" } });
  expect(after.video).toEqual(before.video);

  // With it the same participant resumes and rejoins.
  ann.close();
  await ann.isClosed();
  const back = await RawClient.open(stage.wsUrl, fresh, `&reconnect=1&sid=${participant?.sid}`);
  await back.hears("reconnect");
  const again = await RawClient.open(stage.wsUrl, fresh);
  expect((await again.hears("join")).participant?.name).toBe("Ann Ö.");
  const newest = await again.hears("refreshToken");
  await stage.rooms.removeParticipant("long", "ann");
  await again.isClosed();
  expect(await Promise.all([first, fresh, newest].map(validate))).toEqual([401, 401, 401]);
  expect(await validate(await stage.token("long", "ann", { ttl: 900 }))).toBe(200);
});

test("a token for an identity or a room that no path can name is refused", async () => {
  expect(await validate(await stage.token("dots", "..."))).toBe(200);
  for (const [room, identity] of [
    ["dots", ".."],
    ["dots", "."],
    ["..", "ann"],
    ["dots", " ann"],
  ] as const)
    expect([room, identity, await validate(await stage.token(room, identity))]).toEqual([room, identity, 401]);
});

test("a token that claims to replace another participant's counts as its own", async () => {
  const ann = await RawClient.open(stage.wsUrl, await stage.token("own", "ann"));
  await ann.hears("join");
  const { stoaTokenId } = decodeJwt(await ann.hears("refreshToken"));
  await stage.rooms.removeParticipant("own", "ann");
  await ann.isClosed();
  const { video } = decodeJwt(await stage.token("own", "ben"));
  const claiming = (sub: string) =>
    new SignJWT({ video, stoaTokenId })
      .setProtectedHeader({ alg: "HS256" })
      .setIssuer(stage.apiKey)
      .setSubject(sub)
      .setExpirationTime("10m")
      .sign(Buffer.from(stage.apiSecret));
  expect(await validate(await claiming("ann"))).toBe(401);
  expect(await validate(await claiming("ben"))).toBe(200);
});

const signed = (sub: string, room: string, times: { iat?: number; nbf?: number; exp?: number } = {}) => {
  const exp = Math.floor(Date.now() / 1000) + 600;
  return new SignJWT({ video: { roomJoin: true, room }, exp, ...times, iss: stage.apiKey, sub })
    .setProtectedHeader({ alg: "HS256" })
    .sign(Buffer.from(stage.apiSecret));
};

test("a removal voids the tokens that were signed before it and never used, even without a time and in the next room", async () => {
  const nowSeconds = Math.floor(Date.now() / 1000);
  const unused = await Promise.all([
    stage.token("away", "ann", { ttl: 700 }),
    signed("ann", "away", { iat: nowSeconds }),
    signed("ann", "away", { nbf: nowSeconds - 60 }),
    signed("ann", "away"),
    // As livekit-server-sdk before 2.15.1 signs.
    signed("ann", "away", { nbf: 0 }),
  ]);
  expect(await Promise.all(unused.map(validate))).toEqual([200, 200, 200, 200, 200]);
  const ann = await RawClient.open(stage.wsUrl, await stage.token("away", "ann"));
  await ann.hears("join");
  await stage.rooms.removeParticipant("away", "ann");
  expect(await Promise.all(unused.map(validate))).toEqual([401, 401, 401, 401, 401]);
  // A token that is signed when the removal has returned gets in, and so do other people and other rooms.
  const others = [stage.token("away", "ann", { ttl: 800 }), signed("ben", "away"), signed("ann", "elsewhere")];
  expect(await Promise.all((await Promise.all(others)).map(validate))).toEqual([200, 200, 200]);
  await stage.rooms.deleteRoom("away");
  expect(await Promise.all(unused.map(validate))).toEqual([401, 401, 401, 401, 401]);
});

test("a token lives thirty days from when it was signed, whenever it is used", async () => {
  const day = 86_400;
  const nowSeconds = Math.floor(Date.now() / 1000);
  const of = (signedDaysAgo: number, expiresInDays: number) =>
    signed("ann", "long-lived", { iat: nowSeconds - signedDaysAgo * day, exp: nowSeconds + expiresInDays * day });
  const tokens = await Promise.all([of(0, 30), of(20, 10), of(0, 31), of(20, 20)]);
  expect(await Promise.all(tokens.map(validate))).toEqual([200, 200, 401, 401]);
});

test("an erasure voids the tokens of the person in all rooms", async () => {
  const before = await Promise.all([signed("zoe", "a", { iat: Math.floor(Date.now() / 1000) }), signed("zoe", "b")]);
  expect(await Promise.all(before.map(validate))).toEqual([200, 200]);
  const user = { projectId: stage.server.projectId, environment: "DEVELOPMENT", userId: "zoe" } as const;
  const { erasures } = stage.server.services.privacy;
  await erasures.request(user, COMMAND_LINE);
  await erasures.settled();
  expect(await Promise.all(before.map(validate))).toEqual([401, 401]);
});

test("the data of a participant with any identity can be looked up, exported and erased, in any normal form", async () => {
  const { people } = stage.stoa;
  const [composed, decomposed] = ["Zoë García/Ö", "Zoë García/Ö".normalize("NFD")] as const;
  const zoe = await RawClient.open(stage.wsUrl, await stage.token("clinic", composed));
  await zoe.hears("join");
  expect((await people.get(decomposed)).total).toBeGreaterThan(0);
  expect((await people.export(decomposed)).status).toBe("RUNNING");
  await people.erase(decomposed);
  await zoe.isClosed();
  await stage.server.services.privacy.erasures.settled();
  expect(await people.get(composed)).toMatchObject({ userId: composed, total: 0, erasure: { status: "DONE" } });
});

test("rooms and participants are found by their names in any normal form", async () => {
  const [room, identity] = ["Café Zoë", "Zoë Ö"].map((name) => name.normalize("NFD")) as [string, string];
  const { rooms, recordings } = stage.stoa;
  const zoe = await RawClient.open(stage.wsUrl, await stage.token("Café Zoë", "Zoë Ö"));
  await zoe.hears("join");
  expect((await rooms.participants(room)).map((one) => one.identity)).toEqual(["Zoë Ö"]);
  expect(await recordings.list({ roomId: room })).toEqual([]);
  await rooms.sendData(room, { payload: "x", to: [identity] });
  expect((await rooms.updateParticipant(room, identity, { metadata: "m" })).metadata).toBe("m");
  await rooms.removeParticipant(room, identity);
  await zoe.isClosed();
});

test("after a restore the tokens signed before it are void, as the backup does not know later removals", async () => {
  const { runtime, projectId } = stage.server;
  const of = { projectId, environment: "DEVELOPMENT", roomName: "a", identity: "cay" } as const;
  const restoredAt = 1_800_000_000_000;
  expect(createTokenCutoffs(runtime).isVoid(of, null)).toBe(false);
  const restored = await openStage();
  try {
    const { runtime } = restored.server;
    await runtime.write((unit) => voidTokensBefore(unit, runtime.db, restoredAt));
    const { isVoid } = createTokenCutoffs(runtime);
    expect([null, restoredAt - 1000, restoredAt].map((signedAt) => isVoid(of, signedAt))).toEqual([true, true, false]);
  } finally {
    await restored.close();
  }
});

test("with LIVEKIT_CLIENTS=off none of the paths exists", async () => {
  const closed = await openStage({ LIVEKIT_CLIENTS: "off" });
  try {
    const token = await closed.token("lobby", "ann", { grant: { agent: true } });
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    for (const path of ["/rtc", "/rtc/validate", "/rtc/v1", "/rtc/v1/validate", "/agent"]) {
      expect([path, (await fetch(`${closed.server.url}${path}?access_token=${token}`, { headers })).status]).toEqual([
        path,
        404,
      ]);
    }
    const asked = { method: "POST", headers, body: "{}" };
    expect((await fetch(`${closed.server.url}/twirp/livekit.RoomService/ListRooms`, asked)).status).toBe(404);
    await expect(RawWorker.open(closed.wsUrl, token)).rejects.toThrow("refused");
  } finally {
    await closed.close();
  }
});
