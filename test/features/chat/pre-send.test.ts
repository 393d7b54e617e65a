import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { Webhook } from "standardwebhooks";
import { until } from "../../harness/rtc.ts";
import { type ChatRest, chatRest, outcome } from "./rest.ts";
import type { Body } from "./world.ts";

const SECRET = `whsec_${Buffer.from("a secret of the chat filter, 32 b").toString("base64")}`;
type Asked = { body: Body; answer: (response: Response) => void };
let asked: Asked[] = [];
/** Answers at once with what the text says; what says nothing waits for the test. */
const backend = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  async fetch(request) {
    const text = await request.text();
    const body = new Webhook(SECRET).verify(text, Object.fromEntries(request.headers)) as Body;
    return new Promise<Response>((answer) => asked.push({ body, answer }));
  },
});
const settings = { CHAT_FILTER_URL: `http://127.0.0.1:${backend.port}/filter`, CHAT_FILTER_SECRET: SECRET };
let open: ChatRest;
let closed: ChatRest;
beforeAll(async () => {
  open = await world({});
  closed = await world({ CHAT_FILTER_FAILURE: "closed" });
});
afterEach(() => {
  asked = [];
});
afterAll(async () => {
  await open.close();
  await closed.close();
  await backend.stop(true);
});

async function world(overrides: object): Promise<ChatRest> {
  const chat = await chatRest({ ...settings, ...overrides });
  // The receiver checks the time of the signature by its own clock.
  chat.clock.set(Date.now());
  for (const room of ["one", "two"]) await chat.room(room, ["ada", "bob"]);
  return chat;
}
const answered = (count: number) => until(() => asked.length >= count);
const verdict = (at: number, body: object) => asked[at]?.answer(Response.json(body));
const texts = async (chat: ChatRest, room: string): Promise<string[]> =>
  (await chat.history(chat.key, room)).body.data.map(({ text }: Body) => text).reverse();

test("the filter request is signed as stock verifiers expect, and its response can refuse, rewrite or allow", async () => {
  const ada = await open.token("ada");
  const refused = open.send(ada, "one", "refuse me");
  await answered(1);
  expect(asked[0]?.body).toMatchObject({
    type: "message.sending",
    projectId: open.projectId,
    data: { senderId: "ada", conversationName: "one", message: { text: "refuse me" } },
  });
  verdict(0, { action: "refuse", reason: "Not today." });
  expect([outcome(await refused), (await refused).body.message]).toEqual(["403 SVC_MESSAGE_REFUSED", "Not today."]);
  const rewritten = open.send(ada, "one", "rewrite me");
  await answered(2);
  verdict(1, { action: "rewrite", text: "politely", metadata: { checked: true } });
  expect((await rewritten).body).toMatchObject({ text: "politely", metadata: { checked: true } });
  const edited = open.ask(ada, "PATCH", `/v1/chat/messages/${(await rewritten).body.id}`, { text: "rudely" });
  await answered(3);
  expect(asked[2]?.body.type).toBe("message.editing");
  verdict(2, { action: "allow" });
  expect((await edited).body.text).toBe("rudely");
  // A backend has no need to be asked about its own messages, and strangers ask nothing.
  expect((await open.send(open.key, "one", { text: "mine", senderId: "ada" })).status).toBe(201);
  expect(outcome(await open.send(await open.token("mallory"), "one", "hi"))).toBe("404 SVC_CONVERSATION_NOT_FOUND");
  expect(asked).toHaveLength(3);
});

test("messages of a conversation keep their order, and conversations do not wait for each other", async () => {
  const [ada, bob] = [await open.token("ada"), await open.token("bob")];
  const first = open.send(ada, "two", "first");
  await answered(1);
  const second = open.send(bob, "two", "second");
  await answered(2);
  const elsewhere = open.send(bob, "one", "elsewhere");
  await answered(3);
  // The later question is answered first.
  verdict(1, { action: "allow" });
  verdict(2, { action: "allow" });
  expect((await elsewhere).status).toBe(201);
  expect(await texts(open, "two")).toEqual([]);
  verdict(0, { action: "allow" });
  await Promise.all([first, second]);
  expect(await texts(open, "two")).toEqual(["first", "second"]);
});

test("without a response in time CHAT_FILTER_FAILURE decides, and a refusal does not delay later messages", async () => {
  for (const [chat, status] of [
    [open, 201],
    [closed, 503],
  ] as const) {
    asked = [];
    const ada = await chat.token("ada");
    const late = chat.send(ada, "one", "late");
    await answered(1);
    const behind = chat.send(ada, "one", "behind");
    await answered(2);
    chat.clock.advance(300);
    expect([(await late).status, (await behind).status]).toEqual([status, status]);
    asked = [];
    const broken = chat.send(ada, "one", "broken");
    await answered(1);
    asked[0]?.answer(new Response("not json"));
    expect((await broken).status).toBe(status);
  }
});

test("a filter address that webhooks may not have is refused at the start", async () => {
  const start = chatRest({ CHAT_FILTER_URL: "http://10.0.0.1/filter", CHAT_FILTER_SECRET: SECRET });
  await expect(start).rejects.toThrow("CHAT_FILTER_URL points into a private network");
});
