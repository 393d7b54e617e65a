import { afterAll, expect, test } from "bun:test";
import { ChatClient } from "../client.ts";
import { RawReader } from "../raw-reader.ts";
import { type Body, chatWorld } from "../world.ts";

const unlimited = {
  CHAT_SEND_RATE_LIMIT: 1_000_000,
  CHAT_FRAME_RATE_LIMIT: 1_000_000,
  CHAT_SUBSCRIBE_RATE_LIMIT: 1_000_000,
  CHAT_CONNECTION_RATE_LIMIT: 1_000_000,
};
const world = await chatWorld(unlimited);
afterAll(world.close);

test("[contract 8] a reader that stops reading is closed with 4408, resumes without a gap, and does not affect the others", async () => {
  const room = await world.room("tunnel", ["alice", "bob", "slow"]);
  const alice = await world.joined("alice", room);
  const bob = await world.joined("bob", room);
  const slow = await RawReader.open(world.server.url, await world.token("slow"));
  slow.send({ type: "room.join", id: "j", room });
  await slow.until(() => slow.frames.some(({ id }) => id === "j"));
  slow.stopReading();

  const sessionOf = (user: string) =>
    [...world.server.services.chat.sockets.hub.sockets].find(({ userId }) => userId === user);
  const padding = { k: "x".repeat(4000) };
  let sent = 0;
  while (sessionOf("slow")) {
    const batch = Array.from({ length: 20 }, () =>
      alice.ask("message.send", { room, text: "😀".repeat(4000), metadata: padding }),
    );
    for (const ack of await Promise.all(batch)) expect(ack.type).toBe("ack");
    sent += batch.length;
    if (sent > 5000) throw new Error("the slow reader was never closed");
  }
  await bob.settled();
  expect(bob.ofType("message").map(({ seq }) => seq)).toEqual(Array.from({ length: sent }, (_, i) => i + 4));
  expect([alice.closeCode, bob.closeCode]).toEqual([null, null]);

  slow.readAgain();
  await slow.until(() => slow.closeCode !== null);
  expect(slow.closeCode).toBe(4408);
  const read = slow.frames.filter(({ type }) => type === "message").map(({ seq }) => seq ?? 0);
  // The messages that were delivered are in order and without a gap.
  expect(read).toEqual(Array.from({ length: read.length }, (_, i) => i + 4));

  const last = read.at(-1) ?? 3;
  const missed: number[] = [];
  for (let after = String(last); after !== ""; ) {
    const page: Body = (
      await world.call(
        "GET",
        `/v1/chat/conversations/${room}/events?limit=200&after=${after}`,
        await world.token("slow"),
      )
    ).body;
    missed.push(...page.data.map(({ seq }: Body) => seq));
    after = page.nextCursor ?? "";
  }
  expect([...read, ...missed]).toEqual(Array.from({ length: sent }, (_, i) => i + 4));
  const session = await world.people.session({ projectId: world.projectId, role: "VIEWER" });
  const recorded = async () => {
    const records = (await world.call("GET", `/v1/projects/${world.projectId}/chat/connections`, session.token)).body;
    return records.find(({ userId }: Body) => userId === "slow").closeCode;
  };
  // The client hears of its end before the record of it is on disk.
  while ((await recorded()) === null) await Bun.sleep(5);
  expect(await recorded()).toBe(4408);
}, 120_000);

/** A generator with a seed, so that a failure can be repeated. */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) & 0x7fffffff;
    return state / 0x7fffffff;
  };
}

test("[chat] 10,000 malformed, oversized or binary frames affect neither the server nor other sockets", async () => {
  const random = generator(42);
  const room = await world.room("abused", ["alice", "bob", "mallory"]);
  const [alice, bob] = [await world.joined("alice", room), await world.joined("bob", room)];
  const token = await world.token("mallory");
  const kinds: ((client: ChatClient) => void)[] = [
    (client) => client.raw(String.fromCharCode(...Array.from({ length: 40 }, () => 32 + random() * 90))),
    (client) => client.raw(crypto.getRandomValues(new Uint8Array(1 + Math.floor(random() * 200)))),
    (client) => client.raw("[".repeat(5000)),
    (client) => client.raw(`{"type":"message.send","room":"${room}","text":${"[".repeat(100)}`),
    (client) => client.raw('{"type":"message.send","room":{"$ne":null},"text":"x"}'),
    (client) => client.raw('{"type":"__proto__","id":"x"}'),
    (client) => client.raw('{"__proto__":{"type":"ping"},"type":"constructor"}'),
    (client) => client.raw(`{"type":"room.join","room":"${"x".repeat(200)}"}`),
    (client) => client.raw('{"type":"message.update","messageId":"msg_none"}'),
    (client) => client.raw(`{"type":"ping","id":"${"i".repeat(65)}"}`),
    (client) => client.raw("\u0000"),
    (client) => client.raw("x".repeat(65_537)),
  ];
  let frames = 0;
  let sockets = 0;
  let heard = 0;
  while (frames < 10_000) {
    const attackers = await Promise.all(Array.from({ length: 20 }, () => ChatClient.open(world.server.url, token)));
    sockets += attackers.length;
    for (const client of attackers) {
      for (let i = 0; i < 10; i += 1) {
        kinds[Math.floor(random() * kinds.length)]?.(client);
        frames += 1;
      }
    }
    heard += 1;
    expect((await alice.ask("message.send", { room, text: `${heard}` })).type).toBe("ack");
    for (const client of attackers) client.drop();
  }
  await bob.settled();
  expect(bob.ofType("message").map(({ message }) => (message as Body).text)).toEqual(
    Array.from({ length: heard }, (_, i) => `${i + 1}`),
  );
  expect([alice.closeCode, bob.closeCode, sockets]).toEqual([null, null, frames / 10]);
  expect((await world.call("GET", "/readyz")).status).toBe(200);
  // None of them was stored in the conversation.
  const { body } = await world.call("GET", `/v1/chat/conversations/${room}/messages?senderId=mallory`);
  expect(body.data).toEqual([]);
}, 120_000);
