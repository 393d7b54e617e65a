/** upgrade: what calls, chats, streams and requests notice; `bin/bench upgrade [ROUNDS] [ROOMS] [PARTICIPANTS] [USERS]`, programs BUILT_STOA, OTHER_STOA */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { SignJWT } from "jose";
import { startReceiver } from "../features/webhooks/receiver.ts";
import { until } from "../nodes/remote/until.ts";
import { makeCertificate } from "../ops/certificate.ts";
import { goOnAir, play } from "../ops/on-air.ts";
import { Upgradable } from "../ops/upgradable.ts";
import { enterOwnNetwork } from "./harness/own-network.ts";
import { cpuNanos, rssMegabytes } from "./harness/processes.ts";
import { type Measured, percentile, report } from "./harness/report.ts";
import { callsAreOver, callsGoOn, endStream } from "./upgrade/call-events.ts";
import type { Callers } from "./upgrade/callers.ts";
import { ChatUsers } from "./upgrade/chat-users.ts";
import { gapsOf, type Seen } from "./upgrade/gaps.ts";
import { startHelper } from "./upgrade/helper.ts";
import type { Wire } from "./upgrade/wire.ts";

const [rounds = 10, rooms = 4, participants = 4, users = 60] = process.argv.slice(2).map(Number);
const { BUILT_STOA, OTHER_STOA } = process.env;
if (OTHER_STOA !== undefined && BUILT_STOA === undefined) throw new Error("OTHER_STOA needs BUILT_STOA");

const LIVEKIT_PARTICIPANTS = 2;
const RECORDED_ROOMS = 1;
/** The load is measured for so long before an upgrade and after it. */
const MEASURED_MS = 2_000;
const ROUND_WITHIN_MS = 120_000;
/** What a server tells its clients when somebody comes or goes. Nobody does while the server is upgraded. */
const CHANGES = /^(participant\.(joined|left)|track\.(published|unpublished)|leave|trackUnpublished|roomMoved)$/;

await enterOwnNetwork();
const host = new Upgradable();
await host.prepare();
const certificate = await makeCertificate(host.work, "tls");
const webhooks = startReceiver();

const here = (name: string) => join(import.meta.dir, "upgrade", name);

function freePort(): number {
  const taken = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response() });
  const { port = 0 } = taken;
  void taken.stop(true);
  return port;
}

/** A server with its clients. After a round that failed, the next one begins with a new one. */
async function openStage() {
  const edgePort = freePort();
  const tls = ["--tls-cert", certificate.cert, "--tls-key", certificate.key, "--edge-port", String(edgePort)];
  const address = ["--public-url", `https://localhost:${edgePort}`];
  // All chat users come from one address, and the tokens of all rooms from one key.
  const limits = ["--chat-connection-rate-limit", "--rate-limit-rtc-tokens"].flatMap((flag) => [flag, "100000"]);
  await host.start(...tls, ...address, ...limits, "--livekit-clients", "on", "--webhook-allow-private", "true");
  await host.server.call("POST", "/v1/webhooks", { url: webhooks.url });
  const { apiKey, apiSecret } = await host.livekitKey();
  const callers = startHelper<Callers>(here("callers.ts"));
  const wire = startHelper<Wire>(here("wire.ts"));
  await wire.call.open(await mediaPort());
  const chat = await ChatUsers.open(host, users);
  return {
    callers: callers.call,
    callersPid: callers.pid,
    wire: wire.call,
    chat,
    edgePort,
    livekitToken(room: string, identity: string) {
      const claims = { video: { roomJoin: true, room } };
      const token = new SignJWT(claims).setProtectedHeader({ alg: "HS256" }).setIssuer(apiKey).setSubject(identity);
      return token.setExpirationTime("1h").sign(new TextEncoder().encode(apiSecret));
    },
    async close() {
      chat.leave();
      callers.end();
      wire.end();
      await host.end();
    },
  };
}

type Stage = Awaited<ReturnType<typeof openStage>>;

/** The one port that all media uses, from the answer to a participant. */
async function mediaPort(): Promise<number> {
  const { ben } = await host.call();
  const port = ben.peer?.remote.port ?? 0;
  for (const member of host.members.splice(0)) {
    await member.client.leave();
    member.close();
  }
  return port;
}

const gaps: Seen[] = [];
const usualGaps: Seen[] = [];
const othersGaps: number[] = [];
const othersUsualGaps: number[] = [];
const waits: number[] = [];
const handovers: number[] = [];
const roundSeconds: number[] = [];
const versions = new Set<string>();
const memory = { older: 0, newer: 0 };
/** Processors in use in the seconds before an upgrade, in percent of one. */
const busy = { server: [] as number[], clients: [] as number[] };
const count = { rejoined: 0, changes: 0, refused: 0, requests: 0, failed: 0, missed: 0 };
const messages = { deliveries: 0, lost: 0, duplicated: 0, reads: 0 };
const faulty = { webhooks: 0, streams: 0, recordings: 0, others: 0 };

/** The binaries take turns. */
function binaryOf(index: number): string[] {
  if (OTHER_STOA === undefined) return [];
  return ["--binary", index % 2 === 0 ? OTHER_STOA : (BUILT_STOA ?? "")];
}

const { call } = { call: (...request: Parameters<typeof host.server.call>) => host.server.call(...request) };

async function createRoom(): Promise<{ id: string; name: string }> {
  return (await call("POST", "/v1/rooms", { name: crypto.randomUUID() })).body;
}

/** Starts to count what a process uses; returns a function that says it, in percent of one processor. */
function cpuOf(pid: number): () => number {
  const [before, startedAt] = [cpuNanos(pid), performance.now()];
  return () => (cpuNanos(pid) - before) / ((performance.now() - startedAt) * 10_000);
}

async function openCalls({ callers, edgePort, livekitToken }: Stage) {
  const created = await Promise.all(Array.from({ length: rooms + 2 }, createRoom));
  const [whip, livekit, ...calls] = created;
  if (!whip || !livekit) throw new Error("rooms are missing");
  const identities = Array.from({ length: participants }, (_, i) => `participant-${i}`);
  const tokens = [];
  for (const { id } of calls) tokens.push(await Promise.all(identities.map((identity) => host.token(id, identity))));
  const [token, viewerToken] = await Promise.all([host.token(whip.id, "whip"), host.token(whip.id, "viewer")]);
  await callers.open({
    url: host.server.url,
    turnPort: edgePort,
    rooms: tokens,
    whip: { roomId: whip.id, token, viewerToken },
    livekit: await Promise.all(
      Array.from({ length: LIVEKIT_PARTICIPANTS }, (_, i) => livekitToken(livekit.name, `livekit-${i}`)),
    ),
  });
  const expected = new Map(calls.map(({ id }) => [id, participants]));
  expected.set(livekit.id, LIVEKIT_PARTICIPANTS).set(whip.id, 2);
  return { calls: calls.map(({ id }) => id), expected };
}

async function record(roomIds: readonly string[]): Promise<string[]> {
  const recordings = await Promise.all(roomIds.map((id) => call("POST", `/v1/rooms/${id}/recordings`, {})));
  const ids = recordings.map(({ body }) => body.id as string);
  for (const id of ids)
    await until(async () => (await call("GET", `/v1/recordings/${id}`)).body.files.length === 2 * participants);
  return ids;
}

/** Returns what is wrong with the files. */
async function stopRecording(id: string): Promise<string[]> {
  const { body } = await call("POST", `/v1/recordings/${id}/stop`);
  if (body.status !== "READY" || body.files.length !== 2 * participants)
    return [`recording: ${body.status}, ${body.files.length} files, ${body.error}`];
  const problems: string[] = [];
  for (const file of body.files) {
    const { url } = (await call("GET", `/v1/recordings/${id}/files/${file.id}/download-url`)).body;
    const path = join(host.work, `${file.id}.webm`);
    await Bun.write(path, await fetch(url, { tls: { rejectUnauthorized: false } }));
    const probe = Bun.spawn(["ffprobe", "-v", "error", "-show_packets", path], { stdout: "ignore", stderr: "pipe" });
    const complaints = (await new Response(probe.stderr).text()).trim();
    if ((await probe.exited) !== 0 || complaints !== "") problems.push(`recording: ffprobe: ${complaints}`);
    rmSync(path);
  }
  return problems;
}

let step = "";

async function round(index: number, stage: Stage): Promise<string[]> {
  const { callers, wire, chat, callersPid } = stage;
  const startedAt = performance.now();
  const problems: string[] = [];
  const noting = (kind: keyof typeof faulty, found: string[]) => {
    faulty[kind] += found.length;
    problems.push(...found);
  };
  step = "opening calls";
  webhooks.received.length = 0;
  await wire.forget();
  const [onAir, { calls, expected }] = await Promise.all([goOnAir(host), openCalls(stage)]);
  const players = ["video", "audio"].map((kind) => play(onAir.playlistOf(kind)));
  const [pictures] = players;
  const segments = () => pictures?.lists.at(-1)?.length ?? 0;
  step = "receiving media";
  await callers.ready();
  const recordings = await record(calls.slice(0, RECORDED_ROOMS));
  noting("webhooks", await callsGoOn(webhooks, expected));
  step = "a first segment of the stream";
  await until(() => segments() > 0);

  step = "measuring before the upgrade";
  const watched = await callers.watched();
  const requests = chat.post(index);
  await callers.forget();
  await wire.take();
  const [server, clients] = [cpuOf(host.note().pid), cpuOf(callersPid)];
  await Bun.sleep(MEASURED_MS);
  busy.server.push(server());
  busy.clients.push(clients());
  const usual = gapsOf(watched, await wire.take());
  usualGaps.push(...usual.direct);
  othersUsualGaps.push(...usual.others, ...(await callers.situation()).othersGaps);

  step = "upgrading";
  const older = host.note().pid;
  const at = performance.now();
  const upgraded = await host.upgrade(...binaryOf(index));
  if (upgraded.code !== 0) throw new Error(upgraded.err);
  handovers.push(performance.now() - at);
  const [, from = "", to = ""] = /from (\S+) to (\S+),/.exec(upgraded.out) ?? [];
  versions.add(from).add(to);
  step = "resuming";
  const [modes] = await Promise.all([callers.resume(), onAir.publisher.resume()]);
  const rejoined = modes.filter((mode) => mode !== "resumed");
  count.rejoined += rejoined.length;
  problems.push(...rejoined.map((mode) => `a participant was told: ${mode}`));
  step = "measuring after the upgrade";
  const posted = chat.posted;
  await until(() => chat.posted > posted);
  await chat.allIn();
  await Bun.sleep(MEASURED_MS);
  const seen = gapsOf(watched, await wire.take());
  gaps.push(...seen.direct);
  const { told, othersGaps: ofOthers } = await callers.situation();
  othersGaps.push(...seen.others, ...ofOthers);
  const changes = told.filter((type) => CHANGES.test(type));
  count.changes += changes.length;
  problems.push(...new Set(changes.map((type) => `participants were told: ${type}`)));
  memory.older = Math.max(memory.older, rssMegabytes(older));
  memory.newer = Math.max(memory.newer, rssMegabytes(host.note().pid));
  step = "the next segment of the stream";
  const shown = segments();
  await until(() => segments() > shown);

  step = "the answers and the messages";
  const { refused, longestMs } = await requests.stop();
  waits.push(longestMs);
  count.refused += refused.length;
  count.requests += chat.posted + refused.length;
  problems.push(...refused.slice(0, 3).map((problem) => `request: ${problem}`));
  const delivered = await chat.count();
  messages.deliveries += delivered.deliveries;
  messages.lost += delivered.lost;
  messages.duplicated += delivered.duplicated;
  messages.reads += delivered.reads;
  if (delivered.lost + delivered.duplicated > 0)
    problems.push(`${delivered.lost} messages lost, ${delivered.duplicated} duplicated`);
  noting("webhooks", await callsGoOn(webhooks, expected));
  step = "ending the stream";
  noting("streams", await endStream(host, onAir, players));
  step = "ending the recordings";
  for (const id of recordings) noting("recordings", await stopRecording(id));
  step = "leaving";
  noting("others", await callers.leave());
  noting("webhooks", await callsAreOver(webhooks, expected));
  count.missed += await wire.missed();
  roundSeconds.push((performance.now() - startedAt) / 1_000);
  const longest = Math.max(...seen.direct.map(({ byServerMs }) => byServerMs));
  const seconds = Math.round(roundSeconds.at(-1) ?? 0);
  console.log(`round ${index + 1} of ${rounds}: longest gap ${Math.round(longest)} ms, ${from} to ${to}, ${seconds} s`);
  return problems;
}

/** Fails with the step that did not end. */
async function inTime<T>(running: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`not over after ${ROUND_WITHIN_MS} ms`)), ROUND_WITHIN_MS);
  return Promise.race([running, late.promise]).finally(() => clearTimeout(timer));
}

/** What a packet costs that reaches the wrong one of two processes. */
async function costOfRelaying(): Promise<Measured[]> {
  const bench = Bun.spawn([process.execPath, join(import.meta.dir, "port-sharing.ts")], { stdout: "pipe" });
  const lines = (await new Response(bench.stdout).text()).trim().split("\n");
  const { figures } = JSON.parse(lines.at(-1) ?? "") as { figures: Measured[] };
  return figures.filter(({ what }) => /^relayed: the/.test(what));
}

let stage = await openStage();
try {
  for (let index = 0; index < rounds; index++) {
    try {
      const problems = await inTime(round(index, stage));
      for (const problem of problems) console.log(`round ${index + 1}: ${problem}`);
    } catch (error) {
      count.failed++;
      console.log(`round ${index + 1} failed while ${step}: ${error instanceof Error ? error.stack : error}`);
      for (const lacks of await stage.callers.lacking().catch(() => [])) console.log(`  ${lacks}`);
      await stage.close();
      stage = await openStage();
    }
  }
} finally {
  await stage.close();
  host.remove();
}

const byServer = gaps.map(({ byServerMs }) => byServerMs);
const onWire = gaps.map(({ ms }) => ms);
const usual = usualGaps.map(({ byServerMs }) => byServerMs);
const NONE = { atMost: 0 };
const figures: Measured[] = [
  { what: "rounds that failed", value: count.failed, unit: `of ${rounds}`, goal: NONE },
  { what: "media gap of a viewer, p50", value: percentile(byServer, 0.5), unit: "ms" },
  { what: "media gap of a viewer, p99", value: percentile(byServer, 0.99), unit: "ms", goal: { atMost: 60 } },
  { what: "media gap of a viewer, longest", value: Math.max(...byServer), unit: "ms", goal: { atMost: 250 } },
  { what: "the same in the seconds before, p99", value: percentile(usual, 0.99), unit: "ms" },
  { what: "the same in the seconds before, longest", value: Math.max(...usual), unit: "ms" },
  { what: "with the lateness of this bench's senders, p99", value: percentile(onWire, 0.99), unit: "ms" },
  { what: "with the lateness of this bench's senders, longest", value: Math.max(...onWire), unit: "ms" },
  {
    what: "media gap by ICE-TCP and TURN, longest",
    value: Math.max(...othersGaps),
    unit: "ms",
    goal: { atMost: 250 },
  },
  { what: "the same in the seconds before, longest", value: Math.max(...othersUsualGaps), unit: "ms" },
  { what: "packets that were not measured", value: count.missed, unit: "", goal: NONE },
  { what: "participants that had to rejoin", value: count.rejoined, unit: "", goal: NONE },
  { what: "participants told of others who come or go", value: count.changes, unit: "", goal: NONE },
  { what: "rooms with wrong webhooks", value: faulty.webhooks, unit: "", goal: NONE },
  { what: "messages lost", value: messages.lost, unit: `of ${messages.deliveries}`, goal: NONE },
  { what: "messages duplicated", value: messages.duplicated, unit: "", goal: NONE },
  { what: "joins whose answer was not complete", value: messages.reads, unit: "" },
  { what: "requests refused", value: count.refused, unit: `of ${count.requests}`, goal: NONE },
  { what: "faults of HLS", value: faulty.streams, unit: "", goal: NONE },
  { what: "faults of recordings", value: faulty.recordings, unit: `of ${rounds * RECORDED_ROOMS}`, goal: NONE },
  { what: "other faults", value: faulty.others, unit: "", goal: NONE },
  { what: "longest wait of a request, p50", value: percentile(waits, 0.5), unit: "ms" },
  { what: "longest wait of a request", value: Math.max(...waits), unit: "ms" },
  { what: "stoa upgrade, p50", value: percentile(handovers, 0.5), unit: "ms" },
  { what: "processor of the server before an upgrade, p50", value: percentile(busy.server, 0.5), unit: "%" },
  { what: "processor of these clients, p50", value: percentile(busy.clients, 0.5), unit: "%" },
  { what: "memory of the older process", value: memory.older, unit: "MB" },
  { what: "memory of the newer process", value: memory.newer, unit: "MB" },
  ...(await costOfRelaying()),
  { what: "a round, p50", value: percentile(roundSeconds, 0.5), unit: "s" },
];
if (OTHER_STOA !== undefined) figures.push({ what: "versions", value: versions.size, unit: "", goal: { atLeast: 2 } });
report("upgrade", figures, { rounds, rooms, participants, users, versions: [...versions] });
webhooks.close();
process.exit();
