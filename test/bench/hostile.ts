/** hostile: every attack at once beside honest calls and chat; `bin/bench hostile [seconds] [calls] [chat users] [attackers] [attack,…]` */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createApi } from "../../src/load-test/api.ts";
import type { ChatReport } from "../../src/load-test/chat-load.ts";
import { openLan } from "../harness/namespaces.ts";
import { percentile, report } from "./harness/report.ts";
import { ATTACKER, HONEST, SERVER, SHARE, watchThreads } from "./hostile/machine.ts";

const [seconds = 300, calls = 50, users = 300, attackers = 3] = process.argv.slice(2, 6).map(Number);
/** Names of attacks; all of them unless given. */
const only = process.argv[6]?.split(",") ?? null;
const QUIET_SECONDS = Math.min(10, seconds);
const names = ["server", ...Array.from({ length: attackers }, (_, n) => `attacker${n}`)];
const lan = await openLan(...names);
const dataDir = mkdtempSync(join(tmpdir(), "stoa-hostile-"));
const bun = process.execPath;
const here = (file: string) => join(import.meta.dir, "hostile", file);
const machine = (name: string) => {
  const found = lan.machines[name];
  if (!found) throw new Error(`there is no machine called ${name}`);
  return found;
};

const { address, prefix } = machine("server");
/** For Bun itself: `STOA_BENCH_PROFILE=folder` has the server leave a profile of its main thread there. */
const profileIn = process.env.STOA_BENCH_PROFILE;
const profiled = profileIn ? ["--cpu-prof", `--cpu-prof-dir=${profileIn}`] : [];
const server = Bun.spawn([...SERVER, ...prefix, bun, ...profiled, here("server.ts"), address, dataDir], {
  stdout: "pipe",
  stderr: "inherit",
});
const lines = server.stdout.pipeThrough(new TextDecoderStream()).getReader();
const { url, key, mediaPort, hostileKey, account } = JSON.parse((await lines.read()).value ?? "{}") as {
  url: string;
  key: string;
  mediaPort: number;
  /** Of another tenant, and who may sign in to it. */
  hostileKey: string;
  account: { email: string; password: string };
};
const api = createApi(url, key);
// `ip netns exec` becomes the program it starts: the process is the server itself.
const memoryMiB = () =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${server.pid}/status`, "utf8"))?.[1] ?? 0) / 1024;

function watchHealth() {
  const watcher = honestly("health.ts");
  return async () => {
    watcher.stdin.end();
    const { times, failed } = (await new Response(watcher.stdout).json()) as { times: number[]; failed: number };
    return { p50: percentile(times, 0.5), p99: percentile(times, 0.99), asked: times.length, failed };
  };
}

/** A process of the honest, which shares its network with this one. */
const honestly = (file: string, ...args: unknown[]) =>
  Bun.spawn([...HONEST, bun, here(file), url, ...args.map(String)], {
    stdin: "pipe",
    stdout: "pipe",
    stderr: "inherit",
  });
const chat = async (durationSeconds: number): Promise<ChatReport> =>
  new Response(honestly("chat.ts", key, users, durationSeconds).stdout).json();

console.log(`${seconds} s, ${calls} calls, ${users} chat users, ${attackers} attackers; ${SHARE}`);
try {
  const talking = honestly("calls.ts", key, calls);
  const said = talking.stdout.pipeThrough(new TextDecoderStream()).getReader();
  // All are up.
  await said.read();

  // What each attacker holds: a chat token of a member, a token that may join, and one that may not.
  const target = await api("POST", "/v1/chat/conversations", {
    name: `target-${crypto.randomUUID()}`,
    members: Array.from({ length: attackers }, (_, n) => ({ userId: `mallory-${n}` })),
  });
  const thread = await api("POST", `/v1/chat/conversations/${target.id}/messages`, { text: "root" });
  for (let n = 0; n < 300; n++) {
    await api("POST", `/v1/chat/conversations/${target.id}/messages`, { text: "x".repeat(4000), replyTo: thread.id });
  }
  const { id: ownRoom } = await api("POST", "/v1/rooms", { name: `target-${crypto.randomUUID()}` });
  const armed = async (n: number) => {
    const mint = async (join: boolean) =>
      (
        await api("POST", `/v1/rooms/${ownRoom}/rtc-tokens`, {
          participantIdentity: `mallory-${n}-${join}`,
          permissions: { join, publishData: true },
        })
      ).token;
    const { token: chatToken } = await api("POST", "/v1/chat/tokens", { userId: `mallory-${n}` });
    return {
      url,
      mediaPort,
      chatToken,
      apiKey: hostileKey,
      account,
      rtcToken: await mint(true),
      idleToken: await mint(false),
      room: target.id,
      thread: thread.id,
      only,
    };
  };
  const attack = (forSeconds: number) =>
    Promise.all(
      Array.from({ length: attackers }, async (_, n) => {
        const arms = JSON.stringify({ ...(await armed(n)), seconds: forSeconds });
        const { stdout } = Bun.spawn([...ATTACKER, ...machine(`attacker${n}`).prefix, bun, here("attacker.ts"), arms], {
          stdout: "pipe",
          stderr: "inherit",
        });
        return JSON.parse((await new Response(stdout).text()) || "{}") as Record<string, number>;
      }),
    );
  // What is used for the first time is compiled and loaded: that memory is the server's own, whoever came first.
  await attack(QUIET_SECONDS);
  await Bun.sleep(QUIET_SECONDS * 1000);

  const quietHealth = watchHealth();
  const quietThreads = watchThreads(server.pid);
  const quiet = await chat(QUIET_SECONDS);
  const before = { threads: quietThreads(), health: await quietHealth(), memoryMiB: memoryMiB() };

  const attacking = attack(seconds);
  const health = watchHealth();
  const threads = watchThreads(server.pid);
  const honest = await chat(seconds);
  const during = { threads: threads(), health: await health(), memoryMiB: memoryMiB() };
  const attacks = await attacking;
  talking.stdin.end();
  let told = "";
  for (let part = await said.read(); !part.done; part = await said.read()) told += part.value;
  const ended = JSON.parse(told) as { longest: number; refused: number }[];
  await Bun.sleep(Math.min(30, seconds) * 1000);
  const afterMiB = memoryMiB();

  const refused = (counts: Record<string, number>) => Object.values(counts).reduce((sum, count) => sum + count, 0);
  report(
    "hostile",
    [
      {
        what: "longest freeze of an honest call",
        value: Math.max(0, ...ended.map(({ longest }) => longest)),
        unit: "ms",
        goal: { atMost: 1000 },
      },
      {
        what: "honest acknowledgements, p99",
        value: honest.ackMs.p99 ?? Number.NaN,
        unit: "ms",
        goal: { atMost: 250 },
      },
      {
        what: "attacks a second",
        value: attacks.reduce((sum, counts) => sum + refused(counts), 0) / seconds,
        unit: "",
      },
      { what: "processor time of the server's main thread", value: during.threads.main * 100, unit: "%" },
      { what: "of its other threads", value: during.threads.others * 100, unit: "%" },
      { what: "the same without attackers", value: quiet.ackMs.p99 ?? Number.NaN, unit: "ms" },
      {
        what: "honest requests refused, sends lost and calls ended",
        value:
          refused(honest.refused) +
          refused(honest.notAcknowledged) +
          honest.lost +
          ended.reduce((sum, one) => sum + one.refused, 0),
        unit: "",
        goal: { atMost: 0 },
      },
      {
        what: "/healthz p99 under attack, times its quiet value",
        value: during.health.p99 / before.health.p99,
        unit: "",
        goal: { atMost: 5 },
      },
      {
        what: "memory under attack more than before",
        value: during.memoryMiB - before.memoryMiB,
        unit: "MiB",
        goal: { atMost: 200 },
      },
      {
        what: "memory afterwards more than before",
        value: ((afterMiB - before.memoryMiB) / before.memoryMiB) * 100,
        unit: "%",
        goal: { atMost: 10 },
      },
    ],
    { seconds, calls, users, attackers, share: SHARE, before, during, afterMiB, attacks },
  );
} finally {
  server.kill(profileIn ? "SIGINT" : "SIGTERM");
  await server.exited;
  await lan.close();
  rmSync(dataDir, { recursive: true, force: true });
}
process.exit();
