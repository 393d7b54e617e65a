/** recording: what recorded tracks of 1 Mbit/s add to forwarding them to two viewers each, and up to how many of them reach the disk whole; `bin/bench recording [tracks] [many,more…] [seconds]` */
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join as pathOf } from "node:path";
import type { PublishedSection } from "../../src/protocol/signaling.ts";
import { RtcPeer } from "../../src/rtc-client/peer.ts";
import { RtpSource } from "../../src/rtc-client/rtp-source.ts";
import { createCertificate } from "../../src/sfu/werift/werift-hooks.ts";
import { type Measured, median, report } from "./harness/report.ts";
import { startSfuProcess } from "./harness/sfu-process.ts";

const [tracks = "10", many = "25,50,100", seconds = "4"] = process.argv.slice(2);
const VIEWERS = 2;
const FRAMES_PER_SECOND = 25;
const PACKETS_PER_FRAME = 4;
/** With the headers: 1 Mbit/s. */
const PAYLOAD_BYTES = 1_200;
const SLICES = 8;
const ROUNDS = 5;
/**
 * Warms up until the recording code is as well compiled as the forwarding code, as in a server that has run for minutes: this many
 * times the frame rate of a camera, with and without a recording in alternation.
 */
const WARM_UP_SPEED = 8;
const WARM_UP_SECONDS = 5;
const WARM_UP_ROUNDS = 3;
/** Once the files have not grown for this long, the recorder's queues are on disk. */
const SETTLED_MS = 2_500;
/** The last frames that were sent may be under way when the recording is stopped. */
const WHOLE_PERCENT = 98;
const ROOM_BPS = 100_000_000;

const permissions = { join: true, subscribe: true, publish: true, publishAudio: true, publishVideo: true };
const certificate = await createCertificate();
const folder = mkdtempSync(pathOf(tmpdir(), "stoa-bench-recording-"));
const figures: Measured[] = [];

/** A room of people who each send video, and of some who watch them all. */
async function openRoom(count: number, viewers: number) {
  const { node, cpu, stop } = startSfuProcess();
  const roomId = "room";
  await node.openRoom({ roomId });
  const peers: RtcPeer[] = [];
  const join = async (participantId: string, sections: RtcPeer["options"]["sections"], onPli = () => {}) => {
    const all = { ...permissions, publishData: true, updateMetadata: true };
    await node.addParticipant({ roomId, participantId, identity: participantId, permissions: all });
    const peer = await RtcPeer.create({
      node,
      roomId,
      participantId,
      sections,
      certificate,
      onRtcp: ({ type }) => void (type === "pli" || type === "fir" ? onPli() : null),
    });
    peers.push(peer);
    return peer;
  };
  const senders: { peer: RtcPeer; source: RtpSource; wanted: boolean }[] = [];
  for (let i = 0; i < count; i++) {
    const sender = { source: new RtpSource({ ssrc: 1_000 + i, payloadType: 96, mid: "0" }), wanted: true };
    const peer = await join(`sender-${i}`, [{ kind: "video", direction: "sendonly" }], () => {
      sender.wanted = true;
    });
    const named = { mid: "0", clientTrackId: "camera", kind: "video", source: "camera", trackId: `trk_${i}` } as const;
    await peer.connect([named as PublishedSection], []);
    senders.push(Object.assign(sender, { peer }));
  }
  /** Cameras do not all fire at once: some of them. */
  const sendFrames = (slice = 0, slices = 1) => {
    for (const [i, sender] of senders.entries()) {
      if (i % slices !== slice) continue;
      sender.source.sendFrame(sender.peer, sender.wanted, PACKETS_PER_FRAME, PAYLOAD_BYTES);
      sender.wanted = false;
    }
  };
  sendFrames();
  await Bun.sleep(200);
  const watchers: RtcPeer[] = [];
  for (let i = 0; i < viewers; i++) {
    const sections = senders.map(() => ({ kind: "video", direction: "recvonly", feedback: "goog-remb" }) as const);
    const peer = await join(`viewer-${i}`, [...sections]);
    await peer.connect(
      [],
      senders.map((_, mid) => ({ mid: String(mid), trackId: `trk_${mid}` })),
    );
    watchers.push(peer);
  }

  /** Sends for this long; returns the CPU time for each received packet, and how many bytes of video were sent. */
  async function send(forSeconds: number, speed = 1): Promise<{ cpuMicros: number; bytes: number; cores: number }> {
    for (const peer of watchers) peer.sendRemb(ROOM_BPS);
    const before = await cpu();
    const startedAt = performance.now();
    const frames = Math.round(forSeconds * FRAMES_PER_SECOND * speed);
    for (let turn = 0; turn < frames * SLICES; turn++) {
      sendFrames(turn % SLICES, SLICES);
      const dueMs = startedAt + ((turn + 1) * 1_000) / FRAMES_PER_SECOND / SLICES / speed;
      await Bun.sleep(Math.max(0, dueMs - performance.now()));
    }
    const after = await cpu();
    const micros = after.user + after.system - before.user - before.system;
    const packets = frames * count * PACKETS_PER_FRAME;
    const tookMs = performance.now() - startedAt;
    return { cpuMicros: micros / packets, bytes: packets * PAYLOAD_BYTES, cores: micros / 1_000 / tookMs };
  }

  const record = async (recordingId: string) => {
    const directory = pathOf(folder, recordingId);
    await node.startRecording({ roomId, recordingId, directory, startedAtMs: Date.now(), audioOnly: false });
    return {
      stop: () => node.stopRecording({ roomId, recordingId }),
      bytes: () => readdirSync(directory).reduce((sum, name) => sum + statSync(pathOf(directory, name)).size, 0),
    };
  };
  const close = async () => {
    for (const peer of peers) peer.close();
    await stop();
  };
  const arrived = async () => (await node.load()).packetsIn;
  return { send, record, close, arrived };
}

/** In turns, so that a busy moment of the machine meets both. */
async function addedByRecording(count: number): Promise<void> {
  const room = await openRoom(count, VIEWERS);
  for (let round = 0; round < WARM_UP_ROUNDS; round++) {
    const warmUp = await room.record(`warm-up-${round}`);
    await room.send(WARM_UP_SECONDS, WARM_UP_SPEED);
    await warmUp.stop();
    await room.send(WARM_UP_SECONDS, WARM_UP_SPEED);
  }
  const plain: number[] = [];
  const recorded: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    plain.push((await room.send(Number(seconds))).cpuMicros);
    const recording = await room.record(`added-${round}`);
    await room.send(0.5);
    recorded.push((await room.send(Number(seconds))).cpuMicros);
    await recording.stop();
    await room.send(0.5);
  }
  await room.close();
  const [before, after] = [median(plain), median(recorded)];
  const unit = "CPU-µs per packet";
  figures.push({ what: `${count} tracks to ${VIEWERS} viewers each`, value: before, unit });
  figures.push({ what: `${count} tracks to ${VIEWERS} viewers each, recorded`, value: after, unit });
  figures.push({
    what: "added by recording",
    value: (100 * (after - before)) / before,
    unit: "%",
    goal: { atMost: 15 },
  });
}

/** A disk that others keep busy takes its time. */
async function settled(bytes: () => number): Promise<number> {
  for (let before = -1; ; await Bun.sleep(SETTLED_MS)) {
    const now = bytes();
    if (now === before) return now;
    before = now;
  }
}

/** Whether everything that was sent is on disk. */
async function reachTheDisk(count: number): Promise<boolean> {
  const room = await openRoom(count, 0);
  const recording = await room.record(`many-${count}`);
  // Each begins with the keyframe that it asks for.
  await room.send(1);
  const before = await settled(recording.bytes);
  const arrivedBefore = await room.arrived();
  const { bytes, cores } = await room.send(Number(seconds) * 2);
  const reached = ((await room.arrived()) - arrivedBefore) / (bytes / PAYLOAD_BYTES);
  await recording.stop();
  const share = (100 * ((await settled(recording.bytes)) - before)) / bytes;
  await room.close();
  figures.push({ what: `${count} tracks recorded, nobody watching`, value: cores, unit: "cores" });
  // Packets that a busy machine loses on the way are not recorded: an incomplete frame is left out.
  figures.push({ what: `${count} tracks: packets that reached the node`, value: 100 * reached, unit: "%" });
  figures.push({ what: `${count} tracks: on disk of what was sent`, value: share, unit: "%" });
  return share >= WHOLE_PERCENT;
}

try {
  await addedByRecording(Number(tracks));
  let most = 0;
  for (const count of many.split(",").map(Number)) if (await reachTheDisk(count)) most = count;
  figures.push({ what: "tracks of 1 Mbit/s on disk without loss", value: most, unit: "", goal: { atLeast: 100 } });
} finally {
  rmSync(folder, { recursive: true, force: true });
}
report("recording", figures);
process.exit();
