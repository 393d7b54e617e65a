import { afterAll, beforeEach, expect, test } from "bun:test";
import { createLog } from "../../../src/kernel/log.ts";
import { ownControlPlane, startNodeReporter } from "../../../src/nodes/node-reporter.ts";
import { fakeClock } from "../../harness/clock.ts";
import { fakeMediaNode } from "../../harness/media-node.ts";
import { testServer } from "../../harness/server.ts";

const server = testServer();
afterAll(server.close);
const { fleet, nodeKeys } = server.services;
const { write } = server.runtime;
const controlPlane = ownControlPlane(write, fleet);
const registration = { name: "own", region: "eu", publicHost: "h", internalUrl: "http://own" };
const never = new AbortController().signal;

beforeEach(() => {
  server.runtime.db.$client.run("DELETE FROM rtc_servers");
  server.runtime.db.$client.run("DELETE FROM rtc_node_keys");
});

test("the node of this process is in the fleet with its figures", async () => {
  expect(await controlPlane.register(registration, never)).toBe(200);
  expect(await controlPlane.beat("own", { activeRooms: 3, activeParticipants: 7 }, never)).toBe(200);
  expect(fleet.find("own")).toMatchObject({ region: "eu", internalUrl: "http://own", activeRooms: 3 });
});

test("an unknown or foreign registration gets 404 or 403, like that of a node on another machine", async () => {
  expect(await controlPlane.beat("own", { activeRooms: 0, activeParticipants: 0 }, never)).toBe(404);
  const { secret } = await write((unit) => nodeKeys.create(unit, "own"));
  await write((unit) => fleet.register(unit, { ...registration, region: "far" }, nodeKeys.verify(secret)));
  expect(await controlPlane.register(registration, never)).toBe(403);
  expect(fleet.find("own").region).toBe("far");
});

test("a stopped reporter does not wait for a commit that never comes", async () => {
  const asked = Promise.withResolvers<void>();
  const agent = startNodeReporter({
    node: fakeMediaNode(),
    registration,
    controlPlane: {
      register() {
        asked.resolve();
        return new Promise<number>(() => {});
      },
      beat: async () => 200,
    },
    heartbeatTimeoutSeconds: 30,
    timers: fakeClock(),
    log: createLog({ level: "silent", format: "json" }),
  });
  await asked.promise;
  agent.stop();
  await agent.reported;
  expect(agent.problem()).toBe("not registered yet");
});

test("a reporter that is stopped before it knows its node's load writes nothing more", async () => {
  const node = fakeMediaNode();
  const load = Promise.withResolvers<Awaited<ReturnType<typeof node.load>>>();
  const figures = await node.load();
  const beats: string[] = [];
  const agent = startNodeReporter({
    node: Object.assign(node, { load: () => load.promise }),
    registration,
    controlPlane: { register: async () => 200, beat: async (name) => beats.push(name) && 200 },
    heartbeatTimeoutSeconds: 30,
    timers: fakeClock(),
    log: createLog({ level: "silent", format: "json" }),
  });
  await agent.reported;
  agent.stop();
  load.resolve(figures);
  await new Promise((done) => setImmediate(done));
  expect(beats).toEqual([]);
});
