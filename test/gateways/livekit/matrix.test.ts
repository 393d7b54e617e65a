import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import { decodeJwt } from "jose";
import { rtcServer } from "../../harness/rtc.ts";
import { RawClient } from "./harness/raw-client.ts";
import { emitted, enter, exchange, prepare } from "./harness/rooms-in-page.ts";
import { openStage, type Stage, WAIT_MS } from "./harness/stage.ts";

const KEY = "a".repeat(16);
const HOME = "example.org";
const FAR = "far.example";
const PUBLIC = "93.184.216.34";

/** The requests that reached a homeserver, as `host path`, and what the homeservers say. */
const asked: string[] = [];
let users: Record<string, string> = {};
let addresses: Record<string, string> = {};
let delayed: (path: string) => number = () => 200;
const wake = new Set<() => void>();

async function homeservers(address: URL | string, init: RequestInit = {}): Promise<Response> {
  const url = new URL(address);
  const host = new Headers(init.headers).get("host") ?? "";
  asked.push(`${host} ${url.pathname}`);
  for (const one of wake) one();
  expect(init.redirect).toBe("manual");
  if (url.pathname === "/.well-known/matrix/server") {
    return host === HOME ? Response.json({ "m.server": "matrix.example.org:443" }) : new Response("", { status: 404 });
  }
  if (url.pathname === "/.well-known/matrix/client") {
    return Response.json({ "m.homeserver": { base_url: "https://client.example.org/" } });
  }
  if (url.pathname === "/_matrix/federation/v1/openid/userinfo") {
    const sub = users[url.searchParams.get("access_token") ?? ""];
    if (sub === "redirect") return new Response("", { status: 302, headers: { location: "http://127.0.0.1/" } });
    return sub === undefined ? Response.json({ errcode: "M_UNKNOWN_TOKEN" }, { status: 401 }) : Response.json({ sub });
  }
  return new Response("{}", { status: delayed(url.pathname) });
}

/** Waits until the requests to the homeservers fulfil a condition. */
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) {
    await new Promise<void>((resolve) => {
      const woken = () => {
        wake.delete(woken);
        resolve();
      };
      wake.add(woken);
    });
  }
}

let stage: Stage;
beforeAll(async () => {
  stage = await openStage({ MATRIX_HOMESERVERS: [HOME], MATRIX_API_KEY: KEY });
  const { runtime } = stage.server;
  // The setting names a key, and this server's keys are made after its start.
  await runtime.write(
    () => void runtime.db.$client.run("UPDATE api_keys SET public_id = ? WHERE id = ?", [KEY, stage.keyId]),
  );
  const lookup = async (host: string) => [addresses[host] ?? PUBLIC];
  Object.assign(runtime, { fetch: homeservers, lookup });
}, 120_000);
afterAll(() => stage.close());
beforeEach(() => {
  asked.length = 0;
  users = { ann: "@ann:example.org", bob: "@bob:example.org", far: "@far:far.example", liar: "@ann:example.org" };
  addresses = {};
  delayed = () => 200;
});

async function post(path: string, body: object | string) {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const headers = { "content-type": "application/json", origin: "https://call.element.io" };
  const response = await fetch(`${stage.server.url}${path}`, { method: "POST", headers, body: text });
  return {
    status: response.status,
    cors: response.headers.get("access-control-allow-origin"),
    ...(await response.json()),
  };
}

const openId = (token: string, server = HOME) => ({
  openid_token: { access_token: token, token_type: "Bearer", matrix_server_name: server, expires_in: 3600 },
});
const legacy = (token: string, more: object = {}, server = HOME) =>
  post("/sfu/get", { room: "!room:example.org", device_id: "DEVICE", ...openId(token, server), ...more });
const member = (userId: string) => ({ id: "member", claimed_user_id: userId, claimed_device_id: "DEVICE" });
const current = (token: string, userId: string, more: object = {}, server = HOME, path = "/get_token") =>
  post(path, {
    room_id: "!room:example.org",
    slot_id: "m.call#ROOM",
    member: member(userId),
    ...openId(token, server),
    ...more,
  });

const digest = (...parts: string[]) => Bun.SHA256.hash(JSON.stringify(parts), "base64").replace(/=+$/, "");

test("an OpenID token that the homeserver confirms gives a token with which Element Call joins", async () => {
  const { status, url, jwt, cors } = await legacy("ann");
  expect([status, url, cors]).toEqual([200, stage.wsUrl, "https://call.element.io"]);
  expect(asked).toEqual([
    "example.org /.well-known/matrix/server",
    "matrix.example.org /_matrix/federation/v1/openid/userinfo",
  ]);
  const { sub, iss, exp = 0, iat = 0 } = decodeJwt(jwt);
  expect([sub, iss]).toEqual(["@ann:example.org:DEVICE", KEY]);
  expect([3600, 3601]).toContain(exp - iat);
  const ann = await RawClient.open(url, jwt);
  const { room, participant } = await ann.hears("join");
  expect(participant?.identity).toBe("@ann:example.org:DEVICE");
  expect(room?.name).toMatch(/^[A-Za-z0-9+/]{43}$/);

  const bob = await current("bob", "@bob:example.org");
  expect(bob.status).toBe(200);
  const second = await RawClient.open(bob.url, bob.jwt);
  const joined = await second.hears("join");
  expect(joined.room?.name).toBe(room?.name as string);
  expect(joined.participant?.identity).toMatch(/^[A-Za-z0-9+/]{43}$/);
  const elsewhere = await current("bob", "@bob:example.org", { slot_id: "another" });
  expect(decodeJwt(elsewhere.jwt).video).not.toEqual(decodeJwt(bob.jwt).video);
  for (const client of [ann, second]) client.close();
});

test("names of rooms and identities are those of the test vectors of MSC4195", async () => {
  users.alice = "@alice:example.com";
  const alice = { id: "memberABC", claimed_user_id: "@alice:example.com", claimed_device_id: "DEVICE123" };
  const call = { room_id: "!roomid:example.com", slot_id: "slot1234", member: alice };
  const { jwt } = await post("/get_token", { ...call, ...openId("alice", "example.com") });
  const { sub, video } = decodeJwt<{ video: { room: string } }>(jwt);
  expect([sub, video.room]).toEqual([
    "J+T45tGruxc+HrUOqJJlyQSV33m728Cme4+vt8/SWrU",
    "O8437W3+jmzMVjoIP3tNwbm+XxHQk2iKpOA7aqw3qSc",
  ]);
});

test("a token that is not confirmed, or for another user or homeserver, is refused", async () => {
  for (const refused of [
    await legacy("unknown"),
    await current("ann", "@bob:example.org"),
    await legacy("liar", {}, FAR),
  ]) {
    expect([refused.status, refused.errcode, refused.jwt]).toEqual([401, "M_UNAUTHORIZED", undefined]);
  }
  users.moved = "redirect";
  expect((await legacy("moved")).status).toBe(401);
});

test("a homeserver that the setting does not name is contacted at public addresses only", async () => {
  for (const address of ["10.0.0.1", "127.0.0.1", "169.254.169.254", "::1"]) {
    addresses = { [FAR]: address };
    expect((await legacy("far", {}, FAR)).status).toBe(401);
    expect(asked).toEqual([]);
  }
  addresses = { [HOME]: "10.0.0.1", "matrix.example.org": "10.0.0.1" };
  expect((await legacy("ann")).status).toBe(200);
});

test("users of other homeservers can only join existing calls, and none with MATRIX_FEDERATION=off", async () => {
  const room = { room: "!federated:example.org" };
  const far = await legacy("far", room, FAR);
  expect(far.status).toBe(200);
  const validate = () => fetch(`${stage.server.url}/rtc/v1/validate?access_token=${far.jwt}`);
  expect((await validate()).status).toBe(404);
  const ann = await legacy("ann", room);
  const first = await RawClient.open(ann.url, ann.jwt);
  await first.hears("join");
  const second = await RawClient.open(far.url, far.jwt);
  expect((await second.hears("join")).participant?.identity).toBe("@far:far.example:DEVICE");
  for (const client of [first, second]) client.close();

  const closed = await rtcServer({ MATRIX_HOMESERVERS: [HOME], MATRIX_API_KEY: KEY, MATRIX_FEDERATION: "off" });
  const body = { ...room, device_id: "DEVICE", ...openId("far", FAR) };
  const refused = await closed.call("POST", "/sfu/get", { body });
  expect([refused.status, refused.body.errcode]).toEqual([403, "M_FORBIDDEN"]);
  await closed.close();
});

const EVENTS = "client.example.org /_matrix/client/unstable/org.matrix.msc4140/delayed_events";

test("a delegated leave event is delayed while the participant is in the call, and sent when it leaves", async () => {
  const delay = { delay_id: "d/1", delay_timeout: 2_000, delay_cs_api_url: "https://ignored.example" };
  const { url, jwt } = await current("ann", "@ann:example.org", { room_id: "!leave:x", ...delay });
  const ann = await RawClient.open(url, jwt);
  await ann.hears("join");
  const times = (action: string) => asked.filter((one) => one === `${EVENTS}/d%2F1/${action}`).length;
  await until(() => times("restart") >= 2);
  expect(times("send")).toBe(0);
  delayed = (path) => (path.endsWith("/send") && times("send") === 1 ? 500 : 200);
  ann.send({ case: "leave", value: {} as never });
  // The first attempt fails.
  await until(() => times("send") === 2);
});

test(
  "Element Call's requests and livekit-client in one page: a legacy and a current client meet, and their leaving is sent",
  async () => {
    const page = await stage.page("livekit-client");
    await prepare(page);
    const inCall = { room_id: "!call:example.org", slot_id: "m.call#ROOM" };
    const delay = { delay_timeout: 2_000, delay_cs_api_url: "https://client.example.org" };
    const asks = {
      ann: ["/sfu/get", { room: inCall.room_id, device_id: "ANNS", ...openId("ann"), ...delay, delay_id: "anns" }],
      bob: [
        "/get_token",
        { ...inCall, member: member("@bob:example.org"), ...openId("bob"), ...delay, delay_id: "bobs" },
      ],
    } as const;
    for (const [who, [path, body]] of Object.entries(asks)) {
      const { url, jwt } = await page.evaluate(
        async ([address, body]) => {
          const headers = { "content-type": "application/json" };
          return (await fetch(address, { method: "POST", headers, body: JSON.stringify(body) })).json();
        },
        [`${stage.server.url}${path}`, body] as const,
      );
      await enter(page, who, url, jwt, { publish: true });
    }
    await page.waitForFunction(() => ["ann", "bob"].every((who) => window.rooms[who].remoteParticipants.size === 1));
    const ids = await page.evaluate(() =>
      ["ann", "bob"].map((who) => {
        const { name, localParticipant, remoteParticipants } = window.rooms[who];
        return { room: name, own: localParticipant.identity, others: [...remoteParticipants.keys()] };
      }),
    );
    const [anns, bobs] = ["@ann:example.org:ANNS", ids[1]?.own as string];
    expect(bobs).toBe(digest("@bob:example.org", "DEVICE", "member"));
    const room = digest(inCall.room_id, inCall.slot_id);
    expect(ids).toEqual([
      { room, own: anns, others: [bobs] },
      { room, own: bobs, others: [anns] },
    ]);
    await exchange(page, "ann", "bob", { ann: anns, bob: bobs });

    const times = (event: string, action: string) =>
      asked.filter((one) => one === `${EVENTS}/${event}/${action}`).length;
    await until(() => times("anns", "restart") >= 2 && times("bobs", "restart") >= 2);
    expect(times("anns", "send") + times("bobs", "send")).toBe(0);
    await page.evaluate(() => window.rooms.ann.disconnect());
    await until(() => times("anns", "send") === 1);
    await emitted(page, "bob", `participantDisconnected ${anns}`);
    expect(times("bobs", "send")).toBe(0);
    // The page is closed, as a user closes it.
    await page.goto("about:blank");
    await until(() => times("bobs", "send") === 1);
    await page.context().close();
  },
  3 * WAIT_MS,
);

test("a client that is in the call already hands over its leave event; an event that is gone is left alone", async () => {
  const { url, jwt } = await current("bob", "@bob:example.org", { room_id: "!later:x" });
  const bob = await RawClient.open(url, jwt);
  await bob.hears("join");
  delayed = () => 404;
  const delay = { room_id: "!later:x", delay_id: "d2", delay_timeout: 1_000 };
  const taken = await current("bob", "@bob:example.org", delay, HOME, "/delegate_delayed_leave");
  expect(taken.status).toBe(200);
  await until(() => asked.includes(`${EVENTS}/d2/restart`));
  bob.send({ case: "leave", value: {} as never });
  await bob.isClosed();
  await Bun.sleep(50);
  expect(asked.filter((one) => one.startsWith(EVENTS))).toEqual([`${EVENTS}/d2/restart`]);
  const foreign = await current("far", "@far:far.example", delay, FAR, "/delegate_delayed_leave");
  expect([foreign.status, foreign.errcode]).toEqual([403, "M_FORBIDDEN"]);
});

test("wrong requests are refused with the field that is wrong", async () => {
  const errors: [object | string, string, string][] = [
    ["no json", "M_NOT_JSON", "JSON object"],
    [{}, "M_BAD_JSON", "`room`"],
    [{ room: "!r", device_id: "D" }, "M_BAD_JSON", "openid_token"],
    [{ ...openId("ann"), room: "" }, "M_BAD_JSON", "`room`"],
    [{ ...openId("ann"), room: "!r" }, "M_BAD_JSON", "`device_id`"],
    [{ ...openId("ann", "a b"), room: "!r", device_id: "D" }, "M_BAD_JSON", "matrix_server_name"],
    [{ ...openId("ann"), room: "!r", device_id: "D", delay_id: "d" }, "M_BAD_JSON", "delay_timeout"],
    [{ ...openId("ann"), room: "!r", device_id: "D", delay_timeout: 999, delay_id: "d" }, "M_BAD_JSON", "1000"],
  ];
  for (const [body, errcode, field] of errors) {
    const refused = await post("/sfu/get", body);
    expect([refused.status, refused.errcode]).toEqual([400, errcode]);
    expect(refused.error).toContain(field);
  }
  const long = { ...openId("ann"), room: "!r", device_id: "D".repeat(300) };
  expect(await post("/sfu/get", long)).toMatchObject({ status: 400, errcode: "M_BAD_JSON" });
});

test("without MATRIX_HOMESERVERS the paths do not exist, and attempts are limited by address", async () => {
  const off = await rtcServer();
  expect((await off.call("POST", "/get_token", { body: {} })).status).toBe(404);
  await off.close();
  const limited = await rtcServer({
    MATRIX_HOMESERVERS: ["*"],
    MATRIX_API_KEY: KEY,
    SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 2,
  });
  const statuses = [];
  for (let n = 0; n < 3; n++) statuses.push((await limited.call("POST", "/sfu/get", { body: {} })).status);
  expect(statuses).toEqual([400, 400, 429]);
  await limited.close();
});
