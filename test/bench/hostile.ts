/** hostile: every attack at once beside honest calls and chat; `bin/bench hostile [seconds] [calls] [chat users] [attackers] [attack,…]` */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createApi } from "../../src/load-test/api.ts";
import { runChatLoad } from "../../src/load-test/chat-load.ts";
import {
  joinPublisher,
  joinSubscriber,
  type LoadParticipant,
  makeCertificate,
} from "../../src/load-test/participants.ts";
import { openLan } from "../harness/namespaces.ts";
import { percentile, report } from "./harness/report.ts";

const [seconds = 300, calls = 50, users = 300, attackers = 3] = process.argv.slice(2, 6).map(Number);
/** Names of attacks; all of them unless given. */
const only = process.argv[6]?.split(",") ?? null;
/** Attackers have machines of their own; on this one they get what the server leaves, as far as a scheduler can say so. */
const ELSEWHERE = ["nice", "-n", "15"];
const USERS_IN_A_CONVERSATION = 10;
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
const server = Bun.spawn([...prefix, bun, here("server.ts"), address, dataDir], { stdout: "pipe", stderr: "inherit" });
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
  const watcher = Bun.spawn([bun, here("health.ts"), url], { stdin: "pipe", stdout: "pipe", stderr: "inherit" });
  return async () => {
    watcher.stdin.end();
    const { times, failed } = (await new Response(watcher.stdout).json()) as { times: number[]; failed: number };
    return { p50: percentile(times, 0.5), p99: percentile(times, 0.99), asked: times.length, failed };
  };
}

/** A call of two: what one sends, the other gets; the longest time in which nothing came is its freeze. */
async function call(index: number) {
  const { id } = await api("POST", "/v1/rooms", { name: `call-${index}-${crypto.randomUUID()}` });
  const mint = async (participantIdentity: string) =>
    String(
      (await api("POST", `/v1/rooms/${id}/rtc-tokens`, { participantIdentity, permissions: { publish: true } })).token,
    );
  const closes: number[] = [];
  const seat = async (identity: string) => ({
    ...{
      url,
      token: await mint(identity),
      certificate: await makeCertificate(),
      onClose: (code: number) => closes.push(code),
    },
  });
  const publisher = await joinPublisher(await seat("ann"));
  let last = 0;
  let longest = 0;
  const everyone: LoadParticipant[] = [publisher];
  everyone.push(
    await joinSubscriber(await seat("ben"), [await publisher.trackId], () => {
      const now = performance.now();
      if (last > 0) longest = Math.max(longest, now - last);
      last = now;
    }),
  );
  const leave = async () => {
    longest = Math.max(longest, performance.now() - last);
    const refused = closes.length;
    for (const one of everyone) await one.leave().catch(() => {});
    return { longest, refused };
  };
  return { leave };
}

console.log(`${seconds} s, ${calls} calls, ${users} chat users, ${attackers} attackers`);
try {
  const running = [];
  for (let index = 0; index < calls; index++) running.push(await call(index));
  const chat = (durationSeconds: number) =>
    runChatLoad(
      {
        url,
        apiKey: key,
        durationSeconds,
        rate: 1,
        senders: 2,
        readers: USERS_IN_A_CONVERSATION - 2,
        conversations: Math.ceil(users / USERS_IN_A_CONVERSATION),
      },
      () => {},
    );

  const quietHealth = watchHealth();
  const quiet = await chat(QUIET_SECONDS);
  const before = { health: await quietHealth(), memoryMiB: memoryMiB() };

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
      seconds,
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
  const attacking = await Promise.all(
    Array.from({ length: attackers }, async (_, n) =>
      Bun.spawn(
        [...ELSEWHERE, ...machine(`attacker${n}`).prefix, bun, here("attacker.ts"), JSON.stringify(await armed(n))],
        {
          stdout: "pipe",
          stderr: "inherit",
        },
      ),
    ),
  );
  const health = watchHealth();
  const honest = await chat(seconds);
  const during = { health: await health(), memoryMiB: memoryMiB() };
  const attacks = await Promise.all(
    attacking.map(async ({ stdout }) => JSON.parse((await new Response(stdout).text()) || "{}")),
  );
  const ended = await Promise.all(running.map(({ leave }) => leave()));
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
    { seconds, calls, users, attackers, before, during, afterMiB, attacks },
  );
} finally {
  server.kill();
  await server.exited;
  await lan.close();
  rmSync(dataDir, { recursive: true, force: true });
}
process.exit();
