import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Config } from "../../../src/kernel/config/index.ts";
import type { RuntimeOptions } from "../../../src/kernel/runtime.ts";
import { start } from "../../../src/server.ts";
import { createTestAccounts } from "../../harness/accounts.ts";
import { emptyDatabase } from "../../harness/empty-database.ts";
import { loggedData, WITH_COMMIT_LOG } from "../../harness/logged-runtime.ts";
import { testConfig } from "../../harness/test-config.ts";
import { ChatClient } from "./client.ts";

// biome-ignore lint/suspicious/noExplicitAny: answers are looked into field by field, and a wrong one fails the test
export type Body = any;
export type Answer = { status: number; headers: Headers; body: Body; text: string };

export type ChatWorld = Awaited<ReturnType<typeof chatWorld>>;

/** A server on a port of its own with a project in it, spoken to over the network. */
export async function chatWorld(overrides: Partial<Config> = {}, options: RuntimeOptions = {}) {
  const dataDir = mkdtempSync(join(tmpdir(), "stoa-chat-"));
  const config = testConfig({ DATA_DIR: dataDir, HOST: "127.0.0.1", PORT: 0, LOG_LEVEL: "silent", ...overrides });
  const logged = WITH_COMMIT_LOG && options.inMemory !== false ? loggedData() : null;
  const server = await start(config, {
    inMemory: emptyDatabase(),
    leading: logged?.leading,
    cluster: logged?.cluster,
    ...options,
  });
  logged?.watch(server.runtime);
  const people = createTestAccounts(server.runtime, server.services);
  const { projectId, key } = await people.project();
  const clients: ChatClient[] = [];

  async function call(method: string, path: string, credential = key, body?: unknown): Promise<Answer> {
    const response = await fetch(`${server.url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${credential}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    return {
      status: response.status,
      headers: response.headers,
      text,
      body: text.startsWith("{") || text.startsWith("[") ? JSON.parse(text) : null,
    };
  }

  return {
    server,
    people,
    projectId,
    key,
    call,

    async room(name: string, users: string[], input: Record<string, unknown> = {}): Promise<string> {
      const members = users.map((userId) => ({ userId }));
      const { status, body } = await call("POST", "/v1/chat/conversations", key, { name, members, ...input });
      if (status !== 201) throw new Error(JSON.stringify(body));
      return body.id;
    },

    async token(userId: string, input: Record<string, unknown> = {}): Promise<string> {
      return (await call("POST", "/v1/chat/tokens", key, { userId, ...input })).body.token;
    },

    /** A connected client of this user. */
    async client(userId: string, input: Record<string, unknown> = {}): Promise<ChatClient> {
      return this.open(await this.token(userId, input));
    },

    async open(token: string, client: { headers?: Record<string, string> } = {}): Promise<ChatClient> {
      const opened = await ChatClient.open(server.url, token, client);
      clients.push(opened);
      return opened;
    },

    /** A client that has joined a conversation. */
    async joined(userId: string, room: string): Promise<ChatClient> {
      const client = await this.client(userId);
      await client.ask("room.join", { room });
      return client;
    },

    async close(): Promise<void> {
      for (const client of clients) client.drop();
      await server.stop("test over", 0);
      await logged?.checkReplica();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}
