import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Config } from "../../../../src/kernel/config/index.ts";
import { type RunningServer, start } from "../../../../src/server.ts";
import { createTestAccounts, type TestProject } from "../../../harness/accounts.ts";
import { type FakeClock, fakeClock } from "../../../harness/clock.ts";
import { testConfig } from "../../../harness/test-config.ts";

// biome-ignore lint/suspicious/noExplicitAny: answers are looked into freely
export type Body = any;
export type Answer = { status: number; headers: Headers; body: Body };
export type Ask = { as: string; body?: unknown; headers?: Record<string, string> };

export type World = {
  server: RunningServer;
  clock: FakeClock;
  dataDir: string;
  project: TestProject;
  /** Credentials: the server's key, and chat tokens. Alice and Bob are members of `room`, Mallory is not. */
  key: string;
  alice: string;
  bob: string;
  mallory: string;
  room: string;
  ask(method: string, path: string, options: Ask): Promise<Answer>;
  token(userId: string): Promise<string>;
  /** Requests an upload; throws unless it is granted. */
  request(size: number, as?: string, more?: Record<string, unknown>): Promise<Body>;
  put(upload: Body, body: BodyInit, headers?: Record<string, string>): Promise<Answer>;
  /** Requests, sends and completes. */
  upload(bytes: Uint8Array<ArrayBuffer> | string, as?: string, more?: Record<string, unknown>): Promise<Body>;
  downloadUrl(attachmentId: string, as?: string): Promise<string>;
  /** Names of files below the data directory's folder of attachments. */
  files(sub?: string): string[];
  close(): Promise<void>;
};

/** A real server on a real disk, with a conversation and its people. Only time is the test's own. */
export async function attachmentWorld(
  overrides: Partial<Config> = {},
  options: { logWrite?: (line: string) => void } = {},
): Promise<World> {
  const clock = fakeClock();
  const dataDir = mkdtempSync(join(tmpdir(), "stoa-files-"));
  const config = testConfig({ DATA_DIR: dataDir, ...overrides });
  const server = await start(config, { now: clock.now, timers: clock, ...options });
  const project = await createTestAccounts(server.runtime, server.services).project();
  const { key } = project;

  const ask: World["ask"] = async (method, path, { as, body, headers = {} }) => {
    const response = await fetch(path.startsWith("http") ? path : server.url + path, {
      method,
      headers: {
        authorization: `Bearer ${as}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    return answerOf(response);
  };
  const token = async (userId: string) =>
    (await ask("POST", "/v1/chat/tokens", { as: key, body: { userId } })).body.token as string;

  const members = [{ userId: "alice" }, { userId: "bob" }];
  const created = await ask("POST", "/v1/chat/conversations", { as: key, body: { name: "general", members } });
  const room: string = created.body.id;
  const [alice, bob, mallory] = await Promise.all([token("alice"), token("bob"), token("mallory")]);

  const request: World["request"] = async (size, as = alice, more = {}) => {
    const body = { filename: "notes.txt", mimeType: "text/plain", size, ...more };
    const answer = await ask("POST", `/v1/chat/conversations/${room}/attachments`, { as, body });
    if (answer.status !== 201) throw new Error(`no upload: ${JSON.stringify(answer.body)}`);
    return answer.body;
  };
  const put: World["put"] = async (upload, body, headers = {}) =>
    answerOf(await fetch(upload.uploadUrl, { method: "PUT", headers: { ...upload.uploadHeaders, ...headers }, body }));

  return {
    server,
    clock,
    dataDir,
    project,
    key,
    alice,
    bob,
    mallory,
    room,
    ask,
    token,
    request,
    put,
    async upload(bytes, as = alice, more = {}) {
      const upload = await request(Buffer.byteLength(bytes), as, more);
      const sent = await put(upload, bytes);
      const { status, body } = await ask("POST", `/v1/chat/attachments/${upload.id}/complete`, { as });
      if (sent.status !== 200 || status !== 200) throw new Error(`not uploaded: ${JSON.stringify([sent.body, body])}`);
      return body;
    },
    async downloadUrl(attachmentId, as = alice) {
      const { status, body } = await ask("GET", `/v1/chat/attachments/${attachmentId}/download-url`, { as });
      if (status !== 200) throw new Error(`no address: ${JSON.stringify(body)}`);
      return body.url;
    },
    files: (sub = "") => filesBelow(join(dataDir, "attachments", sub)),
    async close() {
      const { promise: stopped, resolve } = Promise.withResolvers<void>();
      void server.stop("test", 0).finally(resolve);
      // Sockets are closed by the clock, which is ours.
      while (Bun.peek.status(stopped) === "pending") {
        clock.advance(1);
        await Bun.sleep(1);
      }
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

async function answerOf(response: Response): Promise<Answer> {
  const text = await response.text();
  const json = response.headers.get("content-type")?.includes("json") && text !== "";
  return { status: response.status, headers: response.headers, body: json ? JSON.parse(text) : text };
}

export function filesBelow(folder: string): string[] {
  try {
    return readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => entry.name);
  } catch {
    return [];
  }
}
