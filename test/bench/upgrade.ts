/** upgrade: what rooms, recordings, chats and requests notice; `bin/bench upgrade [ROUNDS] [ROOMS] [PARTICIPANTS]`, programs BUILT_STOA, OTHER_STOA */
import { cpSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createCertificate } from "../../src/sfu/werift/werift-hooks.ts";
import { stoa } from "../cli/stoa.ts";
import { until } from "../nodes/remote/until.ts";
import { type Body, keyPath, prepareData, served } from "../ops/served.ts";
import { type Measured, percentile, report } from "./harness/report.ts";
import { CallMember, sendFor } from "./upgrade/call-member.ts";

const [rounds = 10, rooms = 4, participants = 4] = process.argv.slice(2).map(Number);
const { BUILT_STOA, OTHER_STOA } = process.env;
if (OTHER_STOA !== undefined && BUILT_STOA === undefined) throw new Error("OTHER_STOA needs BUILT_STOA");
const SENDERS = 4;
const OPTIONS = ["--media-workers", "1", "--public-ip", "127.0.0.1", "--chat-max-history-page-size", "1000"];
const LIMITS = ["--chat-request-rate-limit", "--signaling-max-connections-per-window"].flatMap((flag) => [
  flag,
  "100000",
]);

const work = mkdtempSync(join(tmpdir(), "stoa-bench-upgrade-"));
const dataDir = join(work, "data");
await prepareData(join(work, "prepared"));
cpSync(join(work, "prepared"), dataDir, { recursive: true });
cpSync(keyPath(join(work, "prepared")), keyPath(dataDir));
const server = await served(dataDir, [...OPTIONS, ...LIMITS]);
const { call } = server;

const note = (): number => JSON.parse(readFileSync(join(dataDir, "serve.json"), "utf8")).pid;
const megabytes = (pid: number): number =>
  Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) / 1_024;

const certificate = await createCertificate();

type Call = { roomId: string; members: CallMember[]; recordingId: string };

/** Every participant sends and receives; each viewer measures the gap of each video. */
async function openCall(): Promise<Call> {
  const { id: roomId } = (await call("POST", "/v1/rooms", { name: crypto.randomUUID() })).body;
  const members: CallMember[] = [];
  for (let i = 0; i < participants; i++) {
    const permissions = { publish: true, subscribe: true };
    const token = { participantIdentity: `participant-${i}`, permissions };
    const { body } = await call("POST", `/v1/rooms/${roomId}/rtc-tokens`, token);
    const member = new CallMember(server.url, body.token, { others: participants - 1, certificate });
    await member.publish();
    members.push(member);
  }
  for (const member of members) await member.watch(members.filter((other) => other !== member));
  const { id: recordingId } = (await call("POST", `/v1/rooms/${roomId}/recordings`, {})).body;
  return { roomId, members, recordingId };
}

/** Requests on connections that stay open and on new ones. */
function load(conversation: string, token: string) {
  const posted: string[] = [];
  let [refused, longestMs, isStopped] = [0, 0, false];
  const send = async (name: string, headers: Record<string, string>) => {
    for (let i = 0; !isStopped; i++) {
      const text = `${name} ${i}`;
      const at = performance.now();
      const response = await fetch(`${server.url}/v1/chat/conversations/${conversation}/messages`, {
        method: "POST",
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json", ...headers },
        body: JSON.stringify({ type: "text", text }),
      }).catch(() => null);
      longestMs = Math.max(longestMs, performance.now() - at);
      if (response?.status === 201) posted.push(text);
      else refused++;
      await response?.text();
      await Bun.sleep(50);
    }
  };
  const running = Array.from({ length: SENDERS }, (_, i) => send(`sender ${i}`, i % 2 ? { connection: "close" } : {}));
  return {
    posted,
    async stop() {
      isStopped = true;
      await Promise.all(running);
      return { refused, longestMs };
    },
  };
}

const gaps: number[] = [];
const usualGaps: number[] = [];
const waits: number[] = [];
const handovers: number[] = [];
const delays: number[] = [];
const versions = new Set<string>();
const memory = { older: 0, newer: 0 };
let [rejoined, lost, duplicated, refused, requests, brokenRecordings] = [0, 0, 0, 0, 0, 0];

/** The binaries take turns. */
function binaryOf(index: number): string[] {
  if (OTHER_STOA === undefined) return [];
  return ["--binary", index % 2 === 0 ? OTHER_STOA : (BUILT_STOA ?? "")];
}

async function round(index: number): Promise<void> {
  const calls: Call[] = [];
  const media = sendFor(() => calls.flatMap(({ members }) => members));
  for (let i = 0; i < rooms; i++) calls.push(await openCall());
  const members = calls.flatMap(({ members }) => members);
  const takeGaps = () => members.flatMap((member) => member.takeGaps());
  await until(() => members.every(({ videos }) => videos === participants - 1));
  for (const { recordingId } of calls)
    await until(
      async () => (await call("GET", `/v1/recordings/${recordingId}`)).body.files.length === 2 * participants,
    );
  const chat = await server.conversation(`round-${index}`, "alice");
  const { token } = (await call("POST", "/v1/chat/tokens", { userId: "alice" })).body;
  const sending = load(chat, token);
  takeGaps();
  await until(() => sending.posted.length > 10 * SENDERS);
  usualGaps.push(...takeGaps());
  media.takeDelay();
  const older = note();
  const at = performance.now();
  const upgraded = await stoa(["upgrade", "--data-dir", dataDir, ...binaryOf(index)]);
  if (upgraded.code !== 0) throw new Error(upgraded.err);
  const [, from = "", to = ""] = /from (\S+) to (\S+),/.exec(upgraded.out) ?? [];
  versions.add(from).add(to);
  handovers.push(performance.now() - at);
  const modes = await Promise.all(members.map((member) => member.resume()));
  rejoined += modes.filter((mode) => mode !== "resumed").length;
  const count = sending.posted.length;
  await until(() => sending.posted.length > count + 5 * SENDERS);
  const roundGaps = takeGaps();
  gaps.push(...roundGaps);
  delays.push(media.takeDelay());
  memory.older = Math.max(memory.older, megabytes(older));
  memory.newer = Math.max(memory.newer, megabytes(note()));
  const { refused: notAnswered, longestMs } = await sending.stop();
  refused += notAnswered;
  requests += sending.posted.length;
  waits.push(longestMs);
  const path = `/v1/chat/conversations/${chat}/messages?limit=1000`;
  const history = (await call("GET", path, undefined, token)).body.data.map(({ text }: Body) => text) as string[];
  lost += sending.posted.filter((text) => !history.includes(text)).length;
  duplicated += history.length - new Set(history).size;
  for (const { recordingId } of calls) {
    const { body } = await call("POST", `/v1/recordings/${recordingId}/stop`);
    if (body.status !== "READY" || body.files.length !== 2 * participants) brokenRecordings++;
  }
  media.stop();
  for (const member of members) await member.leave();
  // The process of the calls ends with them.
  await until(() => !isRunning(older));
  console.log(
    `round ${index + 1} of ${rounds}: longest gap ${Math.round(Math.max(...roundGaps))} ms, ${from} to ${to}`,
  );
}

function isRunning(pid: number): boolean {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

try {
  for (let index = 0; index < rounds; index++) await round(index);
} finally {
  process.kill(note(), "SIGKILL");
  server.child.kill("SIGKILL");
  rmSync(work, { recursive: true, force: true });
}

const figures: Measured[] = [
  { what: "media gap of a viewer, p50", value: percentile(gaps, 0.5), unit: "ms" },
  { what: "media gap of a viewer, p99", value: percentile(gaps, 0.99), unit: "ms", goal: { atMost: 60 } },
  { what: "media gap of a viewer, longest", value: Math.max(...gaps), unit: "ms", goal: { atMost: 250 } },
  { what: "the same in the seconds before, longest", value: Math.max(...usualGaps), unit: "ms" },
  { what: "delay of this bench's own sending, longest", value: Math.max(...delays), unit: "ms" },
  { what: "participants that had to rejoin", value: rejoined, unit: "", goal: { atMost: 0 } },
  { what: "messages lost", value: lost, unit: `of ${requests}`, goal: { atMost: 0 } },
  { what: "messages duplicated", value: duplicated, unit: "", goal: { atMost: 0 } },
  { what: "requests refused", value: refused, unit: "", goal: { atMost: 0 } },
  { what: "recordings not whole", value: brokenRecordings, unit: `of ${rounds * rooms}`, goal: { atMost: 0 } },
  { what: "longest wait of a request, p50", value: percentile(waits, 0.5), unit: "ms" },
  { what: "longest wait of a request", value: Math.max(...waits), unit: "ms" },
  { what: "stoa upgrade, p50", value: percentile(handovers, 0.5), unit: "ms" },
  { what: "memory of the older process", value: memory.older, unit: "MB" },
  { what: "memory of the newer process", value: memory.newer, unit: "MB" },
];
if (OTHER_STOA !== undefined) figures.push({ what: "versions", value: versions.size, unit: "", goal: { atLeast: 2 } });
report("upgrade", figures, { rounds, rooms, participants, versions: [...versions] });
process.exit();
