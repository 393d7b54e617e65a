/** The stage of the hostile benches: a server in a network of its own, and attackers with a network each. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createApi } from "../../../src/ops/load-test/api.ts";
import { openLan } from "../../harness/namespaces.ts";
import { AS_INSTALLED } from "../harness/as-installed.ts";
import type { Attack } from "./attacks.ts";
import { ATTACKER, SERVER } from "./machine.ts";
import { type Counted, percentileOf, waitForTurns } from "./stalls.ts";

export type Field = Awaited<ReturnType<typeof openField>>;
type Account = { email: string; password: string };
/** `hostileKey`, `livekit` and `account` are of another tenant. */
type Told = {
  url: string;
  key: string;
  mediaPort: number;
  tlsPort: number;
  hostileKey: string;
  livekit: { issuer: string; secret: string };
  account: Account;
};
type State = { late: Counted[]; busy: Counted[]; memory: NodeJS.MemoryUsage };

/** The number of participants who receive an attacker's data in its room. */
const LISTENERS = 15;

export const here = (file: string): string => join(import.meta.dir, file);

export async function openField(attackers: number) {
  const names = ["server", ...Array.from({ length: attackers }, (_, n) => `attacker${n}`)];
  const lan = await openLan(...names);
  const dataDir = mkdtempSync(join(tmpdir(), "stoa-hostile-"));
  const machine = (name: string) => {
    const found = lan.machines[name];
    if (!found) throw new Error(`there is no machine called ${name}`);
    return found;
  };
  const bun = process.execPath;
  const { address, prefix } = machine("server");
  /** For Bun itself: `STOA_BENCH_PROFILE=folder` has the server leave a profile of its main thread there. */
  const profileIn = process.env.STOA_BENCH_PROFILE;
  const profiled = profileIn ? ["--cpu-prof", `--cpu-prof-dir=${profileIn}`] : [];
  const server = Bun.spawn([...SERVER, ...prefix, bun, ...profiled, here("server.ts"), address, dataDir], {
    env: { ...AS_INSTALLED, ...process.env },
    stdout: "pipe",
    stderr: "inherit",
  });
  const lines = server.stdout.pipeThrough(new TextDecoderStream()).getReader();
  const told = JSON.parse((await lines.read()).value ?? "{}") as Told;
  const { url, key, hostileKey, ...others } = told;
  const api = createApi(url, key);

  /** The targets: a member's conversation with a long thread, and a room. */
  async function target() {
    const { id: room } = await api("POST", "/v1/chat/conversations", {
      name: `target-${crypto.randomUUID()}`,
      members: Array.from({ length: attackers }, (_, n) => ({ userId: `mallory-${n}` })),
    });
    const { id: thread } = await api("POST", `/v1/chat/conversations/${room}/messages`, { text: "root" });
    for (let n = 0; n < 300; n++) {
      await api("POST", `/v1/chat/conversations/${room}/messages`, { text: "x".repeat(4000), replyTo: thread });
    }
    const { id: ownRoom } = await api("POST", "/v1/rooms", { name: `target-${crypto.randomUUID()}` });
    return { room, thread, ownRoom };
  }
  const { room, thread, ownRoom } = await target();

  /** The credentials of each attacker: a chat token of a member, tokens that may join, and one that may not. */
  async function armed(n: number) {
    const mint = async (join: boolean, who = `mallory-${n}-${join}`) =>
      (
        await api("POST", `/v1/rooms/${ownRoom}/rtc-tokens`, {
          participantIdentity: who,
          permissions: { join, publishData: true },
        })
      ).token;
    const listeners: unknown[] = [];
    for (let one = 0; one < LISTENERS; one++) listeners.push(await mint(true, `mallory-${n}-ear-${one}`));
    const { token: chatToken } = await api("POST", "/v1/chat/tokens", { userId: `mallory-${n}` });
    const tokens = { chatToken, rtcToken: await mint(true), idleToken: await mint(false) };
    return { url, apiKey: hostileKey, ...others, ...tokens, listeners, room, thread, ownRoom };
  }

  // `ip netns exec` becomes the program it starts: the process is the server itself.
  const memoryOf = (kind: "VmRSS" | "RssAnon"): number =>
    Number(new RegExp(`${kind}:\\s+(\\d+)`).exec(readFileSync(`/proc/${server.pid}/status`, "utf8"))?.[1] ?? 0) / 1024;

  let askedAt = performance.now();
  return {
    url,
    key,
    pid: server.pid,

    /** Runs all attackers, or the named ones, for this long. Resolves with what each attacker achieved. */
    attack: (seconds: number, only: readonly Attack[] | null): Promise<Record<string, number>[]> =>
      Promise.all(
        Array.from({ length: attackers }, async (_, n) => {
          const arms = JSON.stringify({ ...(await armed(n)), seconds, only });
          const command = [...ATTACKER, ...machine(`attacker${n}`).prefix, bun, here("attacker.ts"), arms];
          const { stdout } = Bun.spawn(command, { stdout: "pipe", stderr: "inherit" });
          return JSON.parse((await new Response(stdout).text()) || "{}") as Record<string, number>;
        }),
      ),

    /** The delays of timers on the server's main thread since the last call, and its memory. */
    async state() {
      server.kill("SIGUSR2");
      let told = "";
      while (!told.endsWith("\n")) told += (await lines.read()).value ?? "\n";
      const { late, busy, memory } = JSON.parse(told) as State;
      const overallMs = performance.now() - askedAt;
      askedAt = performance.now();
      const [p50, p99, p999] = [0.5, 0.99, 0.999].map((share) => percentileOf(late, share)) as [number, number, number];
      return {
        p50,
        p99,
        p999,
        longest: late.at(-1)?.[0] ?? 0,
        ownWait: waitForTurns(busy, overallMs),
        memory,
      };
    },

    memoryMiB: () => memoryOf("VmRSS"),
    /** Apart from files that are mapped: the kernel takes back what it needs of those, whichever process read them. */
    ownMemoryMiB: () => memoryOf("RssAnon"),

    async close(): Promise<void> {
      server.kill(profileIn ? "SIGINT" : "SIGTERM");
      await server.exited;
      await lan.close();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}
