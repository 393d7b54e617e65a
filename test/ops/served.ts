import { readFileSync } from "node:fs";
import { PROGRAM, type RunningStoa, startStoa, stoa } from "../cli/stoa.ts";
import { ChatClient } from "../features/chat/client.ts";

// biome-ignore lint/suspicious/noExplicitAny: tests read responses field by field, and a wrong one fails them
export type Body = any;

export type Served = RunningStoa & {
  key: string;
  call(method: string, path: string, body?: object, key?: string): Promise<{ status: number; body: Body }>;
  conversation(name: string, ...users: string[]): Promise<string>;
  /** A connected member of the conversation; `ack` is the response to its join. */
  member(userId: string, room: string, resume?: object): Promise<{ client: ChatClient; ack: Body }>;
  /** Every message of the conversation, oldest first. */
  texts(room: string, as: string): Promise<(string | null)[]>;
  upload(room: string, userId: string, content: string): Promise<string>;
  download(attachmentId: string, userId: string): Promise<string>;
  stop(signal?: NodeJS.Signals): Promise<number>;
};

const PORTS = ["--port", "0", "--media-udp-port", "0"];

/** A server process as an operator runs it, with a key of its one project. */
export async function served(dataDir: string, args: string[] = [], command = PROGRAM): Promise<Served> {
  const options = [...PORTS, "--data-dir", dataDir, "--chat-send-rate-limit", "1000000", ...args];
  const running = await startStoa([...command, "serve", ...options]);
  const key = readFileSync(keyPath(dataDir), "utf8").trim();
  const { url, child } = running;

  const call: Served["call"] = async (method, path, body, credential = key) => {
    const headers = { authorization: `Bearer ${credential}`, ...(body && { "content-type": "application/json" }) };
    const response = await fetch(url + path, { method, headers, body: body && JSON.stringify(body) });
    const text = await response.text();
    return { status: response.status, body: text === "" ? null : JSON.parse(text) };
  };
  const token = async (userId: string) => (await call("POST", "/v1/chat/tokens", { userId })).body.token as string;

  return {
    ...running,
    key,
    call,
    async conversation(name, ...users) {
      const members = users.map((userId) => ({ userId }));
      return (await call("POST", "/v1/chat/conversations", { name, members })).body.id;
    },
    async member(userId, room, resume = {}) {
      const client = await ChatClient.open(url, await token(userId));
      return { client, ack: await client.ask("room.join", { room, ...resume }) };
    },
    async texts(room, as) {
      const { body } = await call(
        "GET",
        `/v1/chat/conversations/${room}/messages?limit=100`,
        undefined,
        await token(as),
      );
      return body.data.map(({ text }: { text: string | null }) => text).reverse();
    },
    async upload(room, userId, content) {
      const as = await token(userId);
      const file = { filename: "file.txt", mimeType: "text/plain", size: Buffer.byteLength(content) };
      const { body } = await call("POST", `/v1/chat/conversations/${room}/attachments`, file, as);
      await fetch(body.uploadUrl, { method: "PUT", headers: body.uploadHeaders, body: content });
      await call("POST", `/v1/chat/attachments/${body.id}/complete`, undefined, as);
      const message = { type: "attachment", attachmentId: body.id };
      await call("POST", `/v1/chat/conversations/${room}/messages`, message, as);
      return body.id;
    },
    async download(attachmentId, userId) {
      const path = `/v1/chat/attachments/${attachmentId}/download-url`;
      const { body } = await call("GET", path, undefined, await token(userId));
      return (await fetch(body.url)).text();
    },
    async stop(signal = "SIGTERM") {
      child.kill(signal);
      return child.exited;
    },
  };
}

/** Makes an account, a project and a key on the command line, as the manual says. */
export async function prepareData(dataDir: string): Promise<void> {
  await stoa(["admin", "create", "operator@example.com", "--data-dir", dataDir], { stdin: "a long password\n" });
  const made = await stoa([
    "keys",
    "create",
    "--project",
    "test",
    "--create-project",
    "--name",
    "ops",
    "--data-dir",
    dataDir,
  ]);
  if (made.code !== 0) throw new Error(made.err);
  await Bun.write(keyPath(dataDir), made.out);
}

/** Outside of the data directory, which a restore replaces. */
export function keyPath(dataDir: string): string {
  return `${dataDir}.key`;
}
