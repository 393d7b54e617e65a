// runs: beside one
import { Database } from "bun:sqlite";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { chmodSync, cpSync, existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { RtcPeer } from "../../src/rtc-client/peer.ts";
import { RtpSource } from "../../src/rtc-client/rtp-source.ts";
import { PROGRAM, stoa } from "../cli/stoa.ts";
import { checkoutOf } from "../cluster/checkout.ts";
import { media } from "../features/recordings/ffmpeg.ts";
import { until } from "../nodes/remote/until.ts";
import { makeCertificate } from "./certificate.ts";
import { notifySocket } from "./notify-socket.ts";
import type { Body } from "./served.ts";
import { tcpPeerSocket } from "./tcp-peer-socket.ts";
import { turnPeerSocket } from "./turn-peer-socket.ts";
import { Upgradable } from "./upgradable.ts";

const host = new Upgradable();
const { work } = host;
const note = () => host.note();
const start = (...args: string[]) => host.start(...args);
const upgrade = (...args: string[]) => host.upgrade(...args);
const call = () => host.call();
const member = (roomId: string, identity: string) => host.member(roomId, identity);

/** A program that passes every check and ends when the data is its own, as one with a failing migration does. */
const FAILS_LATE = `#!${process.execPath}
process.on("message", ({ type }) => {
  if (type === "check") process.send({ type: "ready", version: "0.0.0" });
  if (type === "released") process.exit(3);
});
`;
/** A migration that fails after it has changed something. */
const BROKEN_MIGRATION = `CREATE TABLE half_done (id INTEGER) STRICT;
INSERT INTO half_done SELECT 1;
UPDATE projects SET name = NULL;
`;
const PROGRAMS = {
  "does not start": "#!/bin/false\n",
  "is no program of this server": "#!/bin/sh\necho unknown command >&2\nexit 2\n",
  refuses: `#!${process.execPath}
process.on("message", () => process.send({ type: "refused", reason: "the data is of a newer version" }));
`,
};

beforeAll(() => host.prepare());
const removals: (() => void)[] = [];
afterAll(() => {
  host.remove();
  for (const remove of removals) remove();
});

function freePort(): number {
  const taken = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response() });
  const { port = 0 } = taken;
  void taken.stop(true);
  return port;
}

function program(name: string, text: string): string {
  const path = join(work, name.replaceAll(" ", "-"));
  writeFileSync(path, text);
  chmodSync(path, 0o755);
  return path;
}

/** A program from these sources with one more migration. */
function programWith(migrations: Record<string, string>): string {
  const checkout = checkoutOf("0.3.0", migrations);
  removals.push(checkout.remove);
  return checkout.program;
}

/** Requests on four connections that stay open and on new ones, until `stop`, which returns what was refused. */
function requests(conversation: string, token: string, url = host.server.url) {
  const posted: string[] = [];
  const refused: string[] = [];
  let isStopped = false;
  const send = async (name: string, headers: Record<string, string>) => {
    for (let i = 0; !isStopped; i++) {
      const text = `${name} ${i}`;
      const sent = await fetch(`${url}/v1/chat/conversations/${conversation}/messages`, {
        method: "POST",
        tls: { rejectUnauthorized: false },
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json", ...headers },
        body: JSON.stringify({ type: "text", text }),
      }).then(
        async (response) => ({ status: response.status, text: await response.text() }),
        (error: Error) => ({ status: 0, text: error.message }),
      );
      if (sent.status === 201) posted.push(text);
      else refused.push(`${text}: ${sent.status} ${sent.text}`);
      await Bun.sleep(50);
    }
  };
  const running = ["a", "b"].flatMap((name) => [send(name, {}), send(`new ${name}`, { connection: "close" })]);
  return {
    posted,
    async stop() {
      isStopped = true;
      await Promise.all(running);
      return refused;
    },
  };
}

/** Requests of a chat user in a conversation of their own. */
async function chatting() {
  const chat = await host.server.conversation("open", "alice");
  const { body: token } = await host.server.call("POST", "/v1/chat/tokens", { userId: "alice" });
  const load = requests(chat, token.token);
  await until(() => load.posted.length > 20);
  return load;
}

/** Requests continue; none was refused, and the database holds exactly what was answered. */
async function expectComplete(load: ReturnType<typeof requests>): Promise<void> {
  const posted = load.posted.length;
  await until(() => load.posted.length > posted + 20);
  expect((await load.stop()).slice(0, 3)).toEqual([]);
  const db = new Database(join(host.dataDir, "stoa.db"), { readonly: true });
  const texts = db.query<{ text: string }, []>("SELECT text FROM messages").all();
  expect(texts.map(({ text }) => text).sort()).toEqual([...load.posted].sort());
  expect(db.query("PRAGMA integrity_check").get()).toEqual({ integrity_check: "ok" });
  db.close();
}

describe("stoa upgrade", () => {
  afterEach(() => host.end());

  test("replaces the server while a call, a chat and requests continue, and ends the older process with its last call", async () => {
    await start();
    const { roomId, ada, ben } = await call();
    const chat = await host.server.conversation("open", "alice");
    const alice = await host.server.member("alice", chat);
    const { body: token } = await host.server.call("POST", "/v1/chat/tokens", { userId: "alice" });
    const load = requests(chat, token.token);
    await until(() => load.posted.length > 20);
    ben.longestGapMs = 0;

    const older = note().pid;
    const { code, out, err } = await upgrade();
    expect(err).toBe("");
    expect({ code, out }).toEqual({ code: 0, out: expect.stringMatching(/^upgraded from \S+ to \S+, process \d+\n$/) });
    expect(note().pid).not.toBe(older);
    const gapMs = ben.longestGapMs;
    await until(() => alice.client.closeCode !== null);
    expect(alice.client.closeCode).toBe(4500);
    const back = await host.server.member("alice", chat, { since: alice.ack.seq ?? 0 });
    expect(back.ack.type).toBe("ack");
    for (const one of [ada, ben]) {
      expect(one.of("bye")).toMatchObject([{ reason: "restart", action: "resume" }]);
      const ack = await one.resume();
      expect(ack).toMatchObject({ mode: "resumed", serverName: `local.${older}` });
      expect(ack.participants).toHaveLength(1);
    }
    await ben.receives();
    const posted = load.posted.length;
    await until(() => load.posted.length > posted + 20);
    expect((await load.stop()).slice(0, 3)).toEqual([]);
    const path = `/v1/chat/conversations/${chat}/messages?limit=1000`;
    const { body: history } = await host.server.call("GET", path, undefined, token.token);
    expect(history.data.map(({ text }: Body) => text).sort()).toEqual([...load.posted].sort());
    console.log(`upgrade: longest gap of media ${Math.round(gapMs)} ms, ${load.posted.length} requests`);
    expect(gapMs).toBeLessThan(1_000);

    // A new room is on the newer process, at the same media port.
    const fresh = await call();
    expect(fresh.ben.client.ack).toMatchObject({ serverName: "local" });
    const { body: calls } = await host.server.call("GET", `/v1/rooms/${roomId}/participants`);
    expect((calls.data ?? calls).map(({ identity }: Body) => identity).sort()).toEqual(["ada", "ben"]);
    const cyd = await member(roomId, "cyd");
    await cyd.watch("ada");
    for (const one of [ada, ben, cyd]) await one.client.leave();
    expect(await host.server.child.exited).toBe(0);
    expect(readdirSync(join(host.dataDir, "older"))).toEqual([]);
    await fresh.ben.receives();
    expect((await host.server.call("GET", "/healthz")).status).toBe(200);
  });

  test("keeps what an encoder sends by WHIP, and a player that watches by WHEP over TCP", async () => {
    await start();
    const { id: roomId } = (await host.server.call("POST", "/v1/rooms", { name: crypto.randomUUID() })).body;
    const open = async (kind: "whip" | "whep", openSocket?: typeof tcpPeerSocket) => {
      const permissions = { publish: kind === "whip", subscribe: true };
      const { body } = await host.server.call("POST", `/v1/rooms/${roomId}/rtc-tokens`, {
        participantIdentity: kind,
        permissions,
      });
      const headers = { authorization: `Bearer ${body.token}`, "content-type": "application/sdp" };
      let location = "";
      const negotiate = async ({ sdp }: { sdp: string }) => {
        const response = await fetch(`${host.server.url}/${kind}/${roomId}`, { method: "POST", headers, body: sdp });
        location = response.headers.get("location") ?? "";
        return { sdp: await response.text(), tracks: [] };
      };
      const sections = [
        { kind: "video" as const, direction: kind === "whip" ? ("sendonly" as const) : ("recvonly" as const) },
      ];
      const ref = { roomId: "", participantId: "", hostname: "0.0.0.0" };
      const peer = await RtcPeer.create({
        node: { negotiate },
        ...ref,
        sections,
        ...(openSocket ? { openSocket } : {}),
      });
      await peer.connect(undefined, undefined);
      return { peer, end: () => fetch(new URL(location, host.server.url), { method: "DELETE", headers }) };
    };
    const encoder = await open("whip");
    const source = new RtpSource({ ssrc: 7, payloadType: 96, mid: "0" });
    const sending = setInterval(() => source.sendFrame(encoder.peer, true), 40);
    const player = await open("whep", tcpPeerSocket);
    const receives = async () => {
      const before = player.peer.mediaIn;
      await until(() => player.peer.mediaIn >= before + 10);
    };
    await receives();
    expect((await upgrade()).code).toBe(0);
    await receives();
    const { body } = await host.server.call("GET", `/v1/rooms/${roomId}/participants`);
    expect((body.data ?? body).map(({ identity }: Body) => identity).sort()).toEqual(["whep", "whip"]);
    clearInterval(sending);
    for (const one of [player, encoder]) {
      expect((await one.end()).status).toBe(204);
      one.peer.close();
    }
    expect(await host.server.child.exited).toBe(0);
  });

  test("continues to record into the same files, and the newer process completes them", async () => {
    await start();
    const { roomId, ada, ben } = await call();
    const recording = async (method: string, path: string) => (await host.server.call(method, path)).body;
    const { id } = (await host.server.call("POST", `/v1/rooms/${roomId}/recordings`, {})).body;
    const bytes = async () => (await recording("GET", `/v1/recordings/${id}`)).files[0]?.bytes ?? 0;
    await until(async () => (await bytes()) > 1_000);
    const before = await recording("GET", `/v1/recordings/${id}`);
    expect((await upgrade()).code).toBe(0);
    await Promise.all([ada.resume(), ben.resume()]);
    const after = await recording("GET", `/v1/recordings/${id}`);
    expect(after).toMatchObject({ status: "RECORDING", files: [{ id: before.files[0].id }] });
    const running = await bytes();
    await until(async () => (await bytes()) > running);
    const stopped = await recording("POST", `/v1/recordings/${id}/stop`);
    expect(stopped).toMatchObject({ status: "READY", error: null, files: [{ identity: "ada", codec: "vp8" }] });
    expect(stopped.files).toHaveLength(1);
    const path = `/v1/recordings/${id}/files/${before.files[0].id}/download-url`;
    const { url } = await recording("GET", path);
    const file = join(work, "recorded.webm");
    await Bun.write(file, await fetch(url));
    const packets = JSON.parse(media("ffprobe", "-show_packets", "-of", "json", file)).packets as { pts: number }[];
    const times = packets.map(({ pts }) => pts);
    const longestGap = Math.max(...times.slice(1).map((at, index) => at - (times[index] ?? at)));
    console.log(`upgrade: ${packets.length} recorded frames, longest gap ${longestGap} ms`);
    expect(longestGap).toBeLessThan(1_000);
    expect(times.at(-1)).toBeGreaterThan(before.files[0].durationMs);
    const { id: second } = (await host.server.call("POST", `/v1/rooms/${roomId}/recordings`, {})).body;
    await until(async () => ((await recording("GET", `/v1/recordings/${second}`)).files[0]?.bytes ?? 0) > 1_000);
    for (const one of [ada, ben]) await one.client.leave();
    expect(await host.server.child.exited).toBe(0);
    const last = await recording("POST", `/v1/recordings/${second}/stop`);
    expect(last).toMatchObject({ status: "READY", files: [{ identity: "ada" }] });
  });

  const { BUILT_STOA } = process.env;
  test.skipIf(BUILT_STOA === undefined)("upgrades to a binary that was installed over the running one", async () => {
    const installed = join(work, "installed");
    const install = () => {
      cpSync(BUILT_STOA ?? "", `${installed}.new`);
      renameSync(`${installed}.new`, installed);
    };
    install();
    await host.startProgram([installed]);
    const { ben } = await call();
    install();
    expect(await upgrade()).toMatchObject({ code: 0, err: "" });
    await ben.resume();
    writeFileSync(`${installed}.new`, PROGRAMS["does not start"], { mode: 0o755 });
    renameSync(`${installed}.new`, installed);
    expect((await upgrade()).code).toBe(1);
    install();
    expect(await upgrade()).toMatchObject({ code: 0, err: "" });
    await ben.resume();
    await ben.receives();
    expect(existsSync(join(host.dataDir, "older", `${host.server.child.pid}.json`))).toBe(true);
  });

  test("moves the rooms that are left after UPGRADE_DRAIN_MINUTES to the newer process", async () => {
    await start("--upgrade-drain-minutes", "0");
    const calls = [await call(), await call()];
    expect((await upgrade()).code).toBe(0);
    for (const { ada, ben } of calls) await Promise.all([ada.resume(), ben.resume()]);
    for (const { roomId, ada, ben } of calls) {
      for (const one of [ada, ben])
        await until(() => one.of("bye").find((bye) => bye.reason === "restart" && bye.action === "rejoin"));
      const back = await member(roomId, "ada");
      expect(back.client.ack).toMatchObject({ serverName: "local" });
    }
    expect(await host.server.child.exited).toBe(0);
    expect((await host.server.call("GET", "/healthz")).status).toBe(200);
  });

  test("hands over the https port, and finishes what was begun on connections to the older process", async () => {
    const { cert, key } = await makeCertificate(work, "tls");
    const port = freePort();
    await start("--tls-cert", cert, "--tls-key", key, "--edge-port", String(port));
    const { ben } = await call();
    const chat = await host.server.conversation("open", "alice");
    const { body: token } = await host.server.call("POST", "/v1/chat/tokens", { userId: "alice" });
    const load = requests(chat, token.token, `https://127.0.0.1:${port}`);
    await until(() => load.posted.length > 20);
    const { code, err } = await upgrade();
    expect({ code, err }).toEqual({ code: 0, err: "" });
    const posted = load.posted.length;
    await until(() => load.posted.length > posted + 20);
    expect((await load.stop()).slice(0, 3)).toEqual([]);
    await ben.resume();
    await ben.receives();
  });

  test("keeps the media of clients that are relayed by TURN, and relays new ones into the same call", async () => {
    const { cert, key } = await makeCertificate(work, "turn");
    const port = freePort();
    const address = ["--edge-port", String(port), "--public-url", `https://localhost:${port}`];
    await start("--tls-cert", cert, "--tls-key", key, ...address);
    const { roomId, ada } = await call();
    const relayed = async (identity: string) => {
      const joined = await member(roomId, identity);
      const servers = joined.client.ack?.iceServers ?? [];
      const turn = servers.find(({ username }) => username !== undefined);
      await joined.watch("ada", turnPeerSocket(port, turn ?? {}));
      return joined;
    };
    const cyd = await relayed("cyd");
    cyd.longestGapMs = 0;
    const { code, err } = await upgrade();
    expect({ code, err }).toEqual({ code: 0, err: "" });
    for (const one of [ada, cyd]) expect((await one.resume()).mode).toBe("resumed");
    await cyd.receives();
    console.log(`upgrade: longest gap of relayed media ${Math.round(cyd.longestGapMs)} ms`);
    expect(cyd.longestGapMs).toBeLessThan(1_000);
    const dan = await relayed("dan");
    await dan.receives();
    await cyd.receives();
  });

  test.each(Object.entries(PROGRAMS))("continues as before with a program that %s", async (name, text) => {
    await start();
    const { ben } = await call();
    const load = await chatting();
    const { pid } = note();
    const { code, err } = await upgrade("--binary", program(name, text));
    expect(code).toBe(1);
    expect(err).toStartWith("stoa: the server was not upgraded: ");
    expect(note().pid).toBe(pid);
    expect((await host.server.call("GET", "/healthz")).status).toBe(200);
    await ben.receives();
    expect(ben.of("bye")).toEqual([]);
    await expectComplete(load);
  });

  test("says what is wrong with a path at which there is no program that can be started", async () => {
    await start();
    const { pid } = note();
    const file = (name: string, text: string, mode: number) => {
      writeFileSync(join(work, name), text, { mode });
      return join(work, name);
    };
    const wrong = [
      [join(work, "nothing"), 2, "there is no PATH."],
      [work, 2, "PATH is not a file."],
      [file("notes", "some notes\n", 0o644), 2, "PATH is not executable. Make it executable with chmod +x."],
      [file("text", "some text\n", 0o755), 1, "the server was not upgraded: PATH is not a program for this system."],
      [
        file("script", "#!/nowhere/sh\n", 0o755),
        1,
        "the server was not upgraded: PATH needs an interpreter or a C library that is missing.",
      ],
    ] as const;
    for (const [path, code, message] of wrong) {
      const err = `stoa: ${message.replace("PATH", path)}\n`;
      expect(await upgrade("--binary", path)).toEqual({ code, out: "", err });
    }
    expect(note().pid).toBe(pid);
    expect((await host.server.call("GET", "/healthz")).status).toBe(200);
  });

  test("refuses a second upgrade while one is under way", async () => {
    await start();
    const pidFile = join(work, "waits.pid");
    const waits = program(
      "waits",
      `#!${process.execPath}\nawait Bun.write("${pidFile}", String(process.pid));\nsetInterval(() => {}, 1_000);\n`,
    );
    const first = upgrade("--binary", waits);
    await until(() => existsSync(pidFile) && Number(readFileSync(pidFile, "utf8")) > 0);
    const err = "stoa: the server is being upgraded already. Wait until that is over.\n";
    expect(await upgrade()).toEqual({ code: 1, out: "", err });
    process.kill(Number(readFileSync(pidFile, "utf8")), "SIGKILL");
    expect(await first).toMatchObject({ code: 1, err: expect.stringContaining("ended with SIGKILL") });
    expect(await upgrade()).toMatchObject({ code: 0, err: "" });
  });

  test("commands of a newer program do not migrate the data of the server that runs, before or without an upgrade", async () => {
    await start();
    const newer = programWith({ "9999_next": "CREATE TABLE next (id TEXT PRIMARY KEY) STRICT;\n" });
    const run = async (...args: string[]) => {
      const child = Bun.spawn([newer, ...args, "--data-dir", host.dataDir], { stdout: "pipe", stderr: "pipe" });
      const [code, err] = await Promise.all([child.exited, new Response(child.stderr).text()]);
      return { code, err };
    };
    for (const command of [["keys", "list"], ["drain", "local"], ["migrate"]]) {
      const { code, err } = await run(...command);
      expect({ code, err }).toEqual({
        code: 1,
        err: expect.stringMatching(/^stoa: the server that runs on .* Upgrade it/),
      });
    }
    expect((await stoa(["keys", "list", "--data-dir", host.dataDir])).code).toBe(0);
    expect(await upgrade("--binary", newer)).toMatchObject({ code: 0, err: "" });
    expect(await run("keys", "list")).toEqual({ code: 0, err: "" });
    const earlier = await stoa(["keys", "list", "--data-dir", host.dataDir]);
    expect(earlier).toMatchObject({ code: 1, err: expect.stringContaining("written by a newer Stoa") });
    expect(await upgrade("--binary", programWith({}))).toMatchObject({
      code: 1,
      err: expect.stringContaining("the server was not upgraded: The database was written by a newer Stoa"),
    });
    expect((await host.server.call("GET", "/healthz")).status).toBe(200);
  });

  test("serves with the earlier version again when the new program fails after it got the data", async () => {
    await start();
    const { roomId, ben } = await call();
    const load = await chatting();
    const older = note().pid;
    const { code, err } = await upgrade("--binary", program("fails late", FAILS_LATE));
    expect({ code, err }).toEqual({ code: 1, err: expect.stringContaining("the newer process ended with 3") });
    expect(note().pid).not.toBe(older);
    expect(await ben.resume()).toMatchObject({ mode: "resumed", serverName: `local.${older}` });
    await ben.receives();
    expect((await host.server.call("GET", `/v1/rooms/${roomId}`)).status).toBe(200);
    await expectComplete(load);
  });

  test("serves with the earlier version and all data when a migration of the new program fails", async () => {
    await start();
    const { ben } = await call();
    const load = await chatting();
    const older = note().pid;
    const { code, err } = await upgrade("--binary", programWith({ "9999_broken": BROKEN_MIGRATION }));
    expect(code).toBe(1);
    expect(err).toContain("the server was not upgraded: Migration 9999_broken failed: NOT NULL constraint failed");
    expect(await ben.resume()).toMatchObject({ mode: "resumed", serverName: `local.${older}` });
    await ben.receives();
    await expectComplete(load);
    const db = new Database(join(host.dataDir, "stoa.db"), { readonly: true });
    expect(db.query("SELECT name FROM sqlite_schema WHERE name = 'half_done'").all()).toEqual([]);
    db.close();
    // The copy that was made before the migration is another chance to get back.
    expect(readdirSync(host.dataDir).filter((name) => name.startsWith("before-migration-"))).toHaveLength(1);
  });

  test("starts the newer process again when it is killed, and keeps the calls; both end with the service", async () => {
    await start();
    const { ben } = await call();
    const older = note().pid;
    expect((await upgrade()).code).toBe(0);
    await ben.resume();
    const killed = note().pid;
    process.kill(killed, "SIGKILL");
    await ben.receives();
    expect(await ben.resume()).toMatchObject({ mode: "resumed", serverName: `local.${older}` });
    await ben.receives();
    await until(() => note().pid !== killed);
    host.adopt();
    process.kill(note().pid, "SIGTERM");
    expect(await host.server.child.exited).toBe(0);
  });

  /** The shell has the id that systemd would tell, and keeps it. */
  async function startService(...variables: string[]): Promise<void> {
    const asService = ["sh", "-c", `SYSTEMD_EXEC_PID=$$ ${variables.join(" ")} exec "$@"`, "sh", ...PROGRAM];
    await host.startProgram(asService);
  }

  test("says of a service of systemd, which would end with its first process, that it has to be restarted", async () => {
    await startService();
    const { code, err } = await upgrade();
    expect({ code, err }).toEqual({ code: 1, err: expect.stringContaining("systemd ends the service") });
    expect((await host.server.call("GET", "/healthz")).status).toBe(200);
  });

  test("tells systemd which process is the main one", async () => {
    const socket = join(work, "notify");
    const systemd = notifySocket(socket);
    try {
      await startService(`NOTIFY_SOCKET=${socket}`);
      const older = note().pid;
      const { ben } = await call();
      expect((await upgrade("--binary", program("does not start", PROGRAMS["does not start"]))).code).toBe(1);
      expect(systemd.messages()).toEqual([]);
      expect(await upgrade()).toMatchObject({ code: 0, err: "" });
      const newer = note().pid;
      expect(newer).not.toBe(older);
      expect(systemd.messages()).toEqual([`MAINPID=${newer}`]);
      await ben.resume();
      await ben.receives();
      process.kill(newer, "SIGKILL");
      await until(() => note().pid !== newer);
      host.adopt();
      const messages: string[] = [];
      await until(() => messages.push(...systemd.messages()) > 0);
      expect(messages).toEqual([`MAINPID=${note().pid}`]);
    } finally {
      systemd.close();
    }
  });

  test("needs a running server", async () => {
    await start();
    host.server.child.kill("SIGTERM");
    await host.server.child.exited;
    const { code, err } = await stoa(["upgrade", "--data-dir", host.dataDir]);
    expect({ code, err }).toEqual({ code: 1, err: `stoa: no server is running on ${host.dataDir}.\n` });
  });
});
