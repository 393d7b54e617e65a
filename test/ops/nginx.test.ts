import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { testConfig } from "../../src/kernel/config/index.ts";
import { type RunningServer, start } from "../../src/server.ts";
import { ChatClient } from "../chat/client.ts";
import { createPeople } from "../harness/people.ts";
import { makeCertificate } from "./certificate.ts";
import { program } from "./machine.ts";

const TRUST = { tls: { rejectUnauthorized: false } } as const;
const work = mkdtempSync(join(tmpdir(), "stoa-nginx-"));
let server: RunningServer;
let nginx: Bun.Subprocess;
let url: string;
let key: string;

async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((listening) => probe.listen(0, "127.0.0.1", listening));
  const { port } = probe.address() as { port: number };
  await new Promise((closed) => probe.close(closed));
  return port;
}

/** The README's own words, with this test's ports and files in them. */
function configuration(port: number, backend: string, cert: string, keyFile: string): string {
  const readme = readFileSync(join(import.meta.dir, "../../README.md"), "utf8");
  const site = /<!-- nginx -->\n```nginx\n([\s\S]*?)```/.exec(readme)?.[1] ?? "";
  const adapted = site
    .replace("listen 443 ssl", `listen 127.0.0.1:${port} ssl`)
    .replace("http://127.0.0.1:7000", backend)
    .replace(/ssl_certificate \S+;/, `ssl_certificate ${cert};`)
    .replace(/ssl_certificate_key \S+;/, `ssl_certificate_key ${keyFile};`);
  const folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
    (name) => `${name}_temp_path ${work}/${name};`,
  );
  return `daemon off; pid ${work}/nginx.pid; error_log ${work}/error.log; events {}
    http { access_log off; ${folders.join(" ")} ${adapted} }`;
}

beforeAll(async () => {
  const binary = await program("nginx", "nginx-light");
  const port = await freePort();
  url = `https://localhost:${port}`;
  const config = testConfig({ DATA_DIR: join(work, "data"), PUBLIC_URL: url, TRUSTED_PROXIES: ["127.0.0.1"] });
  server = await start({ ...config, CHAT_CONNECTION_RATE_LIMIT: 1000 });
  ({ key } = await createPeople(server.runtime, server.services).project());
  const { cert, key: keyFile } = await makeCertificate(work, "proxy");
  writeFileSync(join(work, "nginx.conf"), configuration(port, server.url, cert, keyFile));
  nginx = Bun.spawn([binary, "-c", join(work, "nginx.conf"), "-p", work], { stderr: "ignore" });
  while (!(await fetch(`${url}/healthz`, TRUST).catch(() => null))?.ok) await Bun.sleep(20);
}, 60_000);

afterAll(async () => {
  nginx.kill();
  await nginx.exited;
  await server.stop("test", 2_000);
  rmSync(work, { recursive: true, force: true });
});

async function call(path: string, body: object): Promise<{ status: number; body: Record<string, string> }> {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const response = await fetch(url + path, { method: "POST", headers, body: JSON.stringify(body), ...TRUST });
  return { status: response.status, body: (await response.json()) as Record<string, string> };
}

test("[11] REST and the chat socket work through the README's nginx", async () => {
  const made = await call("/v1/chat/conversations", { name: "proxied", members: [{ userId: "alice" }] });
  expect(made.status).toBe(201);
  const { body } = await call("/v1/chat/tokens", { userId: "alice" });
  const alice = await ChatClient.open(url, body.token ?? "", TRUST as never);
  const room = made.body.id;
  expect(await alice.ask("room.join", { room })).toMatchObject({ type: "ack" });
  expect(await alice.ask("message.send", { room, text: "hi", clientMessageId: "1" })).toMatchObject({ type: "ack" });
});

test("[11] an attachment of 3 MB goes up at the public address", async () => {
  const made = await call("/v1/chat/conversations", { name: "files", members: [{ userId: "bob" }] });
  const file = { filename: "big.bin", mimeType: "application/octet-stream", size: 3_000_000 };
  const { body } = await call(`/v1/chat/conversations/${made.body.id}/attachments`, { ...file, uploaderId: "bob" });
  expect(body.uploadUrl).toStartWith(`${url}/v1/storage/`);
  const sent = await fetch(body.uploadUrl ?? "", {
    method: "PUT",
    headers: { "content-type": file.mimeType },
    body: new Uint8Array(file.size),
    ...TRUST,
  });
  expect(sent.status).toBe(200);
});
