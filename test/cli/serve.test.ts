import { afterEach, expect, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PROGRAM, ROOT, type RunningStoa, startStoa, stoa } from "./stoa.ts";

const dataDir = mkdtempSync(join(tmpdir(), "stoa-serve-"));
const servers: RunningStoa[] = [];

afterEach(() => {
  for (const { child } of servers.splice(0)) child.kill("SIGKILL");
  rmSync(dataDir, { recursive: true, force: true });
});

async function serve(...args: string[]): Promise<RunningStoa> {
  const server = await startStoa([
    ...PROGRAM,
    "serve",
    "--port",
    "0",
    "--media-udp-port",
    "0",
    "--data-dir",
    dataDir,
    ...args,
  ]);
  servers.push(server);
  return server;
}

/** A request that the server has begun and cannot answer before `finish` sends its body. */
async function slowRequest(url: string): Promise<{ finish(): Promise<string>; socket: Socket }> {
  const socket = connect({ host: "127.0.0.1", port: Number(new URL(url).port) });
  await new Promise((resolve) => socket.once("connect", resolve));
  const head =
    "POST /v1/auth/login HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n";
  await new Promise((resolve) => socket.write(`${head}{`, resolve));
  // A later request was answered, so the server has begun with this one and does not take its connection for an idle one.
  await (await fetch(`${url}/healthz`, { headers: { connection: "close" } })).text();
  return {
    socket,
    finish: () =>
      new Promise((resolve) => {
        socket.once("data", (data) => resolve(data.toString().split("\r\n")[0] ?? ""));
        socket.write("}");
      }),
  };
}

/** The drain has begun when new connections are refused. */
async function untilRefused(url: string): Promise<void> {
  for (;;) {
    const reached = await fetch(`${url}/healthz`, { headers: { connection: "close" } }).catch(() => undefined);
    if (reached === undefined) return;
    await reached.text();
  }
}

test("[10] serve answers /healthz and /readyz, prints its address and neither key nor secret", async () => {
  const { url, out } = await serve();
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
  expect((await fetch(`${url}/readyz`)).status).toBe(200);
  expect(out).toContain(url);
  expect(out).toMatch(/Media {6}127\.0\.0\.1:\d+.* \(udp and tcp\)\n/);
  expect(out).toMatch(/Firewall {3}let in tcp \d+, udp and tcp \d+/);
  expect(out).not.toContain("svk_");
});

test("[11] behind a proxy the firewall line names the proxy's port, not the loopback port", async () => {
  const { out } = await serve("--public-url", "https://rtc.example.com");
  expect(out).toMatch(/Firewall {3}let in tcp 443, udp and tcp \d+/);
});

test("[11] only the server's user can read its files, even in a folder that others may read", async () => {
  mkdirSync(dataDir, { recursive: true, mode: 0o755 });
  await serve();
  const modes = readdirSync(dataDir).map((name) => [name, statSync(join(dataDir, name)).mode & 0o077]);
  expect(modes.map(([name]) => name)).toContain("stoa.db");
  expect(modes.filter(([, mode]) => mode !== 0)).toEqual([]);
});

test("[11] SIGHUP is ignored; SIGTERM lets a running request finish and exits 0", async () => {
  const { url, child } = await serve();
  child.kill("SIGHUP");
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
  const request = await slowRequest(url);
  child.kill("SIGTERM");
  await untilRefused(url);
  expect(child.exitCode).toBeNull();
  expect(await request.finish()).toStartWith("HTTP/1.1 400");
  request.socket.destroy();
  expect(await child.exited).toBe(0);
});

test("[11] a second signal does not wait for running requests", async () => {
  const { url, child } = await serve();
  const request = await slowRequest(url);
  child.kill("SIGINT");
  await untilRefused(url);
  child.kill("SIGINT");
  expect(await child.exited).toBe(1);
  request.socket.destroy();
});

test("[11] a port that is in use is reported without a stack trace, with exit code 1", async () => {
  const { url } = await serve();
  const { port } = new URL(url);
  const second = await stoa(["serve", "--port", port, "--media-udp-port", "0", "--data-dir", join(dataDir, "second")]);
  expect(second.code).toBe(1);
  expect(second.err).toContain(`port ${port} of 127.0.0.1 is taken. Choose another with --port.`);
  expect(second.err).not.toContain("    at ");
});

test("[11] a media port that is in use is reported without a stack trace, with exit code 1", async () => {
  const taken = await Bun.udpSocket({ hostname: "127.0.0.1", port: 0 });
  const ports = ["--port", "0", "--media-udp-port", String(taken.port), "--public-ip", "127.0.0.1"];
  const { code, err } = await stoa(["serve", ...ports, "--media-workers", "1", "--data-dir", dataDir]);
  taken.close();
  expect(code).toBe(1);
  expect(err).toContain(`the media port ${taken.port} of 127.0.0.1 (UDP) is taken. Choose another with`);
  expect(err).toContain("--media-udp-port");
  expect(err).not.toContain("    at ");
}, 20_000);

test("[14] another STOA_SECRET exits 2 and explains, --rotate-secret accepts it", async () => {
  const secret = (letter: string) => ({ env: { STOA_SECRET: letter.repeat(32) } });
  expect((await stoa(["migrate", "--data-dir", dataDir], secret("a"))).code).toBe(0);
  const refused = await stoa(["serve", "--data-dir", dataDir, "--port", "0"], secret("b"));
  expect(refused.code).toBe(2);
  expect(refused.err).toContain("--rotate-secret");
  expect(refused.err).not.toContain("b".repeat(32));
  const { child } = await startStoa(
    [...PROGRAM, "serve", "--rotate-secret", "--port", "0", "--media-udp-port", "0", "--data-dir", dataDir],
    secret("b"),
  );
  child.kill("SIGTERM");
  expect(await child.exited).toBe(0);
  expect((await stoa(["migrate", "--data-dir", dataDir], secret("b"))).code).toBe(0);
});

test("[11] invalid configuration prevents the start before anything is written", async () => {
  const { code, err } = await stoa(["serve", "--data-dir", dataDir, "--chat-max-text-length", "0"]);
  expect(code).toBe(2);
  expect(err).toContain("CHAT_MAX_TEXT_LENGTH");
  expect(existsSync(dataDir)).toBe(false);
});

test("[11] migrate says that it made a new database, and does not compact one that does not exist", async () => {
  const folder = mkdtempSync(join(tmpdir(), "stoa-migrate-"));
  const compacted = await stoa(["migrate", "--compact", "--data-dir", join(folder, "mistyped")]);
  expect([compacted.code, existsSync(join(folder, "mistyped"))]).toEqual([1, false]);
  expect(compacted.err).toContain(`no data in ${join(folder, "mistyped")}`);
  const outputs = [];
  for (let round = 0; round < 2; round++)
    outputs.push((await stoa(["migrate", "--data-dir", folder])).out.trim().split("\n").at(-1));
  expect(outputs).toEqual([`There was no data in ${folder}: made a new database.`, "The database is up to date."]);
  rmSync(folder, { recursive: true });
});

test("[11] a data directory that cannot be made is reported without a stack trace", async () => {
  const blocked = join(mkdtempSync(join(tmpdir(), "stoa-blocked-")), "file");
  writeFileSync(blocked, "");
  const { code, err } = await stoa(["migrate", "--data-dir", join(blocked, "data")]);
  expect(code).toBe(1);
  expect(err).toContain("cannot be written");
  expect(err).not.toContain("    at ");
  const named = await stoa(["serve", "--data-dir", blocked, "--port", "0"]);
  expect([named.code, named.err]).toEqual([1, `stoa: ${blocked} is a file. Name a folder with --data-dir.\n`]);
});

test("[11] TLS_CERT and TLS_KEY serve https; a missing file is reported without a stack trace", async () => {
  const folder = mkdtempSync(join(tmpdir(), "stoa-tls-"));
  const [cert, key] = [join(folder, "cert.pem"), join(folder, "key.pem")];
  const subject = ["-subj", "/CN=localhost", "-days", "2"];
  const made = Bun.spawn(
    [
      "openssl",
      "req",
      "-x509",
      "-newkey",
      "ec",
      "-pkeyopt",
      "ec_paramgen_curve:P-256",
      "-nodes",
      "-keyout",
      key,
      "-out",
      cert,
      ...subject,
    ],
    { stderr: "ignore" },
  );
  expect(await made.exited).toBe(0);
  const { url } = await serve("--tls-cert", cert, "--tls-key", key);
  expect(url).toStartWith("https://");
  expect((await fetch(`${url}/readyz`, { tls: { rejectUnauthorized: false } })).status).toBe(200);
  const missing = await stoa([
    "serve",
    "--port",
    "0",
    "--data-dir",
    dataDir,
    "--tls-cert",
    "absent.pem",
    "--tls-key",
    key,
  ]);
  expect([missing.code, missing.err.includes("    at ")]).toEqual([2, false]);
  expect(missing.err).toContain("absent.pem");
});

test("a start that waits for nothing but timers uses no CPU time", async () => {
  const program = `
    import { runUntilSignal } from "./src/cli/signals.ts";
    import { systemTimers } from "./src/kernel/time/timers.ts";
    await runUntilSignal(async () => {
      const before = process.threadCpuUsage();
      await new Promise((done) => systemTimers.after(500, done));
      const { user, system } = process.threadCpuUsage(before);
      console.log((user + system) / 1_000);
      process.exit();
    });`;
  const { stdout } = Bun.spawn([process.execPath, "-e", program], { cwd: ROOT, stderr: "inherit" });
  const milliseconds = Number(await new Response(stdout).text());
  expect(milliseconds).toBeGreaterThan(0);
  expect(milliseconds).toBeLessThan(10);
});
