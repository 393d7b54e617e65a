import { afterAll, expect, test } from "bun:test";
import fc from "fast-check";
import { Replica, type State } from "./replica.ts";
import { type Body, chatWorld } from "./world.ts";

const unlimited = {
  CHAT_SEND_RATE_LIMIT: 1_000_000,
  CHAT_FRAME_RATE_LIMIT: 1_000_000,
  CHAT_REACTION_RATE_LIMIT: 1_000_000,
  CHAT_SUBSCRIBE_RATE_LIMIT: 1_000_000,
  CHAT_CONNECTION_RATE_LIMIT: 1_000_000,
};
const world = await chatWorld(unlimited);
afterAll(world.close);
const { call, key } = world;

const USERS = ["ann", "ben", "cat"];
const pick = fc.nat({ max: 1000 });
/** Numbers are looked up modulo what exists by then, so that every sequence makes sense and shrinks well. */
const step = fc.record({
  kind: fc.constantFrom(
    "send",
    "send",
    "send",
    "reply",
    "edit",
    "delete",
    "react",
    "unreact",
    "pin",
    "rename",
    "guest",
    "drop",
    "drop",
    "resume",
  ),
  who: pick,
  what: pick,
  byRest: fc.boolean(),
  wait: fc.boolean(),
});
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

async function readAll(room: string): Promise<State & { seq: number }> {
  const events = `/v1/chat/conversations/${room}/events?limit=1&after=0`;
  const seq: number = (await call("GET", events, key)).body.lastSeq;
  const messages = new Map<string, Body>();
  let before = "";
  for (;;) {
    const { body } = await call(
      "GET",
      `/v1/chat/conversations/${room}/messages?includeDeleted=true&limit=100${before}`,
      key,
    );
    for (const message of body.data) messages.set(message.id, message);
    if (!body.hasMore) break;
    before = `&before=${body.nextCursor}`;
  }
  const members = (await call("GET", `/v1/chat/conversations/${room}/members`, key)).body as Body[];
  const conversation = (await call("GET", `/v1/chat/conversations/${room}`, key)).body;
  return { seq, conversation, messages, members: new Map(members.map((member) => [member.userId, member])) };
}

/** A conversation's record counts things that no event repeats. */
const comparable = ({ conversation, messages, members }: State) => {
  const { name, status, metadata, slowModeSeconds } = conversation;
  return {
    conversation: { name, status, metadata, slowModeSeconds },
    messages: Object.fromEntries([...messages].sort()),
    members: Object.fromEntries([...members].sort()),
  };
};

async function play(room: string, steps: readonly Step[]): Promise<Replica[]> {
  const replicas = await Promise.all(
    USERS.map(async (user) => {
      const deps = { url: world.server.url, token: await world.token(user), room, readAll: () => readAll(room) };
      return new Replica(deps);
    }),
  );
  await Promise.all(replicas.map((replica) => replica.connect()));
  const ids: { id: string; by: string }[] = [];
  const running: Promise<unknown>[] = [];

  async function act({ kind, who, what, byRest }: Step, n: number): Promise<void> {
    const index = who % USERS.length;
    const user = USERS[index] ?? "";
    const replica = replicas[index];
    const client = byRest ? null : (replica?.client ?? null);
    const target = ids[what % Math.max(1, ids.length)];
    const author = target && replicas[USERS.indexOf(target.by)]?.client;
    const known = (sent: Body) => sent?.id && ids.push({ id: sent.id, by: user });
    const path = `/v1/chat/messages/${target?.id}`;
    switch (kind) {
      case "send":
      case "reply": {
        const fields = {
          text: `t${n}`,
          clientMessageId: `c${n}`,
          ...(kind === "reply" && target ? { replyTo: target.id } : {}),
        };
        if (client) known((await client.ask("message.send", { room, ...fields })).message as Body);
        else
          known(
            (await call("POST", `/v1/chat/conversations/${room}/messages`, key, { ...fields, senderId: user })).body,
          );
        return;
      }
      case "edit":
        if (author && !byRest) await author.ask("message.update", { messageId: target.id, text: `e${n}` });
        else if (target) await call("PATCH", path, key, { text: `e${n}`, metadata: { n } });
        return;
      case "delete":
        if (author && !byRest) await author.ask("message.delete", { messageId: target.id });
        else if (target) await call("DELETE", path, key);
        return;
      case "react":
      case "unreact": {
        if (!target) return;
        const emoji = ["👍", "🎉", "/"][what % 3] ?? "x";
        if (client)
          await client.ask(kind === "react" ? "reaction.add" : "reaction.remove", { messageId: target.id, emoji });
        else if (kind === "react") await call("POST", `${path}/reactions`, key, { emoji, userId: user });
        else await call("DELETE", `${path}/reactions/${encodeURIComponent(emoji)}?userId=${user}`, key);
        return;
      }
      case "pin":
        if (target) await call(what % 2 ? "POST" : "DELETE", `${path}/pin`, key);
        return;
      case "rename":
        await call("PATCH", `/v1/chat/conversations/${room}`, key, { metadata: { n } });
        return;
      case "guest": {
        const members = `/v1/chat/conversations/${room}/members`;
        const guest = `guest${what % 3}`;
        if (byRest) await call("POST", members, key, { userId: guest, metadata: { n } });
        else await call("DELETE", `${members}/${guest}`, key);
        return;
      }
      case "drop":
        replica?.drop(byRest);
        return;
      case "resume":
        await replica?.connect();
        return;
    }
  }

  for (const [n, one] of steps.entries()) {
    // A request on a socket that is dropped meanwhile never gets a response.
    const action = Promise.race([act(one, n), Bun.sleep(400)]);
    running.push(action);
    if (one.wait) await action;
  }
  await Promise.all(running);
  for (const replica of replicas) await replica.connect();
  await Promise.all(replicas.map((replica) => replica.settle()));
  return replicas;
}

let played = 0;
test("[contract 8] after random commands and broken connections every client has the server's state, each event once and in order", async () => {
  const totals = { events: 0, recoveries: 0, rereads: 0 };
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 80 }), async (steps) => {
      played += 1;
      const room = await world.room(`model-${played}`, USERS);
      const replicas = await play(room, steps);
      const expected = await readAll(room);
      for (const replica of replicas) {
        expect(replica.seq).toBe(expected.seq);
        expect(comparable(replica.state)).toEqual(comparable(expected));
        totals.events += replica.seen.length;
        totals.recoveries += replica.recoveries;
        totals.rereads += replica.rereads;
        replica.drop(true);
      }
    }),
    { seed: Number(process.env.MODEL_SEED ?? 20260301), numRuns: Number(process.env.MODEL_RUNS ?? 20) },
  );
  // The property would also hold if nothing had happened.
  expect(totals.events).toBeGreaterThan(500);
  expect(totals.recoveries).toBeGreaterThan(20);
}, 300_000);
