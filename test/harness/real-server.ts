import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Config } from "../../src/kernel/config/index.ts";
import { type RunningServer, start } from "../../src/server.ts";
import { type Api, createApi } from "./api.ts";
import { testConfig } from "./test-config.ts";

export type RealServer = RunningServer &
  Api & {
    projectId: string;
    /** Stops the server, if it runs, and removes its data. */
    close(): Promise<void>;
  };

/** A complete server on free loopback ports, with its media workers and a project. */
export async function realServer(overrides: Partial<Config> = {}): Promise<RealServer> {
  const dataDir = mkdtempSync(join(tmpdir(), "stoa-test-"));
  const server = await start(testConfig({ DATA_DIR: dataDir, ...overrides }));
  const { runtime, services, url } = server;
  const { key, projectId } = await runtime.write((unit) => {
    const identity = { email: "owner@example.com", passwordHash: null, emailVerified: true, isOperator: true };
    const { id: projectId } = services.projects.create(unit, services.users.create(unit, identity).id, {
      name: "test",
    });
    return {
      projectId,
      key: services.apiKeys.create(unit, projectId, { name: "test", environment: "DEVELOPMENT" }).key,
    };
  });
  return {
    ...server,
    ...createApi(url, key),
    projectId,
    async close() {
      await server.stop("test", 2_000);
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}
