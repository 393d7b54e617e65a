import { afterAll, expect, test } from "bun:test";
import { hookedEndpoint } from "../../features/webhooks/hooked-project.ts";
import { rtcServer, settled, until } from "../../harness/rtc.ts";

const server = await rtcServer();
afterAll(server.close);
const { key, clock } = server;
const call = (method: string, path: string, body?: object, as = key) => server.call(method, path, { key: as, body });

async function scene() {
  const [here, there] = [await server.room(), await server.room()];
  const mint = { name: "Ada L.", attributes: { team: "red" }, metadata: "m", permissions: { publish: true } };
  const ada = await server.joined(here, "ada", { mint });
  const bob = await server.joined(here, "bob");
  clock.advance(5_000);
  const move = (to: string, identity = "ada") => call("POST", `/v1/rooms/${here}/move`, { identity, to });
  return { here, there, ada, bob, move };
}

test("a moved participant gets a token of the other room, and takes its name, attributes and permissions there", async () => {
  const { here, there, ada, bob, move } = await scene();
  const reply = await move(there);
  expect(reply.body).toEqual({ roomId: there, roomName: expect.any(String) });
  const [moved] = ada.of("room.moved") as unknown as [{ room: { id: string }; endpoint: string; token: string }];
  expect(moved).toMatchObject({ room: { id: there }, endpoint: expect.stringMatching(/^ws.*\/v1\/rtc$/) });
  expect(bob.of("room.moved")).toEqual([]);
  const after = server.connect(moved.token);
  const ack = await after.join();
  expect(ack).toMatchObject({
    room: { id: there },
    participant: { identity: "ada", name: "Ada L.", attributes: { team: "red" }, metadata: "m" },
    permissions: { publish: true, publishData: false },
  });
  // The participant is in both rooms until it leaves the first one, whose participants learn why.
  expect(bob.of("participant.left")).toEqual([]);
  await ada.ask("room.leave");
  expect(bob.of("participant.left")).toMatchObject([{ identity: "ada", reason: "moved" }]);
  clock.advance(25_000);
  expect(after.closed).toBeNull();
  const entries = server.services.audit.list(server.projectId, { action: "participant.moved" }, "￿", 10);
  expect(entries.find(({ resourceId }) => resourceId === here)?.metadata).toEqual({ to: there });
});

test("a client that does not follow is dismissed after 20 seconds", async () => {
  const { there, ada, bob, move } = await scene();
  await move(there);
  clock.advance(19_000);
  expect(ada.closed).toBeNull();
  clock.advance(1_500);
  await until(() => ada.closed !== null);
  expect(ada.closed?.code).toBe(4410);
  expect(bob.of("participant.left")).toMatchObject([{ identity: "ada", reason: "moved" }]);
});

test("a move names a present participant and another open room of the same project", async () => {
  const { here, there, ada, move } = await scene();
  const code = async (reply: ReturnType<typeof move>) => (await reply).body.code;
  expect(await code(move(here))).toBe("SVC_CONFLICT");
  expect(await code(move(there, "nobody"))).toBe("SVC_PARTICIPANT_NOT_FOUND");
  expect(await code(move("no-such-room"))).toBe("SVC_ROOM_NOT_FOUND");
  const stranger = await server.project();
  expect((await call("POST", `/v1/rooms/${here}/move`, { identity: "ada", to: there }, stranger.key)).status).toBe(404);
  const { body: foreign } = await call("POST", "/v1/rooms", { name: "theirs" }, stranger.key);
  expect(await code(move(String(foreign.id)))).toBe("SVC_ROOM_NOT_FOUND");
  await call("DELETE", `/v1/rooms/${there}`);
  expect(await code(move(there))).toBe("SVC_ROOM_CLOSED");
  expect(ada.of("room.moved")).toEqual([]);
});

test("[6] participant.moved is sent with both rooms", async () => {
  const hooked = await hookedEndpoint(server);
  const create = async (name: string) => (await call("POST", "/v1/rooms", { name }, hooked.key)).body;
  const [from, to] = [await create("main"), await create("breakout-1")];
  const body = { participantIdentity: "ada" };
  const { body: minted } = await call("POST", `/v1/rooms/${from.id}/rtc-tokens`, body, hooked.key);
  const ada = server.connect(String(minted.token));
  await ada.join();
  await call("POST", "/v1/rooms/main/move", { identity: "ada", to: "breakout-1" }, hooked.key);
  await settled();
  await server.services.webhookDispatcher.runDue();
  const events = hooked.receiver.received.map(({ event }) => event).filter(({ type }) => type === "participant.moved");
  expect(events.map(({ data }) => data)).toEqual([
    {
      roomId: from.id,
      roomName: "main",
      toRoomId: to.id,
      toRoomName: "breakout-1",
      identity: "ada",
      at: expect.any(String),
    },
  ]);
});
