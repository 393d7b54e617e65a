import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Config, testConfig } from "../../src/kernel/config/index.ts";
import { type RunningServer, start } from "../../src/server.ts";
import type { Reply } from "./server.ts";

export type RealServer = RunningServer & {
  key: string;
  projectId: string;
  call(method: string, path: string, body?: object): Promise<Reply>;
  room(name?: string): Promise<string>;
  mint(roomId: string, participantIdentity: string, body?: object): Promise<{ token: string; tokenId: string }>;
  /** Stops it, if that has not been done, and removes its data. */
  close(): Promise<void>;
};

/** The server as it is shipped, on free loopback ports, with its media workers and a project. */
export async function realServer(overrides: Partial<Config> = {}): Promise<RealServer> {
  const dataDir = mkdtempSync(join(tmpdir(), "stoa-test-"));
  const server = await start(testConfig({ DATA_DIR: dataDir, ...overrides }));
  const { runtime, services, url } = server;
  const { key, projectId } = await runtime.write(() => {
    const identity = { email: "owner@example.com", passwordHash: null, emailVerified: true, isOperator: true };
    const { id: projectId } = services.projects.create(services.users.create(identity).id, { name: "test" });
    return { projectId, key: services.apiKeys.create(projectId, { name: "test", environment: "DEVELOPMENT" }).key };
  });
  await ready(url);

  const call: RealServer["call"] = async (method, path, body) => {
    const headers = { authorization: `Bearer ${key}`, ...(body && { "content-type": "application/json" }) };
    const response = await fetch(`${url}${path}`, { method, headers, body: body && JSON.stringify(body) });
    const text = await response.text();
    return { status: response.status, headers: response.headers, body: text ? JSON.parse(text) : {}, text };
  };
  return {
    ...server,
    key,
    projectId,
    call,
    room: async (name = crypto.randomUUID()) => String((await call("POST", "/v1/rooms", { name })).body.id),
    async mint(roomId, participantIdentity, body = {}) {
      const permissions = { publish: true, publishData: true };
      const path = `/v1/rooms/${roomId}/rtc-tokens`;
      const reply = await call("POST", path, { participantIdentity, permissions, ...body });
      return { token: String(reply.body.token), tokenId: String(reply.body.tokenId) };
    },
    async close() {
      await server.stop("test", 2_000);
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

async function ready(url: string): Promise<void> {
  while ((await fetch(`${url}/readyz`)).status !== 200) await Bun.sleep(10);
}
