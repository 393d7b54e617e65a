import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join as pathOf } from "node:path";
import { type RunningStoa, startStoa } from "../../../src/cli/start/start-stoa.ts";
import type { FlightDump } from "../../../src/protocol/media/flight.ts";
import { bars, join, type Participant } from "../../../src/rtc-client/participant/participant.ts";
import { replayFlight } from "../../../src/sfu/flight/replay.ts";
import { Stoa } from "../../../web/sdk/server.ts";
import { rtcServer, settled } from "../../harness/rtc.ts";

let server: RunningStoa;
let stoa: Stoa;
const inside: Participant[] = [];
const folder = mkdtempSync(pathOf(tmpdir(), "stoa-flight-"));
beforeAll(async () => {
  server = await startStoa();
  stoa = new Stoa(server);
});
afterAll(async () => {
  for (const participant of inside) await participant.close();
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function ask<T>(method: string, path: string): Promise<T> {
  const response = await fetch(`${server.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${server.apiKey}` },
  });
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}

test("[17] lost packets are in the dump, and a replay shows how they were repaired", async () => {
  const enter = async (user: string, options: Parameters<typeof join>[2] = {}) => {
    const { rtc } = await stoa.mintJoin({ room: "lossy", user });
    const participant = await join(rtc.endpoint, rtc.token, options);
    inside.push(participant);
    return participant;
  };
  await enter("viewer");
  const publisher = await enter("publisher");
  await publisher.publishVideo(bars());
  publisher.network({ loss: 0.2, seed: 5 });

  let id: string | undefined;
  while (id === undefined) {
    const connections = await ask<{ id: string; participantIdentity: string }[]>("GET", "/v1/connections");
    id = connections.find(({ participantIdentity }) => participantIdentity === "publisher")?.id;
    await Bun.sleep(50);
  }
  let dumpId = "";
  let dump: FlightDump;
  do {
    const taken = await ask<{ id: string; reason: string }>("POST", `/v1/connections/${id}/dump`);
    expect(taken.reason).toBe("asked");
    dumpId = taken.id;
    dump = await ask<FlightDump>("GET", `/v1/connections/${id}/dumps/${dumpId}`);
    await Bun.sleep(100);
  } while (!replayFlight(dump).decisions.some(({ decided }) => decided.startsWith("asked again for")));
  const [camera] = replayFlight(dump).streams;
  expect(camera?.packets).toBeGreaterThan(0);
  expect(JSON.stringify(dump)).not.toContain("127.0.0.1");
  const kept = await ask<{ id: string }[]>("GET", `/v1/connections/${id}/dumps`);
  expect(kept[0]?.id).toBe(dumpId);
  expect(kept.length).toBeLessThanOrEqual(5);

  const file = pathOf(folder, "dump.json");
  await Bun.write(file, JSON.stringify(dump));
  const root = pathOf(import.meta.dir, "../../..");
  const run = Bun.spawn([process.execPath, pathOf(root, "src/main.ts"), "replay", file], {
    stdout: "pipe",
    stderr: "pipe",
  });
  const printed = await new Response(run.stdout).text();
  expect([await run.exited, await new Response(run.stderr).text()]).toEqual([0, ""]);
  expect(printed).toContain("asked again for");
  expect(printed).toContain("because later packets have arrived");
  const wrong = Bun.spawn([process.execPath, pathOf(root, "src/main.ts"), "replay", import.meta.path], {
    stderr: "pipe",
  });
  expect(await new Response(wrong.stderr).text()).toContain("is not a dump of the flight recorder");
  expect(await wrong.exited).toBe(1);
}, 120_000);

const DUMP: FlightDump = {
  version: 1,
  sinceMs: 0,
  lastedMs: 1,
  streams: [],
  received: [],
  sent: [],
  rtcp: [],
  states: [],
};

test("[17] a classified error saves one dump, and a participant who left has none to request", async () => {
  const faked = await rtcServer();
  const { clock, key, node } = faked;
  try {
    const asked: string[] = [];
    node.flight = async ({ participantId }) => {
      asked.push(participantId);
      return DUMP;
    };
    const roomId = await faked.room();
    const ada = await faked.joined(roomId, "ada", { join: { connectionId: "ada-1" } });
    const participantId = node.peers().find(({ identity }) => identity === "ada")?.participantId ?? "";
    node.connect(participantId);
    const subject = { roomId, participantId, identity: "ada" };
    node.emit({ ...subject, type: "mediaStalled" });
    node.emit({ ...subject, type: "mediaFlows" });
    await settled();
    const dumps = async () => {
      const { text } = await faked.call("GET", "/v1/connections/ada-1/dumps", { key });
      return JSON.parse(text) as { id: string; reason: string }[];
    };
    await faked.services.rtcSessions.recorder.flush();
    while ((await dumps()).length === 0) await Bun.sleep(10);
    expect((await dumps()).map(({ reason }) => reason)).toEqual(["media_stalled"]);
    expect(asked).toEqual([participantId]);

    for (let n = 0; n < 8; n++)
      expect((await faked.call("POST", "/v1/connections/ada-1/dump", { key })).status).toBe(201);
    expect(await dumps()).toHaveLength(5);
    const { id = "" } = (await dumps())[0] ?? {};
    expect((await faked.call("GET", `/v1/connections/ada-1/dumps/${id}`, { key })).body).toEqual(DUMP as never);
    const missing = await faked.call("GET", "/v1/connections/ada-1/dumps/none", { key });
    expect([missing.status, missing.body.code]).toEqual([404, "SVC_DUMP_NOT_FOUND"]);
    const elsewhere = await faked.project();
    const foreign = await faked.call("GET", `/v1/connections/ada-1/dumps/${id}`, { key: elsewhere.key });
    expect([foreign.status, foreign.body.code]).toEqual([404, "SVC_CONNECTION_NOT_FOUND"]);

    await ada.ask("room.leave");
    await settled();
    clock.advance(1_000);
    const late = await faked.call("POST", "/v1/connections/ada-1/dump", { key });
    expect([late.status, late.body.code]).toEqual([409, "SVC_CONFLICT"]);
  } finally {
    await faked.close();
  }
});
