/** rooms-memory: what a viewer with media and a participant of a meeting take, in an engine alone: resident, and live on its heap; `bin/bench rooms-memory [viewers] [rooms] [members] [rounds] [--only=viewer] [--before=OTHER_CHECKOUT] [--objects]` */
import { createCertificate } from "../../src/sfu/werift/werift-hooks.ts";
import { enterOwnNetwork, ON_SERVER_SIDE, SERVER_ADDRESS } from "./harness/own-network.ts";
import { type Measured, median, report } from "./harness/report.ts";
import { type Memory, type SfuProcess, startSfuProcess } from "./harness/sfu-process.ts";
import { Meetings } from "./rooms/meetings.ts";
import { stoaMeetings } from "./rooms/stoa.ts";
import { Crowd } from "./sfu/crowd.ts";
import { openContestant } from "./sfu/stoa.ts";

const [viewers = 100, rooms = 8, members = 4, rounds = 1] = process.argv
  .slice(2)
  .filter((arg) => !arg.startsWith("-"))
  .map(Number);
const option = (name: string) => process.argv.find((arg) => arg.startsWith(name))?.slice(name.length);
const before = option("--before=");
const only = option("--only=") ?? "";
/** The first participants would include the memory for compiled code and growing tables. */
const WARM = 16;
const STREAM_MS = 4_000;
/** Small, because the peers take their share of the cores. */
const VIDEO = { packetBytes: 1_200, perSecond: 60, perFrame: 2 };

/** `blocks` are what the heap occupies: live objects, and the holes between them that garbage left. */
type Held = { rss: number; heap: number; blocks: number };
const KB = 1_024;

await enterOwnNetwork();
const certificate = await createCertificate();
const engine = (root?: string): SfuProcess =>
  startSfuProcess({ address: SERVER_ADDRESS, prefix: ON_SERVER_SIDE, program: "sfu-engine.ts", ...(root && { root }) });

/** With `--objects`, also which objects there are more of. */
function each(from: Memory, to: Memory, count: number): Held {
  if (process.argv.includes("--objects")) {
    const more = Object.entries(to.objectTypeCounts)
      .map(([type, n]) => [type, (n - (from.objectTypeCounts[type] ?? 0)) / count] as const)
      .filter(([, n]) => n >= 0.5)
      .toSorted(([, a], [, b]) => b - a);
    console.log(more.map(([type, n]) => `${type} ${n.toFixed(1)}`).join(", "));
  }
  const of = (field: "rss" | "heap" | "blocks") => (to[field] - from[field]) / KB / count;
  return { rss: of("rss"), heap: of("heap"), blocks: of("blocks") };
}

async function ofViewer(root?: string): Promise<Held> {
  const server = engine(root);
  const crowd = await Crowd.gather(await openContestant(server, "room", "Stoa"), "transport-cc", true, VIDEO);
  await crowd.grow(WARM);
  await crowd.measure(STREAM_MS, 0);
  const from = await server.memory();
  await crowd.grow(WARM + viewers);
  await crowd.measure(STREAM_MS, 0);
  const held = each(from, await server.memory(), viewers);
  await crowd.disperse();
  return held;
}

async function ofParticipant(root?: string): Promise<Held> {
  const server = engine(root);
  const warm = await Meetings.gather(
    await stoaMeetings(WARM / members, members, server),
    { rooms: WARM / members, members },
    certificate,
  );
  await warm.measure(STREAM_MS, 0);
  const from = await server.memory();
  const meetings = await Meetings.gather(
    await stoaMeetings(rooms, members, server, WARM / members),
    { rooms, members },
    certificate,
  );
  await meetings.measure(STREAM_MS, 0);
  const held = each(from, await server.memory(), rooms * members);
  await meetings.disperse();
  return held;
}

const kinds = [
  ["a viewer with media", ofViewer, { rss: 120 }],
  ["a participant of a meeting", ofParticipant, { rss: 500 }],
] as const;
const roots = before ? [before, undefined] : [undefined];
const figures: Measured[] = [];
for (const [what, measure, goal] of kinds.filter(([what]) => what.includes(only))) {
  const held = new Map<string | undefined, Held[]>(roots.map((root) => [root, []]));
  // In turns, so that a busy moment of the machine meets both.
  for (let round = 0; round < rounds; round++)
    for (const [root, taken] of held) {
      taken.push(await measure(root));
      console.error(`${root ?? "here"}: ${what}: ${JSON.stringify(taken.at(-1))}`);
    }
  for (const [root, taken] of held) {
    const label = `${what}${root ? ", before" : ""}`;
    figures.push(
      {
        what: `${label}: resident`,
        value: median(taken.map(({ rss }) => rss)),
        unit: "KB",
        ...(!root && { goal: { atMost: goal.rss } }),
      },
      { what: `${label}: live on the heap`, value: median(taken.map(({ heap }) => heap)), unit: "KB" },
      { what: `${label}: the heap with its holes`, value: median(taken.map(({ blocks }) => blocks)), unit: "KB" },
    );
  }
}
report("rooms-memory", figures, { viewers, rooms, members, rounds });
process.exit();
