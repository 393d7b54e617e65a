import { afterAll, expect, test } from "bun:test";
import { hookedEndpoint } from "../../features/webhooks/hooked-project.ts";
import { type RtcClient, rtcServer, settled, until } from "../../harness/rtc.ts";

const server = await rtcServer();
afterAll(server.close);
const { key, clock } = server;
const call = (method: string, path: string, body?: object) => server.call(method, path, { key, body });
const HOST = { mint: { permissions: { publish: true, publishData: true, host: true } } };
const GUEST = { mint: { permissions: { publish: true, publishData: true } } };

async function create(body: object = {}) {
  const { body: room } = await call("POST", "/v1/rooms", { name: crypto.randomUUID(), ...body });
  return String(room.id);
}
async function knocks(roomId: string, identity: string, body: object = { permissions: { publish: true } }) {
  const client = server.connect((await server.mint(roomId, identity, body)).token);
  return { client, answer: await client.join() };
}
const waiting = (host: RtcClient) =>
  ((host.of("lobby.changed").at(-1)?.waiting ?? []) as { identity: string }[]).map(({ identity }) => identity);
const hands = (client: RtcClient) =>
  client.of("participant.updated").map(({ participant }) => {
    const { identity, attributes } = participant as { identity: string; attributes: Record<string, string> };
    return `${identity} ${attributes["stoa.hand"] ?? "-"}`;
  });

test("raised hands have the server's time in one order for all, and are lowered by their owner or a host", async () => {
  const roomId = await create();
  const [host, ada, bob] = [
    await server.joined(roomId, "host", HOST),
    await server.joined(roomId, "ada", GUEST),
    await server.joined(roomId, "bob", GUEST),
  ];
  clock.advance(5_000);
  const raise = (client: RtcClient, value = "1", more = {}) =>
    client.ask("participant.update", { attributes: { "stoa.hand": value }, ...more });
  const first = clock.now();
  await raise(bob, "1");
  // The clock stands still, and a client cannot choose its place.
  await raise(ada, "0");
  expect(hands(host)).toEqual([`bob ${first}`, `ada ${first + 1}`]);
  clock.advance(1_000);
  await raise(bob);
  expect(hands(host).at(-1)).toBe(`bob ${first}`);
  // Participants who join later see them.
  const late = await server.joined(roomId, "late", GUEST);
  const listed = late.ack.participants as { identity: string; attributes: Record<string, string> }[];
  expect(Object.fromEntries(listed.map(({ identity, attributes }) => [identity, attributes["stoa.hand"]]))).toEqual({
    host: undefined,
    ada: String(first + 1),
    bob: String(first),
  });
  const lower = (client: RtcClient) => raise(client, "", { identity: "bob" });
  expect((await lower(ada)).code).toBe("PERMISSION_DENIED");
  expect((await raise(host, "1", { identity: "bob" })).code).toBe("PERMISSION_DENIED");
  const others = { identity: "bob", attributes: { "stoa.hand": "", team: "x" } };
  expect((await host.ask("participant.update", others)).code).toBe("PERMISSION_DENIED");
  expect((await lower(host)).type).toBe("ack");
  expect(hands(ada).at(-1)).toBe("bob -");
  await raise(ada, "");
  expect(hands(host).at(-1)).toBe("ada -");
  // Without the permission to send data it raises no hand, and no other attribute without `updateMetadata`.
  const mute = await server.joined(roomId, "mute", { mint: { permissions: {} } });
  expect((await raise(mute)).code).toBe("PERMISSION_DENIED");
  expect((await ada.ask("participant.update", { attributes: { a: "1" } })).code).toBe("PERMISSION_DENIED");
});

test("a host changes the state of the room for everyone, and those who come later get it with their join", async () => {
  const roomId = await create();
  const [host, ada] = [await server.joined(roomId, "host", HOST), await server.joined(roomId, "ada", GUEST)];
  expect(host.ack.state).toEqual({ version: 0, spotlight: [], locked: false, lobby: false, captions: false });
  expect((await ada.ask("room.update", { captions: true })).code).toBe("PERMISSION_DENIED");
  await host.ask("room.update", { captions: true, spotlight: ["ada", "ada"] });
  await settled();
  const states = ada.of("room.state").map(({ state }) => state as { version: number });
  expect(states.at(-1)).toMatchObject({ spotlight: ["ada"], captions: true, locked: false });
  expect(new Set(states.map(({ version }) => version)).size).toBe(2);
  const late = await server.joined(roomId, "late", GUEST);
  expect(late.ack.state).toEqual(states.at(-1));
  expect((await call("GET", `/v1/rooms/${roomId}`)).body).toMatchObject({ captions: true, locked: false });
  const seventeen = Array.from({ length: 17 }, (_, n) => `p${n}`);
  expect((await host.ask("room.update", { spotlight: seventeen })).type).toBe("error");
  // The backend changes the state too, and a locked room admits only hosts, admitted participants, and those who are already in it.
  await call("PATCH", `/v1/rooms/${roomId}`, { locked: true, metadata: "m" });
  expect(ada.of("room.state").at(-1)?.state).toMatchObject({ locked: true, captions: true });
  const { client, answer } = await knocks(roomId, "eve");
  expect([answer.code, client.closed?.code]).toEqual(["ROOM_LOCKED", 4403]);
  await server.joined(roomId, "ada", GUEST);
  await server.joined(roomId, "boss", HOST);
  await server.joined(roomId, "vip", { mint: { permissions: { admit: true } } });
  await call("DELETE", `/v1/rooms/${roomId}`);
  expect((await call("PATCH", `/v1/rooms/${roomId}`, { locked: false })).body.code).toBe("SVC_ROOM_CLOSED");
});

test("a participant in the lobby receives nothing of the room until a host admits it", async () => {
  const roomId = await create({ lobby: true });
  const host = await server.joined(roomId, "host", HOST);
  expect(host.ack.lobby).toEqual([]);
  const { client: ada, answer } = await knocks(roomId, "ada", { name: "Ada", permissions: { publish: true } });
  expect(answer).toMatchObject({ type: "error", code: "IN_LOBBY" });
  expect(host.of("lobby.changed").at(-1)?.waiting).toEqual([
    { identity: "ada", name: "Ada", since: new Date(clock.now()).toISOString() },
  ]);
  const second = await server.joined(roomId, "second", HOST);
  expect(second.ack.lobby).toMatchObject([{ identity: "ada" }]);
  // The waiting participant gets no list, no media, no data and no changes.
  await host.ask("data.send", { payload: "secret" });
  expect((await ada.ask("data.send", { payload: "x" })).code).toBe("NOT_IN_ROOM");
  expect((await ada.ask("lobby.admit", { identity: "ada" })).code).toBe("NOT_IN_ROOM");
  expect((await ada.join()).code).toBe("IN_LOBBY");
  expect(ada.frames.every(({ type }) => type === "error")).toBe(true);
  expect((await call("GET", `/v1/rooms/${roomId}/participants`)).text).not.toContain('"identity":"ada"');
  expect(waiting(host)).toEqual(["ada"]);
  await host.ask("lobby.admit", { identity: "ada" });
  expect(ada.of("lobby.admitted")).toHaveLength(1);
  expect(waiting(host)).toEqual([]);
  expect((await host.ask("lobby.admit", { identity: "nobody" })).code).toBe("PARTICIPANT_NOT_FOUND");
  expect((await ada.join()).type).toBe("ack");
  // An admitted participant does not wait again, on another socket either.
  ada.cut(1001);
  clock.advance(25_000);
  expect((await knocks(roomId, "ada")).answer.type).toBe("ack");
  // One that was removed does.
  expect((await call("DELETE", `/v1/rooms/${roomId}/participants/ada`)).status).toBe(204);
  expect((await knocks(roomId, "ada")).answer.code).toBe("IN_LOBBY");
  for (const kind of ["whip", "whep"]) {
    const { token } = await server.mint(roomId, kind, { permissions: { publish: true, subscribe: true } });
    const sent = { key: token, raw: "v=0", headers: { "content-type": "application/sdp" } };
    const { status, body } = await server.call("POST", `/${kind}/${roomId}`, sent);
    expect([status, body.code]).toEqual([403, "SVC_PERMISSION_DENIED"]);
  }
  const { client: bob } = await knocks(roomId, "bob");
  expect(
    (
      await (
        await server.joined(roomId, "guest", { mint: { permissions: { admit: true } } })
      ).ask("lobby.deny", { identity: "bob" })
    ).code,
  ).toBe("PERMISSION_DENIED");
  await host.ask("lobby.deny", { identity: "bob" });
  await until(() => bob.closed !== null);
  expect([bob.frames.at(-1)?.code, bob.closed?.code]).toEqual(["LOBBY_DENIED", 4403]);
  expect((await host.ask("lobby.deny", { identity: "bob" })).code).toBe("PARTICIPANT_NOT_FOUND");
});

test("a participant waits on one socket: an earlier one is closed, and the later one is admitted", async () => {
  const roomId = await create({ lobby: true });
  const host = await server.joined(roomId, "host", HOST);
  const { client: earlier } = await knocks(roomId, "ada");
  expect((await earlier.join()).code).toBe("IN_LOBBY");
  expect(earlier.closed).toBeNull();
  const { client: later } = await knocks(roomId, "ada");
  await until(() => earlier.closed !== null);
  expect(earlier.closed?.code).toBe(4409);
  expect(waiting(host)).toEqual(["ada"]);
  await host.ask("lobby.admit", { identity: "ada" });
  expect([earlier, later].map((client) => client.of("lobby.admitted").length)).toEqual([0, 1]);
});

test("waiting in the lobby ends when the client leaves, after ten minutes, with the lobby and with the room; at most 100 wait", async () => {
  const roomId = await create({ lobby: true });
  const host = await server.joined(roomId, "host", HOST);
  const { client: gone } = await knocks(roomId, "gone");
  gone.cut();
  expect(waiting(host)).toEqual([]);
  const { client: patient } = await knocks(roomId, "patient");
  clock.advance(10 * 60_000 - 1);
  expect(patient.closed).toBeNull();
  clock.advance(1);
  await until(() => patient.closed !== null);
  expect(patient.frames.at(-1)?.code).toBe("LOBBY_DENIED");
  for (let n = 0; n < 100; n++) expect((await knocks(roomId, `p${n}`)).answer.code).toBe("IN_LOBBY");
  const { client: refused, answer } = await knocks(roomId, "one-too-many");
  expect([answer.code, refused.closed?.code]).toEqual(["LOBBY_FULL", 4423]);
  const { client: last } = await knocks(roomId, "p99");
  await call("PATCH", `/v1/rooms/${roomId}`, { lobby: false });
  expect(last.of("lobby.admitted")).toHaveLength(1);
  expect((await last.join()).type).toBe("ack");
  await call("PATCH", `/v1/rooms/${roomId}`, { lobby: true });
  const { client: late } = await knocks(roomId, "late");
  await call("DELETE", `/v1/rooms/${roomId}`);
  await until(() => late.closed !== null);
  expect([late.frames.at(-1)?.code, late.closed?.code]).toEqual(["ROOM_CLOSED", 4410]);
});

test("a participant in the lobby is removed when its token is revoked, and is admitted even after it has expired", async () => {
  const roomId = await create({ lobby: true });
  const host = await server.joined(roomId, "host", HOST);
  const { token, tokenId } = await server.mint(roomId, "revoked");
  const revoked = server.connect(token);
  expect((await revoked.join()).code).toBe("IN_LOBBY");
  const { client: removed } = await knocks(roomId, "removed");
  const { client: patient } = await knocks(roomId, "patient", { ttlSeconds: 60 });
  const { client: unsure } = await knocks(roomId, "unsure", { ttlSeconds: 60 });
  await call("DELETE", `/v1/rooms/${roomId}/rtc-tokens/${tokenId}`);
  await call("DELETE", `/v1/rooms/${roomId}/participants/removed`);
  await until(() => revoked.closed !== null && removed.closed !== null);
  for (const { frames, closed } of [revoked, removed])
    expect([frames.at(-1)?.code, closed?.code]).toEqual(["TOKEN_REVOKED", 4401]);
  expect(waiting(host)).toEqual(["patient", "unsure"]);
  clock.advance(300_000);
  await host.ask("lobby.admit", { identity: "patient" });
  expect((await patient.join()).type).toBe("ack");
  await host.ask("lobby.admit", { identity: "unsure" });
  clock.advance(30_001);
  expect((await unsure.join()).code).toBe("TOKEN_EXPIRED");
});

test("the backend lists, admits and denies those who wait, before they come too, and gets a webhook", async () => {
  const hooked = await hookedEndpoint(server);
  const as = (method: string, path: string, body?: object) => server.call(method, path, { key: hooked.key, body });
  const { body: room } = await as("POST", "/v1/rooms", { name: "practice", lobby: true });
  const enter = async (identity: string) => {
    const { body } = await as("POST", "/v1/rooms/practice/rtc-tokens", { participantIdentity: identity, name: "N" });
    const client = server.connect(String(body.token));
    return { client, answer: await client.join() };
  };
  const { client: ada } = await enter("ada");
  const { client: bob } = await enter("bob");
  expect(JSON.parse((await as("GET", "/v1/rooms/practice/lobby")).text)).toMatchObject([
    { identity: "ada", name: "N" },
    { identity: "bob" },
  ]);
  expect((await as("POST", "/v1/rooms/practice/lobby/ada/admit")).status).toBe(204);
  expect(ada.of("lobby.admitted")).toHaveLength(1);
  expect((await as("POST", "/v1/rooms/practice/lobby/bob/deny")).status).toBe(204);
  await until(() => bob.closed !== null);
  expect((await as("POST", "/v1/rooms/practice/lobby/bob/deny")).status).toBe(404);
  await as("POST", "/v1/rooms/practice/lobby/eve/admit");
  expect((await enter("eve")).answer.type).toBe("ack");
  expect((await call("GET", `/v1/rooms/${room.id}/lobby`)).status).toBe(404);
  await settled();
  await server.services.webhookDispatcher.runDue();
  const events = hooked.receiver.received.map(({ event }) => event).filter(({ type }) => type === "lobby.knocked");
  expect(events.map(({ data }) => data).sort((a, b) => String(a.identity).localeCompare(String(b.identity)))).toEqual(
    ["ada", "bob"].map((identity) => ({
      roomId: room.id,
      roomName: "practice",
      identity,
      name: "N",
      at: expect.any(String),
    })),
  );
  const actions = server.services.audit.list(hooked.projectId, {}, "￿", 50).map(({ action }) => action);
  expect(actions).toContain("participant.admitted");
  expect(actions).toContain("participant.denied");
});

test("the public key of a client that agrees on keys is an attribute, for those who join before and after it", async () => {
  const roomId = await create();
  const publicKey = "B".repeat(87);
  const ada = await server.joined(roomId, "ada", GUEST);
  const ben = await server.joined(roomId, "ben", { ...GUEST, join: { publicKey } });
  await settled();
  expect(ben.ack.participant).toMatchObject({ attributes: { "stoa.key": publicKey } });
  clock.advance(5_000);
  expect(ada.of("participant.joined").at(-1)?.participant).toMatchObject({ attributes: { "stoa.key": publicKey } });
  const eve = await server.joined(roomId, "eve", GUEST);
  expect(eve.ack.participants).toContainEqual(
    expect.objectContaining({ identity: "ben", attributes: { "stoa.key": publicKey } }),
  );
  const max = server.connect((await server.mint(roomId, "max", GUEST.mint)).token);
  expect(await max.join({ publicKey: "no key" })).toMatchObject({ type: "error", code: "VALIDATION_FAILED" });
});
