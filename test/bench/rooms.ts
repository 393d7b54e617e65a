/** rooms: sixteen rooms of four, all sending sound and three layers: CPU a room, memory a participant, delay added, beside Janus and mediasoup (MEDIASOUP_DIR); `bin/bench rooms [rooms] [members] [seconds] [rounds] [--only=stoa,janus]` */
import { loadavg } from "node:os";
import { createCertificate } from "../../src/sfu/werift/werift-hooks.ts";
import { enterOwnNetwork } from "./harness/own-network.ts";
import { type Measured, median, report } from "./harness/report.ts";
import { echo } from "./rooms/echo.ts";
import { janusMeetings } from "./rooms/janus.ts";
import { mediasoupMeetings } from "./rooms/mediasoup.ts";
import type { MeetingServer } from "./rooms/meeting-server.ts";
import { type Figures, Meetings } from "./rooms/meetings.ts";
import { stoaMeetings } from "./rooms/stoa.ts";
import { AUDIO, VIDEO } from "./rooms/traffic.ts";
import { unpackJanus } from "./sfu/janus.ts";

const [rooms = 16, members = 4, seconds = 6, rounds = 3] = process.argv
  .slice(2)
  .filter((arg) => !arg.startsWith("-"))
  .map(Number);
const only = process.argv
  .find((arg) => arg.startsWith("--only="))
  ?.slice("--only=".length)
  .split(",");
const WARM_UP_MS = 3_000;
const ECHO = "echo";

const servers: Record<string, () => Promise<MeetingServer>> = {
  stoa: () => stoaMeetings(rooms, members),
  janus: () => janusMeetings(rooms, members, 0),
  "janus-loop": () => janusMeetings(rooms, members, 1),
  ...(process.env.MEDIASOUP_DIR && mediasoupIn(process.env.MEDIASOUP_DIR)),
};
/** Only when they are named. */
const ASKED_FOR = new Set(["mediasoup-uring"]);
const chosen = Object.keys(servers).filter((name) => only?.includes(name) ?? !ASKED_FOR.has(name));

if (chosen.some((name) => name.startsWith("janus"))) await unpackJanus();
await enterOwnNetwork();

const startedAt = performance.now();
const certificate = await createCertificate();
const all: Meetings[] = [];
for (const start of [echo, ...chosen.flatMap((name) => servers[name] ?? [])]) {
  const meetings = await Meetings.gather(await start(), { rooms, members }, certificate);
  all.push(meetings);
  progress(`${rooms} rooms of ${members} on ${meetings.server.name}`);
}
const taken = new Map<Meetings, Figures[]>(all.map((meetings) => [meetings, []]));
// In turns, so that a busy moment of the machine meets all of them.
for (let round = 0; round < rounds; round++)
  for (const [meetings, each] of taken) {
    each.push(await meetings.measure(WARM_UP_MS, seconds * 1_000));
    progress(`round ${round + 1} of ${rounds}: ${meetings.server.name}`);
  }
const rows = [...taken].map(([meetings, each]) => ({
  name: meetings.server.name,
  megabytesPerParticipant: meetings.megabytesPerParticipant,
  ...middle(each),
}));
for (const meetings of all) await meetings.disperse();

const packets = VIDEO.layers.map((layer) => `${layer.packets} × ${layer.packetBytes}`).join(", ");
console.log(
  `${rooms} rooms of ${members}; of each participant ${AUDIO.perSecond} packets of sound a second and ${VIDEO.framesPerSecond} pictures of ${packets} bytes: the shape of a call, at bit rates that two cores carry with room to spare, peers included`,
);
const floor = rows.find(({ name }) => name === ECHO);
const figures = rows.filter(({ name }) => name !== ECHO).flatMap((row) => figuresOf(row));
for (const other of rows.filter(({ name }) => /^(Janus|mediasoup)/.test(name))) {
  const own = rows.find(({ name }) => name === "Stoa");
  if (!own) continue;
  const goal = other.name.startsWith("Janus") ? { goal: { atMost: 1 } } : {};
  figures.push(
    { what: `Stoa against ${other.name}: CPU of a room`, value: own.cpuPerRoom / other.cpuPerRoom, unit: "×", ...goal },
    {
      what: `Stoa against ${other.name}: memory of a participant`,
      value: own.megabytesPerParticipant / other.megabytesPerParticipant,
      unit: "×",
    },
  );
}
if (floor)
  figures.push(
    { what: "echo: delay p50", value: floor.p50, unit: "ms" },
    { what: "echo: delay p99", value: floor.p99, unit: "ms" },
  );
report("rooms", figures, { rows, loadAverage: loadavg() });
process.exit();

/** In both of its ways to send. */
function mediasoupIn(folder: string): typeof servers {
  return {
    mediasoup: () => mediasoupMeetings(members, folder, false),
    "mediasoup-uring": () => mediasoupMeetings(members, folder, true),
  };
}

function figuresOf(row: (typeof rows)[number]): Measured[] {
  const of = (what: string, value: number, unit: string) => ({ what: `${row.name}: ${what}`, value, unit });
  return [
    of("CPU of a room", row.cpuPerRoom, "ms a second"),
    of("memory of a participant", row.megabytesPerParticipant, "MB"),
    of("delay p50", row.p50, "ms"),
    of("delay p99", row.p99, "ms"),
    of("delay added to that of an echo, p50", row.p50 - (floor?.p50 ?? 0), "ms"),
    of("delay added to that of an echo, p99", row.p99 - (floor?.p99 ?? 0), "ms"),
    { ...of("of sound and largest layer arrived", row.arrivedPercent, "%"), goal: { atLeast: 99.9 } },
    of("retransmissions and probes besides", row.besidesPercent, "%"),
    of("processor time", row.serverPercent, "% of a core"),
    of("processor time of the peers meanwhile", row.peersPercent, "% of a core"),
  ];
}

function middle(each: Figures[]): Figures {
  const of = (name: keyof Figures) => median(each.map((figure) => figure[name]));
  return {
    cpuPerRoom: of("cpuPerRoom"),
    serverPercent: of("serverPercent"),
    peersPercent: of("peersPercent"),
    arrivedPercent: of("arrivedPercent"),
    besidesPercent: of("besidesPercent"),
    p50: of("p50"),
    p99: of("p99"),
  };
}

function progress(what: string): void {
  console.error(`${what}, ${((performance.now() - startedAt) / 1_000).toFixed(0)} s`);
}
