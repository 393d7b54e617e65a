import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { networkInterfaces, tmpdir } from "node:os";
import { join } from "node:path";
import { PROGRAM, type RunningStoa, startStoa, stoa } from "./stoa.ts";

let dataDir = "";
const servers: RunningStoa[] = [];

beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), "stoa-dev-"));
});
afterEach(() => {
  for (const { child } of servers.splice(0)) child.kill("SIGKILL");
  rmSync(dataDir, { recursive: true, force: true });
});

async function dev(...args: string[]): Promise<RunningStoa> {
  const ports = ["--port", "0", "--media-udp-port", "0"];
  const server = await startStoa([...PROGRAM, "dev", "--media-workers", "1", ...ports, "--data-dir", dataDir, ...args]);
  servers.push(server);
  return server;
}

async function stop({ child }: RunningStoa): Promise<void> {
  child.kill("SIGTERM");
  expect(await child.exited).toBe(0);
}

/** Runs a line in a shell, as a user who pastes it. */
async function paste(line: string): Promise<{ status: string; body: Record<string, unknown> }> {
  const shell = Bun.spawn(["sh", "-c", `${line} -s -w '\\n%{http_code}'`], { stdout: "pipe" });
  const [body = "", status = ""] = (await new Response(shell.stdout).text()).split("\n");
  return { status, body: JSON.parse(body) };
}

test("[11] the curl line that dev prints works as pasted", async () => {
  const { out } = await dev();
  const { code, err } = await stoa(["upgrade", "--data-dir", dataDir]);
  expect({ code, err }).toEqual({ code: 1, err: expect.stringContaining("stop it there with Ctrl-C") });
  const line = out.split("\n").find((text) => text.startsWith("curl ")) ?? "";
  const { status, body } = await paste(line);
  expect(status).toBe("201");
  expect(body).toMatchObject({ status: "ACTIVE", environment: "DEVELOPMENT" });
});

test("[11] dev --json prints one object with all credentials, and the account can sign in", async () => {
  const { out, url } = await dev("--json");
  const facts = JSON.parse(out);
  // Loopback works without a network, but Firefox makes calls only over other addresses.
  const own = Object.values(networkInterfaces()).flatMap((entries) => entries ?? []);
  const ipv4 = own.filter(({ internal, family }) => !internal && family === "IPv4").map(({ address }) => address);
  expect(facts.media).toEqual({ ports: [expect.any(Number)], addresses: expect.arrayContaining(ipv4) });
  expect(facts.media.addresses[0]).toBe("127.0.0.1");
  expect(facts).toMatchObject({ url, playgroundUrl: `${url}/playground`, environment: "DEVELOPMENT" });
  expect((await paste(facts.curl)).status).toBe("201");
  const project = await fetch(`${url}/v1/project`, { headers: { authorization: `Bearer ${facts.apiKey}` } });
  expect(await project.json()).toMatchObject({ id: facts.projectId, environment: "DEVELOPMENT" });
  const login = await fetch(`${url}/v1/auth/login`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ email: facts.email, password: facts.password }),
  });
  expect(login.status).toBe(200);
  expect(await login.json()).toMatchObject({ user: { isOperator: true } });
});

test("[11] dev on the same folder keeps its account, project and key, readable by its owner only", async () => {
  const first = await dev("--json");
  await stop(first);
  expect(statSync(join(dataDir, "dev.json")).mode & 0o777).toBe(0o600);
  const second = await dev("--json");
  const kept = ({ apiKey, projectId, email, password }: Record<string, string>) => [apiKey, projectId, email, password];
  expect(kept(JSON.parse(second.out))).toEqual(kept(JSON.parse(first.out)));
});

test("[11] dev refuses to listen on an address that other machines reach", async () => {
  const { code, err } = await stoa(["dev", "--host", "0.0.0.0", "--data-dir", join(dataDir, "new")]);
  expect(code).toBe(2);
  expect(err).toContain("loopback only");
});

test("[11] dev refuses data that it did not make", async () => {
  const made = await stoa(["admin", "create", "a@example.com", "--data-dir", dataDir], { stdin: "a long password\n" });
  expect([made.code, made.out]).toEqual([0, "Made the operator account a@example.com.\n"]);
  const { code, err, out } = await stoa(["dev", "--port", "0", "--media-udp-port", "0", "--data-dir", dataDir]);
  expect([code, out]).toEqual([1, ""]);
  expect(err).toContain("did not make");
});
