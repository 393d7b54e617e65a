/** churn: memory and file descriptors of the media node over many joins and leaves */
import { readdirSync } from "node:fs";
import { resolvePermissions } from "../../src/features/rooms/participant.ts";
import { RtcPeer } from "../../src/rtc-client/peer.ts";
import { RtpSource } from "../../src/rtc-client/rtp-source.ts";
import { createCertificate } from "../../src/sfu/werift/werift-hooks.ts";
import { rssMegabytes } from "./harness/processes.ts";
import { report } from "./harness/report.ts";
import { startSfuProcess } from "./harness/sfu-process.ts";

const PERMISSIONS = resolvePermissions({ publish: true });
const ROOM = "churn";
const PARALLEL = 4;
const REST_SECONDS = 20;

const rounds = Number(process.argv[2] ?? 2_000);
const server = startSfuProcess();
const { node } = server;
const certificate = await createCertificate();
await node.openRoom({ roomId: ROOM });

/** Joins, sends a frame, receives one of another participant's, leaves. */
async function visit(name: string): Promise<void> {
  const participantId = `${name}-${crypto.randomUUID()}`;
  await node.addParticipant({ roomId: ROOM, participantId, identity: participantId, permissions: PERMISSIONS });
  const peer = await RtcPeer.create({
    node,
    roomId: ROOM,
    participantId,
    certificate,
    sections: [
      { kind: "video", direction: "sendonly" },
      { kind: "video", direction: "recvonly" },
    ],
  });
  const room = await node.room({ roomId: ROOM });
  const track = room?.participants.flatMap(({ tracks }) => tracks)[0];
  await peer.connect(
    [{ mid: "0", clientTrackId: "v", kind: "video", source: "camera" }],
    track ? [{ mid: "1", trackId: track.id }] : [],
  );
  const source = new RtpSource({ ssrc: 1 + Math.floor(Math.random() * 2 ** 31), payloadType: 96, mid: "0" });
  for (let i = 0; i < 5; i++) source.sendFrame(peer, i === 0);
  await Bun.sleep(20);
  await node.removeParticipant({ roomId: ROOM, participantId });
  peer.close();
}

const figures = () => ({ rssMb: rssMegabytes(server.pid), files: readdirSync(`/proc/${server.pid}/fd`).length });

/** Measures after a while without joins and leaves, because under load the collector lets memory vary by a third. */
async function atRest(): Promise<ReturnType<typeof figures>> {
  const seen = [figures()];
  for (let second = 0; second < REST_SECONDS; second++) {
    await Bun.sleep(1_000);
    seen.push(figures());
  }
  return seen.reduce((least, one) => (one.rssMb < least.rssMb ? one : least));
}

async function visits(count: number): Promise<void> {
  let left = count;
  await Promise.all(
    Array.from({ length: PARALLEL }, async (_, i) => {
      while (left-- > 0) await visit(`w${i}`);
    }),
  );
}

console.log("joins   RSS MB   files");
await visits(200);
const before = await atRest();
console.log(`  200   ${before.rssMb.toFixed(0).padStart(6)}   ${String(before.files).padStart(5)}   (warm)`);
for (let done = 200; done < rounds; ) {
  const count = Math.min(200, rounds - done);
  await visits(count);
  done += count;
  const now = figures();
  console.log(`${String(done).padStart(5)}   ${now.rssMb.toFixed(0).padStart(6)}   ${String(now.files).padStart(5)}`);
}
const after = await atRest();
await server.stop();
report(
  "churn",
  [
    { what: "joins and leaves", value: rounds, unit: "" },
    { what: "memory after 200 of them", value: before.rssMb, unit: "MB" },
    { what: "memory at the end", value: after.rssMb, unit: "MB" },
    {
      what: "memory at the end, more by",
      value: (after.rssMb / before.rssMb - 1) * 100,
      unit: "%",
      goal: { atMost: 10 },
    },
    { what: "open files at the end, more by", value: after.files - before.files, unit: "", goal: { atMost: 0 } },
  ],
  { rounds },
);
process.exit();
