import { afterAll, beforeAll, expect, test } from "bun:test";
import { RawClient } from "./harness/raw-client.ts";
import { openStage, type Stage } from "./harness/stage.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await openStage({ SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 3, LIVEKIT_MAX_CONNECTIONS_PER_KEY: 40 });
}, 120_000);
afterAll(() => stage.close());

const code = (call: Promise<unknown>): Promise<string> =>
  call.then(
    () => "done",
    (error: { code?: string }) => error.code ?? String(error),
  );

async function isGone(name: string): Promise<void> {
  while ((await stage.rooms.listRooms([name])).length > 0) await Bun.sleep(50);
}

test("createRoom stores metadata, limits and timeouts, clients receive them, and the server enforces them", async () => {
  const options = { name: "kept", metadata: "m", maxParticipants: 2, emptyTimeout: 60, departureTimeout: 30 };
  const { sid: _, ...room } = await stage.rooms.createRoom(options);
  expect(room).toMatchObject(options);
  expect((await stage.rooms.listRooms(["kept"]))[0]).toMatchObject(options);
  const people = ["ann", "ben", "cay"].map(async (identity) =>
    RawClient.open(stage.wsUrl, await stage.token("kept", identity)),
  );
  const [ann, ben, cay] = (await Promise.all(people)) as [RawClient, RawClient, RawClient];
  const joined = [ann, ben, cay].filter(({ heard }) => heard[0]?.case === "join");
  expect(joined).toHaveLength(2);
  expect((await joined[0]?.hears("join"))?.room).toMatchObject({ metadata: "m", maxParticipants: 2 });

  const updated = await stage.rooms.updateRoomMetadata("kept", "new");
  expect(updated.metadata).toBe("new");
  for (const one of joined) expect((await one.hears("roomUpdate")).room?.metadata).toBe("new");
  // The own API shows the same room.
  const own = (await stage.stoa.rooms.list()).find(({ name }) => name === "kept");
  expect(own).toMatchObject({
    metadata: "new",
    maxParticipants: 2,
    emptyTimeoutSeconds: 60,
    departureTimeoutSeconds: 30,
  });
  expect(await code(stage.rooms.updateRoomMetadata("kept", "m".repeat(65_537)))).toBe("invalid_argument");
  for (const one of [ann, ben, cay]) one.close();
}, 30_000);

test("the state of a room is its metadata, unless the application has set some", async () => {
  const { id } = await stage.stoa.rooms.create({ name: "talk", captions: true });
  const ann = await RawClient.open(stage.wsUrl, await stage.token("talk", "ann"));
  const stateIn = (room?: { metadata: string }) => JSON.parse(room?.metadata || "{}");
  const state = { spotlight: [], locked: false, lobby: false, captions: true };
  expect(stateIn((await ann.hears("join")).room)).toEqual({ stoa: state });
  await stage.stoa.rooms.update(id, { locked: true });
  const told = await ann.hears("roomUpdate", ({ room }) => stateIn(room).stoa?.locked === true);
  expect(stateIn(told.room)).toEqual({ stoa: { ...state, locked: true } });
  await stage.stoa.rooms.update(id, { metadata: "m" });
  await ann.hears("roomUpdate", ({ room }) => room?.metadata === "m");
  ann.close();
}, 30_000);

test("options that are not served are refused instead of dropped", async () => {
  for (const option of [{ minPlayoutDelay: 100 }, { syncStreams: true }, { roomPreset: "p" }, { egress: {} }]) {
    expect([option, await code(stage.rooms.createRoom({ name: "optional", ...option }))]).toEqual([
      option,
      "unimplemented",
    ]);
  }
  expect(await stage.rooms.listRooms(["optional"])).toEqual([]);
});

test("a room of createRoom closes when it stays unused or its last participant has left; a room of our own API stays", async () => {
  await stage.rooms.createRoom({ name: "unused", emptyTimeout: 1 });
  const roomConfig = { departureTimeout: 1, metadata: "by token", emptyTimeout: 600 };
  const ann = await RawClient.open(stage.wsUrl, await stage.token("short", "ann", { roomConfig }));
  expect((await ann.hears("join")).room).toMatchObject({
    metadata: "by token",
    departureTimeout: 1,
    emptyTimeout: 600,
  });
  const plain = await RawClient.open(stage.wsUrl, await stage.token("plain", "ann"));
  expect((await plain.hears("join")).room).toMatchObject({ departureTimeout: 20, emptyTimeout: 300 });
  await stage.stoa.rooms.create({ name: "own" });
  await isGone("unused");
  expect((await stage.rooms.listRooms(["short"])).length).toBe(1);
  ann.send({ case: "leave", value: {} as never });
  await isGone("short");
  expect((await stage.rooms.listRooms(["own"])).length).toBe(1);
  plain.close();
}, 30_000);

test("requests with a valid token are limited by API key, and all others by address", async () => {
  const validate = async (token: string) =>
    (await fetch(`${stage.server.url}/rtc/v1/validate?access_token=${token}`)).status;
  // One participant gets a tenth of them.
  const ann = await stage.token("office", "ann");
  const own = [];
  for (let n = 0; n < 6; n++) own.push(await validate(ann));
  expect(own).toEqual([200, 200, 200, 200, 429, 429]);
  const statuses = [];
  for (let n = 4; n < 41; n++) statuses.push(await validate(await stage.token("office", `p${n}`)));
  expect(statuses).toEqual([...new Array(36).fill(200), 429]);
  expect([await validate("x"), await validate("x"), await validate("x"), await validate("x")]).toEqual([
    401, 401, 401, 429,
  ]);
});
