import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { type ChatRest, chatRest, outcome } from "../chat/rest.ts";
import { fakeNetwork } from "../chat/socket/fake-socket.ts";
import type { Body } from "../chat/world.ts";
import { type Browser, decryptPush, newBrowser } from "./browser.ts";

type Arrived = { path: string; headers: Headers; body: Buffer };
let arrived: Arrived[] = [];
let answer: (path: string) => Response = () => new Response(null, { status: 201 });
/** A push service of our own. */
const service = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  async fetch(request) {
    const { pathname } = new URL(request.url);
    arrived.push({ path: pathname, headers: request.headers, body: Buffer.from(await request.arrayBuffer()) });
    return answer(pathname);
  },
});

let chat: ChatRest;
let network: ReturnType<typeof fakeNetwork>;
const browsers = new Map<string, Browser>();
beforeAll(async () => {
  chat = await chatRest({ CHAT_SEND_RATE_LIMIT: 1000, CHAT_SUBSCRIBE_RATE_LIMIT: 1000, PUSH_MAX_SUBSCRIPTIONS: 3 });
  network = fakeNetwork(chat);
});
afterEach(() => {
  arrived = [];
  answer = () => new Response(null, { status: 201 });
});
afterAll(async () => {
  await chat.close();
  await service.stop(true);
});

let people = 0;
/** A conversation of a sender and others, each of whom subscribed with a browser. */
async function talk(input: Body = {}, ...names: string[]) {
  const users = names.map((name) => `${name}${++people}`);
  const sender = `sender${people}`;
  const { id } = await chat.room(`talk-${people}`, [sender, ...users], input);
  for (const user of users) await subscribe(user);
  return { id, sender, users: users as [string, ...string[]] };
}
async function subscribe(userId: string, path = `/send/${userId}`): Promise<Body> {
  const browser = newBrowser();
  browsers.set(path, browser);
  const body = { endpoint: `http://127.0.0.1:${service.port}${path}`, keys: browser.keys };
  const token = await chat.token(userId, { push: "keep" });
  return (await chat.ask(token, "POST", "/v1/chat/push/subscriptions", body)).body;
}
const read = ({ path, body }: Arrived): Body =>
  JSON.parse(decryptPush(browsers.get(path) as Browser, body).toString("utf8"));
const send = async (by: string, room: string, text: string): Promise<Body> =>
  (await chat.ask(chat.key, "POST", `/v1/chat/conversations/${room}/messages`, { senderId: by, text })).body;
const push = () => chat.server.services.push.dispatcher.runDue();
const rows = (table: string): number =>
  Number(chat.server.runtime.db.$client.query<{ n: number }, []>(`SELECT count(*) AS n FROM ${table}`).get()?.n);

test("a message is pushed to members without a socket, encrypted with their own keys, and to no other user", async () => {
  const { id, sender, users } = await talk({}, "bob", "cy", "dan");
  const [bob, cy = "", dan = ""] = users;
  const socket = await network.connect(dan);
  const message = await send(sender, id, `hello @${cy}`);
  await push();
  expect(arrived.map(({ path }) => path).sort()).toEqual([`/send/${bob}`, `/send/${cy}`].sort());
  const [toBob, toCy] = [bob, cy].map((user) => arrived.find(({ path }) => path === `/send/${user}`) as Arrived);
  expect(read(toBob as Arrived)).toMatchObject({
    type: "message",
    conversationId: id,
    messageId: message.id,
    senderId: sender,
    text: `hello @${cy}`,
    unreadCount: 1,
    ringId: null,
  });
  expect(read(toCy as Arrived)).toMatchObject({ type: "mention", messageId: message.id });
  const { headers } = toBob as Arrived;
  expect(headers.get("content-encoding")).toBe("aes128gcm");
  expect(headers.get("ttl")).toBe("86400");
  expect([headers.get("urgency"), toCy?.headers.get("urgency")]).toEqual(["normal", "high"]);
  expect(headers.get("topic")).toMatch(/^[\w-]{32}$/);
  expect(headers.get("authorization")).toMatch(/^vapid t=[\w.-]+, k=[\w-]{87}$/);
  // Once the socket is gone, so is the reason not to wake them.
  socket.events.closed(1000);
  await send(sender, id, "and you?");
  arrived = [];
  await push();
  expect(arrived.map(({ path }) => path)).toContain(`/send/${dan}`);
  expect([rows("push_queue"), rows("push_deliveries")]).toEqual([0, 0]);
});

test("a newer message replaces a pending push, and a deleted message is not pushed", async () => {
  const { id, sender, users } = await talk({}, "bob");
  answer = () => new Response(null, { status: 503, headers: { "retry-after": "60" } });
  await send(sender, id, "first");
  await push();
  for (const text of ["second", "third"]) await send(sender, id, text);
  await push();
  expect(arrived).toHaveLength(1);
  answer = () => new Response(null, { status: 201 });
  chat.clock.advance(60_000);
  await push();
  expect(arrived.map((one) => read(one).text)).toEqual(["first", "third"]);
  expect(arrived[0]?.headers.get("topic")).toBe(arrived[1]?.headers.get("topic") ?? "");

  answer = () => new Response(null, { status: 500 });
  const secret = await send(sender, id, "taken back");
  await push();
  await chat.ask(chat.key, "DELETE", `/v1/chat/messages/${secret.id}`);
  answer = () => new Response(null, { status: 201 });
  arrived = [];
  chat.clock.advance(600_000);
  await push();
  expect(arrived).toEqual([]);
  expect(users).toHaveLength(1);
});

test("muted members, messages of blocked senders and read messages get no push", async () => {
  const { id, sender, users } = await talk({}, "bob", "cy", "dan", "eve", "flo");
  const [bob, cy = "", dan = "", eve = "", flo = ""] = users;
  const set = (userId: string, body: object) =>
    chat.ask(chat.key, "PUT", `/v1/chat/conversations/${id}/notifications`, { userId, ...body });
  const later = new Date(chat.clock.now() + 3_600_000).toISOString();
  expect((await set(bob, { level: "none" })).body).toEqual({ level: "none", mutedUntil: null });
  await set(cy, { level: "mentions" });
  await set(dan, { level: "all", mutedUntil: later });
  await chat.ask(chat.key, "PUT", `/v1/chat/blocks/${sender}?userId=${eve}`);
  const { id: messageId } = await send(sender, id, "plain");
  await chat.ask(chat.key, "POST", `/v1/chat/messages/${messageId}/read`, { userId: flo });
  await push();
  expect(arrived).toEqual([]);
  await send(sender, id, `@${bob} @${cy} @${dan} @${eve}`);
  await push();
  expect(arrived.map(({ path }) => path).sort()).toEqual([`/send/${cy}`, `/send/${flo}`].sort());
  expect(read(arrived.find(({ path }) => path === `/send/${cy}`) as Arrived).type).toBe("mention");
  chat.clock.advance(3_600_001);
  arrived = [];
  await send(sender, id, "an hour later");
  await push();
  expect(arrived.map(({ path }) => path)).toContain(`/send/${dan}`);
});

test("a subscription that the push service does not know is removed, and failing deliveries are dropped in the end", async () => {
  const { id, sender, users } = await talk({}, "bob", "cy");
  const [bob, cy = ""] = users;
  answer = (path) => new Response(null, { status: path === `/send/${bob}` ? 410 : 500 });
  await send(sender, id, "anybody?");
  await push();
  const list = async (userId: string) =>
    (await chat.ask(chat.key, "GET", `/v1/chat/push/subscriptions?userId=${userId}`)).body;
  expect(await list(bob)).toEqual([]);
  expect(await list(cy)).toHaveLength(1);
  for (let attempt = 2; attempt <= 8; attempt++) {
    chat.clock.advance(1_000_000);
    await push();
  }
  expect(arrived.filter(({ path }) => path === `/send/${cy}`)).toHaveLength(6);
  expect(rows("push_deliveries")).toBe(0);
  expect(chat.server.logLines.join("")).not.toContain("/send/");
});

test("a ring is pushed to the rung members until it expires, and a missed call replaces it", async () => {
  const roomId = (await chat.ask(chat.key, "POST", "/v1/rooms", { name: "push-room" })).body.id;
  const { id, sender, users } = await talk({ roomId }, "bob");
  const at = `/v1/chat/conversations/${id}/rings`;
  const ring = (await chat.ask(chat.key, "POST", at, { userId: sender, timeoutSeconds: 20 })).body;
  await push();
  expect(arrived.map(read)).toMatchObject([{ type: "ring", ringId: ring.id, senderId: sender, roomId, text: null }]);
  expect([arrived[0]?.headers.get("ttl"), arrived[0]?.headers.get("urgency")]).toEqual(["20", "high"]);
  chat.clock.advance(20_000);
  await chat.server.runtime.writer.drain();
  await push();
  expect(arrived.map((one) => read(one).type)).toEqual(["ring", "missed_call"]);
  expect(arrived[0]?.headers.get("topic")).toBe(arrived[1]?.headers.get("topic") ?? "");
  // A ring that is answered before the push service accepted it is not pushed.
  answer = () => new Response(null, { status: 503, headers: { "retry-after": "5" } });
  const second = (await chat.ask(chat.key, "POST", at, { userId: sender })).body;
  await push();
  await chat.ask(chat.key, "POST", `/v1/chat/rings/${second.id}/answer`, { userId: users[0] });
  arrived = [];
  chat.clock.advance(5_000);
  await push();
  expect(arrived).toEqual([]);
});

test("a push that was queued before a crash is sent after it", async () => {
  const { id, sender, users } = await talk({}, "bob");
  await send(sender, id, "before the crash");
  // The push is only queued with its message, and the next process finds it.
  expect(rows("push_queue")).toBe(1);
  await push();
  expect(arrived.map(({ path }) => path)).toEqual([`/send/${users[0]}`]);
});

test("an endpoint has one subscription, a user a limited number, and no user reads or removes another's", async () => {
  const { users } = await talk({}, "bob", "cy");
  const [bob, cy = ""] = users;
  const list = async (userId: string): Promise<Body[]> =>
    (await chat.ask(await chat.token(userId), "GET", "/v1/chat/push/subscriptions")).body;
  const shared = await subscribe(cy, "/shared");
  expect(JSON.stringify(await list(cy))).not.toContain("/shared");
  await subscribe(bob, "/shared");
  expect((await list(cy)).map(({ id }) => id)).not.toContain(shared.id);
  for (const n of [1, 2, 3]) await subscribe(bob, `/more/${n}`);
  expect(await list(bob)).toHaveLength(3);
  const [first] = await list(bob);
  const remove = async (userId: string) =>
    chat.ask(await chat.token(userId), "DELETE", `/v1/chat/push/subscriptions/${first.id}`);
  expect(outcome(await remove(cy))).toBe("404 SVC_PUSH_SUBSCRIPTION_NOT_FOUND");
  expect((await remove(bob)).status).toBe(204);
  const token = await chat.token(bob);
  const bad = async (body: object) => outcome(await chat.ask(token, "POST", "/v1/chat/push/subscriptions", body));
  const { keys } = newBrowser();
  expect(await bad({ endpoint: "http://10.0.0.1/x", keys })).toBe("400 SVC_VALIDATION_FAILED");
  expect(await bad({ endpoint: "https://u:p@push.example.com/x", keys })).toBe("400 SVC_VALIDATION_FAILED");
  expect(await bad({ endpoint: "https://push.example.com/x", keys: { p256dh: "AA", auth: "AA" } })).toBe(
    "400 SVC_VALIDATION_FAILED",
  );
});

test("a push service that does not answer gets one attempt at a time, and its other deliveries are postponed", async () => {
  const sender = `sender${++people}`;
  const mallory = `mallory${people}`;
  const rooms: string[] = [];
  for (let n = 0; n < 5; n++) rooms.push((await chat.room(`hanging-${people}-${n}`, [sender, mallory])).id);
  // No server listens there, which the dispatcher treats like one that hangs.
  const closed = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response() });
  const endpoint = `http://127.0.0.1:${closed.port}/never`;
  await closed.stop(true);
  const body = { endpoint, keys: newBrowser().keys };
  await chat.ask(await chat.token(mallory), "POST", "/v1/chat/push/subscriptions", body);
  for (const room of rooms) await send(sender, room, "hello");
  await push();
  const waiting = () =>
    chat.server.runtime.db.$client
      .query<{ tried: number; due: number }, [number]>(
        "SELECT sum(attempt_count) AS tried, sum(next_attempt_at <= ?) AS due FROM push_deliveries",
      )
      .get(chat.clock.now());
  expect(rows("push_deliveries")).toBe(5);
  expect(waiting()).toEqual({ tried: 1, due: 0 });
});

test("push services that hang, at many hosts and with hundreds of deliveries, delay no other push service", async () => {
  const many = await chatRest({
    CHAT_SEND_RATE_LIMIT: 1000,
    CHAT_SUBSCRIBE_RATE_LIMIT: 1000,
    PUSH_MAX_SUBSCRIPTIONS: 100,
  });
  const { dispatcher } = many.server.services.push;
  let hanging = 0;
  const hang = () => {
    hanging += 1;
    return new Promise<Response>(() => {});
  };
  const hangs = Array.from({ length: 50 }, () => Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: hang }));
  const { keys } = newBrowser();
  async function subscribed(userId: string, endpoints: string[]): Promise<void> {
    const token = await many.token(userId, { push: "keep" });
    for (const endpoint of endpoints) {
      const { status } = await many.ask(token, "POST", "/v1/chat/push/subscriptions", { endpoint, keys });
      expect(status).toBe(201);
    }
  }
  const says = (room: string) =>
    many.ask(many.key, "POST", `/v1/chat/conversations/${room}/messages`, { senderId: "sender", text: "hello" });
  const got = async (count: number) => {
    while (arrived.length < count) await Bun.sleep(1);
  };
  try {
    const home = await many.room("home", ["sender", "bob"]);
    await subscribed("bob", [`http://127.0.0.1:${service.port}/bob`]);
    dispatcher.start();
    await says(home.id);
    await got(1);
    // Two browsers at each host, and six conversations for each browser.
    await subscribed(
      "mallory",
      hangs.flatMap(({ port }) => [`http://127.0.0.1:${port}/1`, `http://127.0.0.1:${port}/2`]),
    );
    for (let n = 0; n < 6; n++) await says((await many.room(`trap-${n}`, ["sender", "mallory"])).id);
    while (hanging < 40) await Bun.sleep(1);
    // The clock has not moved, so none of these attempts has timed out.
    for (let n = 2; n <= 10; n++) {
      await says(home.id);
      await got(n);
    }
    expect(hanging).toBe(40);
  } finally {
    await dispatcher.stop(many.clock.now());
    await many.close();
    for (const one of hangs) await one.stop(true);
  }
});

test("[SSRF] private addresses that are allowed for webhooks are refused for push subscriptions", async () => {
  const lax = await chatRest({ WEBHOOK_ALLOW_PRIVATE: true });
  try {
    const token = await lax.token("mallory");
    const { keys } = newBrowser();
    for (const host of [
      "10.0.0.1",
      "192.168.1.1",
      "169.254.169.254",
      "[fd00::1]",
      "0x0a000001",
      "db.internal",
      "router",
    ]) {
      const body = { endpoint: `http://${host}/x`, keys };
      const plain = await lax.ask(token, "POST", "/v1/chat/push/subscriptions", body);
      const tls = await lax.ask(token, "POST", "/v1/chat/push/subscriptions", {
        ...body,
        endpoint: `https://${host}/x`,
      });
      expect([host, outcome(plain), outcome(tls)]).toEqual([
        host,
        "400 SVC_VALIDATION_FAILED",
        "400 SVC_VALIDATION_FAILED",
      ]);
    }
  } finally {
    await lax.close();
  }
});
