import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type App, createApp } from "../../src/app.ts";
import type { Config } from "../../src/kernel/config/index.ts";
import { createReadiness } from "../../src/kernel/http/health.ts";
import { closeRuntime, createRuntime, type Runtime } from "../../src/kernel/runtime.ts";
import type { Timers } from "../../src/kernel/time/timers.ts";
import { createMediaNodes, type MediaNodes } from "../../src/nodes/media-nodes.ts";
import { createServices, type Services } from "../../src/services.ts";
import { createTestAccounts, type TestAccounts } from "./accounts.ts";
import { type FakeClock, fakeClock } from "./clock.ts";
import { emptyDatabase } from "./empty-database.ts";
import { loggedData, WITH_COMMIT_LOG } from "./logged-runtime.ts";
import { testConfig } from "./test-config.ts";

export type { TestProject, TestSession } from "./accounts.ts";

export type Reply = { status: number; headers: Headers; body: Record<string, unknown>; text: string };

export type TestServer = {
  runtime: Runtime;
  services: Services;
  app: App;
  clock: FakeClock;
  /** The lines of the log, for assertions about its content. */
  logLines: string[];
  call(method: string, path: string, options?: CallOptions): Promise<Reply>;
  close(): Promise<void>;
} & TestAccounts;

export type CallOptions = { key?: string; body?: unknown; raw?: string; headers?: Record<string, string> };

/** The whole application in memory: with a fake clock, without a network, called with requests directly. */
export function testServer(
  overrides: Partial<Config> = {},
  createNodes: (timers: Timers) => MediaNodes = createMediaNodes,
): TestServer {
  const clock = fakeClock();
  const logLines: string[] = [];
  const dataDir = mkdtempSync(join(tmpdir(), "stoa-test-"));
  const config = testConfig({ DATA_DIR: dataDir, LOG_LEVEL: "debug", LOG_FORMAT: "json", ...overrides });
  const logged = WITH_COMMIT_LOG ? loggedData() : null;
  const runtime = createRuntime(config, {
    inMemory: emptyDatabase(),
    leading: logged?.leading,
    now: clock.now,
    timers: clock,
    logWrite: (line) => logLines.push(line),
  });
  logged?.watch(runtime);
  const services = createServices(runtime, createNodes(clock));
  const app = createApp({
    runtime,
    services,
    readiness: createReadiness(),
    sfuSecret: "test-sfu-secret",
    doctorSecret: "test-doctor-secret",
  });

  // Requests without a network come from this machine.
  const here = { requestIP: () => ({ address: "127.0.0.1", family: "IPv4", port: 1 }), pendingRequests: 0 };
  app.server = { ...here, upgrade: () => false } as never;

  const call: TestServer["call"] = async (method, path, { key, body, raw, headers = {} } = {}) => {
    const request = new Request(`http://localhost${path}`, {
      method,
      headers: {
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
        ...(body === undefined && raw === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      body: raw ?? (body === undefined ? undefined : JSON.stringify(body)),
    });
    const response = await app.handle(request);
    const text = await response.text();
    const json = response.headers.get("content-type")?.includes("json") && text !== "";
    return { status: response.status, headers: response.headers, body: json ? JSON.parse(text) : {}, text };
  };

  return {
    runtime,
    services,
    app,
    clock,
    logLines,
    call,
    ...createTestAccounts(runtime, services),
    async close() {
      await services.privacy.stop();
      await closeRuntime(runtime);
      await logged?.checkReplica();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}
