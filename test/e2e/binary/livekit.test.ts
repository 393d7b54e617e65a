// needs: chromium
import { afterAll, beforeAll, expect, test } from "bun:test";
import { happened, sees } from "../../gateways/livekit/harness/livekit-page.ts";
import { meet } from "../../gateways/livekit/harness/meeting.ts";
import { startNative } from "../../gateways/livekit/harness/native-process.ts";
import { RawClient } from "../../gateways/livekit/harness/raw-client.ts";
import { RawWorker } from "../../gateways/livekit/harness/raw-worker.ts";
import { type StageBeside, stageBeside, WAIT_MS } from "../../gateways/livekit/harness/stage.ts";
import { type ServerProcess, startServer } from "../sdk/server-process.ts";
import { buildBinary } from "./binary.ts";

let server: ServerProcess;
let stage: StageBeside;
beforeAll(async () => {
  server = await startServer({ SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 10_000 }, [await buildBinary()]);
  stage = await stageBeside(server);
}, 180_000);
afterAll(async () => {
  await stage?.close();
  await server?.close();
});

test(
  "[21] LiveKit's native SDK and its server API work with a room of the binary",
  async () => {
    const tokens = { ann: await stage.token("binary", "ann"), ben: await stage.token("binary", "ben") };
    const pair = startNative("native-pair.mjs", { packages: stage.packages, url: stage.wsUrl, tokens });
    try {
      const flowing = ["ben gets ann audio", "ben gets ann video", "ann gets ben audio"];
      await Promise.all([...flowing, "ready"].map((line) => pair.says(line)));
      pair.does("data");
      await Promise.all([pair.says("ben reads ann t to all"), pair.says("rpc 42")]);
      pair.does("more");
      await Promise.all(
        [
          "ann gets ben video",
          "ann reads text of ben true",
          "ben reads text of ann true",
          "ann reads bytes of ben 200000",
          "ben reads bytes of ann 200000",
          "ann reads ben lossy maybe",
          "ben reads ann lossy maybe",
          "rpc refuse 42 A4",
          "rpc unknown 1400 ",
        ].map((line) => pair.says(line)),
      );
      const there = (await stage.rooms.listParticipants("binary")) as { identity: string }[];
      expect(there.map(({ identity }) => identity).sort()).toEqual(["ann", "ben"]);
      await stage.rooms.updateParticipant("binary", "ann", { attributes: { team: "red" } });
      await pair.says('ben sees ann {"team":"red"}');
      await stage.rooms.removeParticipant("binary", "ann");
      await pair.says("ben sees ann leave");
    } finally {
      await pair.end();
    }
  },
  3 * WAIT_MS,
);

test(
  "[21] livekit-client works with one and two connections beside our SDK in a room of the binary",
  async () => {
    const { ann, ben } = await meet(stage, "pages");
    const own = await stage.withStoa("pages", "own");
    await Promise.all([sees(own, "ann"), sees(own, "ben"), sees(ann, "own"), sees(ben, "own")]);
    await stage.rooms.removeParticipant("pages", "ann");
    await happened(ben, "left ann");
    await stage.rooms.deleteRoom("pages");
    await ben.waitForFunction(() => window.events.some((event) => event.startsWith("disconnected")));
  },
  4 * WAIT_MS,
);

test("[21] a named agent is dispatched into a room of the binary", async () => {
  const worker = await RawWorker.open(
    stage.wsUrl,
    await stage.token("", "", { grant: { agent: true, roomJoin: false } }),
    { agentName: "helper" },
  );
  const made = await stage.dispatches.createDispatch("asked-for", "helper", { metadata: "be kind" });
  const { job, token } = await worker.assignment();
  expect(job).toMatchObject({ dispatchId: made.id, metadata: "be kind", room: { name: "asked-for" } });
  const agent = await RawClient.open(stage.wsUrl, token);
  expect((await agent.hears("join")).participant?.attributes["lk.agent_name"]).toBe("helper");
  await stage.dispatches.deleteDispatch(made.id, "asked-for");
  expect((await worker.hears("termination")).jobId).toBe(job?.id ?? "");
  await agent.hears("leave");
});
