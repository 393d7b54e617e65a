import { afterAll, expect, test } from "bun:test";
import { ChatClient } from "../client.ts";
import { type Body, chatWorld } from "../world.ts";

const world = await chatWorld({ CHAT_CONNECTION_RATE_LIMIT: 10_000, CHAT_SEND_RATE_LIMIT: 10_000 });
afterAll(world.close);
const { call, key, server } = world;
const closeCode = async (token: string, headers: Record<string, string> = {}) => {
  const client = await world.open(token, { headers });
  await client.closed();
  return client.closeCode;
};

test("[contract 13] refused sockets are accepted, then closed with their code", async () => {
  expect(await closeCode("nonsense")).toBe(4401);
  expect(await closeCode("")).toBe(4401);
  expect(await closeCode(key)).toBe(4401);
  const { body } = await call("POST", "/v1/chat/tokens", key, { userId: "alice" });
  await call("DELETE", `/v1/chat/tokens/${body.tokenId}`, key);
  expect(await closeCode(body.token)).toBe(4401);
});

test("[contract 8] an expired token is refused with 4440", async () => {
  const { jwt, now } = server.runtime;
  const claims = { sub: "alice", projectId: world.projectId, environment: "DEVELOPMENT", scopes: ["chat:read"] };
  expect(await closeCode(await jwt.sign("chat-token", "ctk_old", claims, now() - 1000))).toBe(4440);
});

test("[contract 1] an origin that the project does not allow is refused with 4403", async () => {
  const session = await world.people.session({ projectId: world.projectId, role: "OWNER" });
  const origins = `/v1/projects/${world.projectId}/allowed-origins`;
  await call("PATCH", origins, session.token, {
    allowedOrigins: ["https://app.example"],
    allowLocalhostOrigins: false,
  });
  const token = await world.token("alice");
  expect(await closeCode(token, { origin: "https://evil.example" })).toBe(4403);
  const allowed = await world.open(token, { headers: { origin: "https://app.example" } });
  expect(allowed.frames[0]?.type).toBe("connected");
  expect((await world.open(token)).frames[0]?.type).toBe("connected");
  await call("PATCH", origins, session.token, { allowedOrigins: [], allowLocalhostOrigins: true });
});

test("[contract 2] the token is accepted in the query, the Authorization header or a subprotocol, which is not echoed", async () => {
  const token = await world.token("alice");
  const address = `${server.url.replace(/^http/, "ws")}/v1/chat/ws`;
  const connect = (options: object | string[]) =>
    new Promise<{ type: string; protocol: string }>((resolve, reject) => {
      const socket = new WebSocket(address, options as never);
      socket.onmessage = ({ data }) => {
        resolve({ type: JSON.parse(String(data)).type, protocol: socket.protocol });
        socket.close();
      };
      socket.onclose = ({ code }) => reject(new Error(`closed ${code}`));
    });
  expect(await connect({ headers: { authorization: `Bearer ${token}` } })).toMatchObject({ type: "connected" });
  expect(await connect(["stoa.chat.v1", `token.${token}`])).toEqual({ type: "connected", protocol: "stoa.chat.v1" });
  expect(await connect([`token.${token}`])).toMatchObject({ type: "connected" });
});

test("[contract 8] each malformed frame gets an error, the third closes with 4400, and an invalid field never closes", async () => {
  for (const frames of [
    ["not json", "[]", '"text"'],
    ["123", "null", "{}"],
    ['{"type":5}', "{", ""],
  ]) {
    const client = await world.client("alice");
    for (const frame of frames) client.raw(frame);
    await client.closed();
    expect(client.closeCode).toBe(4400);
    expect(client.ofType("error").map(({ code }) => code)).toEqual([
      "INVALID_MESSAGE",
      "INVALID_MESSAGE",
      "INVALID_MESSAGE",
    ]);
  }
  const binary = await world.client("alice");
  for (let i = 0; i < 3; i += 1) binary.raw(new TextEncoder().encode('{"type":"ping"}'));
  await binary.closed();
  expect(binary.closeCode).toBe(4400);

  const patient = await world.client("alice");
  for (let i = 0; i < 20; i += 1) await patient.ask("room.join", { room: 5 });
  for (let i = 0; i < 20; i += 1) await patient.ask("nothing.like.it");
  patient.raw("x");
  patient.raw("x");
  await patient.settled();
  expect(patient.closeCode).toBeNull();
});

test("[8] a frame of more than CHAT_MAX_FRAME_BYTES closes with 1009, one of exactly that many is read", async () => {
  const padded = (bytes: number) => {
    const empty = JSON.stringify({ type: "ping", id: "p", pad: "" });
    return JSON.stringify({ type: "ping", id: "p", pad: "x".repeat(bytes - empty.length) });
  };
  const exact = await world.client("alice");
  exact.raw(padded(65_536));
  await exact.frame(({ type }) => type === "pong");
  const over = await world.client("alice");
  over.raw(padded(65_537));
  await over.closed();
  expect(over.closeCode).toBe(1009);
  // Bytes, not characters.
  const wide = await world.client("alice");
  wide.raw(JSON.stringify({ type: "ping", pad: "é".repeat(33_000) }));
  await wide.closed();
  expect(wide.closeCode).toBe(1009);
  const huge = await world.client("alice");
  huge.raw("x".repeat(3_000_000));
  await huge.closed();
  expect([1006, 1009]).toContain(huge.closeCode ?? 0);
  expect(exact.closeCode).toBeNull();
});

test("[8] limits per user and window answer RATE_LIMITED with retryAfterSeconds; connections per IP close with 4429", async () => {
  const limited = await chatWorld({
    CHAT_SEND_RATE_LIMIT: 2,
    CHAT_REACTION_RATE_LIMIT: 2,
    CHAT_TYPING_RATE_LIMIT: 2,
    CHAT_SUBSCRIBE_RATE_LIMIT: 2,
    CHAT_CONNECTION_RATE_LIMIT: 3,
  });
  try {
    await limited.room("r", ["alice", "bob"]);
    const alice = await limited.joined("alice", "r");
    const codes = async (type: string, fields: object) => {
      const answers = [];
      for (let i = 0; i < 3; i += 1) answers.push(await alice.ask(type, { ...fields }));
      return answers.map(
        ({ type: kind, code, retryAfterSeconds }) => code ?? (retryAfterSeconds === undefined ? kind : "?"),
      );
    };
    expect(await codes("message.send", { room: "r", text: "x" })).toEqual(["ack", "ack", "RATE_LIMITED"]);
    const [last] = alice.ofType("error");
    expect(last).toMatchObject({ code: "RATE_LIMITED", retryAfterSeconds: expect.any(Number) });
    // One budget over socket and REST.
    const byRest = await limited.call("POST", "/v1/chat/conversations/r/messages", await limited.token("alice"), {
      text: "x",
    });
    expect(byRest.status).toBe(429);
    const message: Body = (await alice.frame(({ type }) => type === "message")).message;
    const messageId = message.id;
    expect(await codes("reaction.add", { messageId, emoji: "x" })).toEqual(["ack", "ack", "RATE_LIMITED"]);
    expect(await codes("typing.start", { room: "r" })).toEqual(["ack", "ack", "RATE_LIMITED"]);
    // The join of `joined` was the first.
    expect(await codes("room.join", { room: "r" })).toEqual(["ack", "RATE_LIMITED", "RATE_LIMITED"]);
    const bob = await limited.joined("bob", "r");
    expect((await bob.ask("message.send", { room: "r", text: "x" })).type).toBe("ack");
    await limited.client("bob");
    const fourth = await ChatClient.open(limited.server.url, await limited.token("bob"));
    await fourth.closed();
    expect(fourth.closeCode).toBe(4429);
    expect(fourth.ofType("error")).toMatchObject([{ code: "RATE_LIMITED", retryAfterSeconds: expect.any(Number) }]);
  } finally {
    await limited.close();
  }
});

test("[contract 8] at shutdown sockets are closed with 4500, after what they sent is acknowledged", async () => {
  const stopping = await chatWorld({ CHAT_SEND_RATE_LIMIT: 10_000 });
  await stopping.room("r", ["alice", "bob"]);
  const clients = [await stopping.joined("alice", "r"), await stopping.joined("bob", "r")];
  for (const client of clients)
    for (let i = 0; i < 50; i += 1) client.send({ type: "message.send", id: `m${i}`, room: "r", text: `${i}` });
  await clients[0]?.frame(({ type }) => type === "ack");
  await clients[0]?.ask("ping");
  await clients[1]?.ask("ping");
  await stopping.server.stop("restart", 5000);
  for (const client of clients) {
    await client.closed();
    expect(client.closeCode).toBe(4500);
    expect(client.ofType("ack").length).toBeGreaterThanOrEqual(51);
  }
  await stopping.close();
});

test("[contract 8] tokens in the address never reach the log", async () => {
  const lines: string[] = [];
  const logged = await chatWorld({ LOG_LEVEL: "trace", LOG_FORMAT: "json" }, { logWrite: (line) => lines.push(line) });
  const token = await logged.token("alice");
  const client = await logged.open(token);
  await client.settled();
  await (await logged.open(`${token}x`)).closed();
  await logged.close();
  expect(lines.join("")).toContain("/v1/chat/ws");
  expect(lines.join("")).not.toContain(token.slice(0, 60));
});
