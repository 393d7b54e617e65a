import { afterAll, beforeAll, expect, test } from "bun:test";
import { decodeJwt, SignJWT } from "jose";
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

test("a token that claims to replace another participant's counts as its own", async () => {
  const ann = await RawClient.open(stage.wsUrl, await stage.token("own", "ann"));
  await ann.hears("join");
  const { stoaTokenId } = decodeJwt(await ann.hears("refreshToken"));
  await stage.rooms.removeParticipant("own", "ann");
  await ann.isClosed();
  const { video } = decodeJwt(await stage.token("own", "ben"));
  const signed = (sub: string) =>
    new SignJWT({ video, stoaTokenId })
      .setProtectedHeader({ alg: "HS256" })
      .setIssuer(stage.apiKey)
      .setSubject(sub)
      .setExpirationTime("10m")
      .sign(Buffer.from(stage.apiSecret));
  expect(await validate(await signed("ann"))).toBe(401);
  expect(await validate(await signed("ben"))).toBe(200);
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
