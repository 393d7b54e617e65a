/** idle: processor time a second of a media engine without a room, with an empty one, and with somebody who waits in it; memory of participants */
import { Engine } from "../../src/sfu/engine.ts";
import type { WorkerCall } from "../../src/sfu/worker-protocol.ts";
import { ALL, ROOM } from "../sfu/room-of-peers.ts";
import { report } from "./harness/report.ts";

const SECONDS = 10;
const PARTICIPANTS = 2_000;

/** Milliseconds of processor time in each second, all threads of this process. */
async function measure(): Promise<number> {
  await Bun.sleep(2_000);
  Bun.gc(true);
  const before = process.cpuUsage();
  await Bun.sleep(SECONDS * 1_000);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000 / SECONDS;
}

const nothing = await measure();
const engine = await Engine.start(
  {
    hostname: "127.0.0.1",
    port: 0,
    announce: ["127.0.0.1"],
    tcp: true,
    srtpProfiles: ["AEAD_AES_128_GCM"],
  },
  {
    emit() {},
    onFault(error) {
      throw error;
    },
  },
);
const call = (method: string, request: object) => engine.call({ type: "call", id: 0, method, request } as WorkerCall);
const idle = await measure();
call("openRoom", { roomId: ROOM });
const empty = await measure();
call("addParticipant", { roomId: ROOM, participantId: "ada", identity: "ada", permissions: ALL });
const waiting = await measure();
const rssKilobytes = () => {
  Bun.gc(true);
  return process.memoryUsage.rss() / 1_024;
};
const before = rssKilobytes();
for (let n = 0; n < PARTICIPANTS; n++)
  call("addParticipant", { roomId: ROOM, participantId: `p${n}`, identity: `p${n}`, permissions: ALL });
const kilobytes = (rssKilobytes() - before) / PARTICIPANTS;
engine.close();

const unit = "ms a second";
report("idle", [
  { what: "a process without an engine", value: nothing, unit },
  { what: "an engine without a room, beyond that", value: Math.max(0, idle - nothing), unit, goal: { atMost: 1 } },
  { what: "with an empty room", value: Math.max(0, empty - nothing), unit, goal: { atMost: 1 } },
  { what: "with somebody in it who sends nothing", value: Math.max(0, waiting - nothing), unit },
  { what: "memory of a participant without media, in the engine", value: kilobytes, unit: "KB", goal: { atMost: 25 } },
]);
