import { describe, expect, test } from "bun:test";
import { createLog } from "../../../src/kernel/log.ts";
import { controlPlaneAt, startNodeReporter } from "../../../src/nodes/node-reporter.ts";
import { fakeClock } from "../../harness/clock.ts";
import { fakeMediaNode } from "../../harness/media-node.ts";

type Call = { method: string; path: string; body: Record<string, unknown>; secret: string | null };

/** A control plane that answers what the test says, and the agent that talks to it. */
async function agentWith(answers: (call: Call) => number, heartbeatTimeoutSeconds = 30) {
  const calls: Call[] = [];
  const clock = fakeClock();
  const node = fakeMediaNode();
  const answering = (async (url: string, init: RequestInit) => {
    const headers = new Headers(init.headers);
    const path = url.replace("http://control/v1/rtc/servers/", "");
    const call = {
      method: String(init.method),
      path,
      body: JSON.parse(String(init.body)),
      secret: headers.get("authorization"),
    };
    calls.push(call);
    return new Response("{}", { status: answers(call) });
  }) as unknown as typeof fetch;
  const agent = startNodeReporter({
    node,
    registration: { name: "n1", region: "eu", publicHost: "h", internalUrl: "http://n1" },
    controlPlane: controlPlaneAt({ url: "http://control", secret: "s3cret", fetch: answering }),
    heartbeatTimeoutSeconds,
    timers: clock,
    log: createLog({ level: "silent", format: "json" }),
  });
  const advance = async (ms: number) => {
    clock.advance(ms);
    for (let turn = 0; turn < 20; turn++) await new Promise((done) => setImmediate(done));
  };
  await agent.reported;
  await advance(0);
  return { agent, calls, node, advance, paths: () => calls.map(({ method, path }) => `${method} ${path}`) };
}

describe("[2] a media node's reporter", () => {
  test("registers, then sends a heartbeat every 10 s with the node's load", async () => {
    const { agent, calls, node, advance, paths } = await agentWith(() => 200);
    expect(paths()).toEqual(["POST register", "PUT n1/heartbeat"]);
    expect(calls[0]).toMatchObject({ body: { name: "n1", region: "eu" }, secret: "Bearer s3cret" });
    await node.openRoom({ roomId: "r" });
    await advance(9_999);
    expect(calls).toHaveLength(2);
    await advance(1);
    expect(calls[2]).toMatchObject({
      path: "n1/heartbeat",
      body: { activeRooms: 1, activeParticipants: 0, cpuPercent: 1, memoryPercent: 10, networkInBps: 0 },
    });
    await advance(10_000);
    expect(calls).toHaveLength(4);
    agent.stop();
    await advance(60_000);
    expect(calls).toHaveLength(4);
  });

  test("sends three heartbeats within a shorter timeout", async () => {
    const { calls, advance } = await agentWith(() => 200, 3);
    await advance(999);
    expect(calls).toHaveLength(2);
    await advance(1);
    expect(calls).toHaveLength(3);
  });

  test("registers again when the control plane does not know it", async () => {
    let forgotten = false;
    const { agent, advance, paths } = await agentWith(({ path }) => {
      if (!forgotten || path === "register") return 200;
      forgotten = false;
      return 404;
    });
    forgotten = true;
    await advance(10_000);
    expect(paths().slice(2)).toEqual(["PUT n1/heartbeat", "POST register", "PUT n1/heartbeat"]);
    expect(agent.problem()).toBeNull();
  });

  test("reports why it is not registered, and recovers by itself", async () => {
    let status = 401;
    const { agent, advance } = await agentWith(() => status);
    expect(agent.problem()).toContain("rejects the secret");
    status = 200;
    await advance(10_000);
    expect(agent.problem()).toBeNull();
  });
});
