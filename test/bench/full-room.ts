/** full-room: fifty participants in one room, all sending sound and picture, nine tiles each */

import type { PeerSection } from "../../src/load-test/load-offer.ts";
import { LoadPeer } from "../../src/load-test/load-peer.ts";
import { RtpSource } from "../../src/load-test/rtp-source.ts";
import { createCertificate } from "../../src/sfu/werift-hooks.ts";
import { startSfuProcess } from "./harness/sfu-process.ts";

const PERMISSIONS = {
  join: true,
  subscribe: true,
  publish: true,
  publishAudio: false,
  publishVideo: false,
  publishData: false,
};
const ROOM = "full";
const TILES = 9;
const FRAMES_PER_SECOND = 15;
const PACKETS_PER_FRAME = 2;
const AUDIO_PACKETS_PER_SECOND = 50;

const participants = Number(process.argv[2] ?? 50);
const seconds = Number(process.argv[3] ?? 10);

const server = startSfuProcess();
const { node } = server;
const certificate = await createCertificate();
await node.openRoom({ roomId: ROOM });

const sections: PeerSection[] = [
  { kind: "audio", direction: "sendonly" },
  { kind: "video", direction: "sendonly" },
  ...Array.from({ length: TILES }, () => ({ kind: "audio", direction: "recvonly" }) as const),
  ...Array.from({ length: TILES }, () => ({ kind: "video", direction: "recvonly", feedback: "goog-remb" }) as const),
];

const people: { peer: LoadPeer; audio: RtpSource; video: RtpSource; got: { audio: number; video: number } }[] = [];
const joinMs: number[] = [];
for (let i = 0; i < participants; i++) {
  const participantId = `p${i}`;
  const started = performance.now();
  await node.addParticipant({ roomId: ROOM, participantId, identity: participantId, permissions: PERMISSIONS });
  const got = { audio: 0, video: 0 };
  const onRtp = ({ payloadType }: { payloadType: number }) => void (payloadType === 111 ? got.audio++ : got.video++);
  const peer = await LoadPeer.create({ node, roomId: ROOM, participantId, certificate, sections, onRtp });
  await peer.connect(
    [
      { mid: "0", clientTrackId: "mic", kind: "audio", source: "microphone" },
      { mid: "1", clientTrackId: "cam", kind: "video", source: "camera" },
    ],
    [],
  );
  joinMs.push(performance.now() - started);
  const audio = new RtpSource({ ssrc: 1_000 + i, payloadType: 111, mid: "0", audioLevel: 20 + i });
  const video = new RtpSource({ ssrc: 2_000 + i, payloadType: 96, mid: "1" });
  audio.sendAudio(peer);
  video.sendFrame(peer, true);
  people.push({ peer, audio, video, got });
}
await Bun.sleep(200);

// Everybody shows the next nine.
const room = await node.room({ roomId: ROOM });
const tracksOf = new Map(room?.participants.map(({ identity, tracks }) => [identity, tracks]));
for (let i = 0; i < participants; i++) {
  const tracks = Array.from({ length: Math.min(TILES, participants - 1) }, (_, k) => {
    const shown = tracksOf.get(`p${(i + 1 + k) % participants}`) ?? [];
    return shown.map(({ id, kind }) => ({
      trackId: id,
      mid: String((kind === "audio" ? 2 : 2 + TILES) + k),
      maxHeight: 180,
    }));
  }).flat();
  await node.updateSubscriptions({ roomId: ROOM, participantId: `p${i}`, tracks });
}

async function talk(durationMs: number): Promise<{ audio: number; video: number }> {
  const started = performance.now();
  const sent = { audio: 0, video: 0 };
  while (performance.now() - started < durationMs) {
    const elapsed = (performance.now() - started) / 1_000;
    for (; sent.audio < elapsed * AUDIO_PACKETS_PER_SECOND; sent.audio++)
      for (const { peer, audio } of people) audio.sendAudio(peer);
    for (; sent.video < elapsed * FRAMES_PER_SECOND; sent.video++) {
      for (const { peer, video } of people) video.sendFrame(peer, sent.video % 30 === 0, PACKETS_PER_FRAME, 1_000);
    }
    if (sent.audio % 25 === 0) for (const { peer } of people) peer.sendRemb(5_000_000);
    await Bun.sleep(2);
  }
  return sent;
}

await talk(2_000);
const before = people.map(({ got }) => ({ ...got }));
const cpu = await server.cpu();
const sent = await talk(seconds * 1_000);
await Bun.sleep(300);
const after = await server.cpu();
const video = people.map(({ got }, i) => got.video - (before[i]?.video ?? 0));
const audio = people.map(({ got }, i) => got.audio - (before[i]?.audio ?? 0));
const total = (values: number[]) => values.reduce((sum, value) => sum + value, 0);
const expectedVideo = sent.video * PACKETS_PER_FRAME * Math.min(TILES, participants - 1);
joinMs.sort((a, b) => a - b);
const micros = after.user + after.system - cpu.user - cpu.system;
console.log(`${participants} participants, ${TILES} tiles each, ${seconds} s`);
console.log(
  `join p50 ${joinMs[joinMs.length >> 1]?.toFixed(0)} ms, p95 ${joinMs[Math.floor(joinMs.length * 0.95)]?.toFixed(0)} ms`,
);
console.log(
  `video packets per viewer: expected ${expectedVideo}, least ${Math.min(...video)}, ${((total(video) / (expectedVideo * participants)) * 100).toFixed(1)} % in all`,
);
console.log(`audio packets per listener: least ${Math.min(...audio)}, most ${Math.max(...audio)}`);
console.log(
  `server: ${(micros / seconds / 10_000).toFixed(0)} % of a core, ${(micros / (total(video) + total(audio))).toFixed(1)} CPU-µs per forwarded packet`,
);
console.log(`refused: ${JSON.stringify((await node.load()).refused)}`);
for (const { peer } of people) peer.close();
await server.stop();
process.exit(0);
