import { afterAll, beforeAll, expect, test } from "bun:test";
import { MigrateJobRequest, WorkerPing } from "@livekit/protocol";
import { type ServerProcess, startServer } from "../../e2e/sdk/server-process.ts";
import { startNative } from "./harness/native-process.ts";
import { RawClient } from "./harness/raw-client.ts";
import { RawWorker } from "./harness/raw-worker.ts";
import { type StageBeside, stageBeside, WAIT_MS } from "./harness/stage.ts";

let server: ServerProcess;
let stage: StageBeside;
beforeAll(async () => {
  server = await startServer({ SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 10_000 });
  stage = await stageBeside(server);
}, 180_000);
afterAll(async () => {
  await stage?.close();
  await server?.close();
});

type Shown = { id: string; agentName: string; state: { jobs: { id: string }[] } };

test(
  "after a graceful or hard restart the native Node SDK reconnects by itself, with audio and video",
  async () => {
    const tokens = { ann: await stage.token("kept", "ann"), ben: await stage.token("kept", "ben") };
    const start = () => startNative("native-pair.mjs", { packages: stage.packages, url: stage.wsUrl, tokens });
    const sids = async () => {
      const there = (await stage.rooms.listParticipants("kept")) as { identity: string; sid: string }[];
      expect(there.map(({ identity }) => identity).sort()).toEqual(["ann", "ben"]);
      return there.map(({ sid }) => sid);
    };
    let pair = start();
    /** From that line on. A call may have been set up twice before it, or half. */
    const flows = (since: number) =>
      Promise.all(
        ["ben gets ann audio", "ben gets ann video", "ann gets ben audio"].map((line) => pair.says(line, 1, since)),
      );
    const givesUp = (since: number) =>
      Promise.race([pair.says("ann is out", 1, since), pair.says("ben is out", 1, since)]);
    try {
      await flows(0);
      for (const signal of ["SIGTERM", "SIGKILL"] as const) {
        for (let tries = 1; ; tries++) {
          const before = await sids();
          let down = 0;
          await server.restart(signal, () => {
            down = pair.lines.length;
          });
          const isBack = await Promise.race([flows(down).then(() => true), givesUp(down).then(() => false)]);
          if (isBack) {
            for (const sid of await sids()) expect(before).not.toContain(sid);
            break;
          }
          // Ten tries, nineteen seconds between them all on average: a busy machine may take longer to start the server.
          expect(tries).toBeLessThan(3);
          await pair.end();
          pair = start();
          await flows(0);
        }
      }
      // The old tokens are still stored, and removing their participant revokes them.
      await stage.rooms.removeParticipant("kept", "ann");
      const again = await fetch(`${server.url}/rtc/validate?access_token=${tokens.ann}`);
      expect([again.status, await again.text()]).toEqual([401, expect.stringMatching(/revoked|removed/)]);
    } finally {
      await pair.end();
    }
  },
  4 * WAIT_MS,
);

test(
  "named agents outlive a restart: a running one returns to its job, and a missing one is dispatched",
  async () => {
    const workerToken = await stage.token("", "", { grant: { agent: true, roomJoin: false } });
    const openWorker = () => RawWorker.open(stage.wsUrl, workerToken, { agentName: "helper" });
    const ann = await stage.token("staffed", "ann");
    const made = await stage.dispatches.createDispatch("staffed", "helper", { metadata: "be kind" });
    const early = await stage.dispatches.createDispatch("later", "late-helper");
    await RawClient.open(stage.wsUrl, ann);
    const { job, token } = await (await openWorker()).assignment();
    await (await RawClient.open(stage.wsUrl, token)).hears("join");

    await server.restart("SIGKILL");
    const worker = await openWorker();
    worker.send({ case: "migrateJob", value: new MigrateJobRequest({ jobIds: [job?.id ?? ""] }) });
    const back = await RawClient.open(stage.wsUrl, ann);
    await back.hears("join");
    const agent = await RawClient.open(stage.wsUrl, token);
    await agent.hears("join");
    const shown = (await stage.dispatches.listDispatch("staffed")) as Shown[];
    const kept = shown.filter(({ agentName }) => agentName === "helper");
    expect(kept).toMatchObject([{ id: made.id, metadata: "be kind" }]);
    expect(kept.flatMap(({ state }) => state.jobs.map(({ id }) => id))).toEqual([job?.id ?? ""]);
    worker.send({ case: "ping", value: new WorkerPing({ timestamp: 1n }) });
    await worker.hears("pong");
    expect(worker.heard.some((one) => one.case === "availability")).toBe(false);

    const late = await RawWorker.open(stage.wsUrl, workerToken, { agentName: "late-helper" });
    expect((await late.assignment()).job).toMatchObject({ dispatchId: early.id, room: { name: "later" } });

    await stage.dispatches.deleteDispatch(made.id, "staffed");
    expect((await worker.hears("termination")).jobId).toBe(job?.id ?? "");
    await agent.hears("leave");
    for (const one of [worker, late, back, agent]) one.close();
  },
  3 * WAIT_MS,
);
