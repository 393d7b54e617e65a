/** sfu: CPU time of the server per forwarded packet, one publisher to many subscribers */

import { LoadPeer } from "../../src/load-test/load-peer.ts";
import { RtpSource } from "../../src/load-test/rtp-source.ts";
import type { SrtpProfile } from "../../src/sfu/packet/srtp.ts";
import { createCertificate } from "../../src/sfu/werift-hooks.ts";
import { type SfuProcess, startSfuProcess } from "./harness/sfu-process.ts";

const PERMISSIONS = {
  join: true,
  subscribe: true,
  publish: true,
  publishAudio: false,
  publishVideo: false,
  publishData: false,
};
const PACKET_BYTES = 1_200;
const PACKETS_PER_SECOND = 250;
const PACKETS_PER_FRAME = 10;
const ROOM = "bench";

const counts = (process.argv[2] ?? "10,50,100").split(",").map(Number);
const seconds = Number(process.argv[3] ?? 5);
const profile = (process.argv[4] ?? "AEAD_AES_128_GCM") as SrtpProfile;
const feedback = process.argv.includes("--twcc") ? "transport-cc" : "goog-remb";
const profiling = process.argv.includes("--profile");

type Figures = {
  subscribers: number;
  /** CPU microseconds of the server per forwarded packet. */
  user: number;
  system: number;
  forwarded: number;
  lossPercent: number;
  p50: number;
  p99: number;
};

async function measure(subscribers: number): Promise<Figures> {
  const server = startSfuProcess(profiling ? ["--cpu-prof", "--cpu-prof-dir=/tmp"] : []);
  const peers: LoadPeer[] = [];
  try {
    return await run(server, subscribers, peers);
  } finally {
    for (const peer of peers) peer.close();
    await server.stop();
  }
}

async function run(server: SfuProcess, subscribers: number, peers: LoadPeer[]): Promise<Figures> {
  const { node } = server;
  const certificate = await createCertificate();
  await node.openRoom({ roomId: ROOM });
  const add = async (
    participantId: string,
    direction: "sendonly" | "recvonly",
    onRtp?: LoadPeer["options"]["onRtp"],
  ) => {
    await node.addParticipant({ roomId: ROOM, participantId, identity: participantId, permissions: PERMISSIONS });
    const peer = await LoadPeer.create({
      node,
      roomId: ROOM,
      participantId,
      certificate,
      profile,
      sections: [{ kind: "video", direction, ...(direction === "recvonly" ? { feedback } : {}) }],
      ...(onRtp ? { onRtp } : {}),
    });
    peers.push(peer);
    return peer;
  };
  const publisher = await add("publisher", "sendonly");
  await publisher.connect([{ mid: "0", clientTrackId: "v", kind: "video", source: "camera" }], []);
  const source = new RtpSource({ ssrc: 7, payloadType: 96, mid: "0" });
  source.sendFrame(publisher, true);
  const trackId = await published(node);
  // One of them opens what it gets and takes the time; the others only count.
  const delays: number[] = [];
  const watch = await add("watch", "recvonly", ({ data, payloadOffset }) => {
    const sentAt = new DataView(data.buffer, data.byteOffset + payloadOffset + 100, 8).getFloat64(0);
    if (sentAt > 0) delays.push(performance.now() - sentAt);
  });
  await watch.connect([], [{ mid: "0", trackId, layer: "high" }]);
  for (let i = 1; i < subscribers; i++)
    await (await add(`s${i}`, "recvonly", feedback === "transport-cc" ? () => {} : undefined)).connect(
      [],
      [{ mid: "0", trackId, layer: "high" }],
    );
  const tell = setInterval(
    () => {
      for (const peer of peers.slice(1)) {
        if (feedback === "goog-remb") peer.sendRemb(20_000_000);
        else peer.sendTransportFeedback();
      }
    },
    feedback === "goog-remb" ? 500 : 100,
  );
  await stream(publisher, source, 2_000);
  const before = peers.map((peer) => peer.packetsIn);
  delays.length = 0;
  const outBefore = (await node.load()).packetsOut;
  const cpu = await server.cpu();
  const sent = await stream(publisher, source, seconds * 1_000);
  clearInterval(tell);
  await Bun.sleep(200);
  const after = await server.cpu();
  const received = peers.reduce((total, peer, i) => total + peer.packetsIn - (before[i] ?? 0), 0);
  // What the server really sent: on a busy machine it may not even get all of the publisher's packets.
  const forwarded = (await node.load()).packetsOut - outBefore;
  const wanted = sent * subscribers;
  delays.sort((a, b) => a - b);
  return {
    subscribers,
    user: (after.user - cpu.user) / forwarded,
    system: (after.system - cpu.system) / forwarded,
    forwarded,
    lossPercent: (1 - received / wanted) * 100,
    p50: delays[Math.floor(delays.length * 0.5)] ?? Number.NaN,
    p99: delays[Math.floor(delays.length * 0.99)] ?? Number.NaN,
  };
}

async function published(node: SfuProcess["node"]): Promise<string> {
  for (;;) {
    const track = (await node.room({ roomId: ROOM }))?.participants.flatMap((participant) => participant.tracks)[0];
    if (track) return track.id;
    await Bun.sleep(10);
  }
}

/** As a browser paces it: a packet every few milliseconds, a keyframe now and then. Returns how many were sent. */
async function stream(publisher: LoadPeer, source: RtpSource, durationMs: number): Promise<number> {
  const started = performance.now();
  const payload = new Uint8Array(PACKET_BYTES - 40);
  const stamp = new DataView(payload.buffer, 100, 8);
  let sent = 0;
  while (performance.now() - started < durationMs) {
    const due = Math.floor(((performance.now() - started) * PACKETS_PER_SECOND) / 1_000);
    for (; sent < due; sent++) {
      const first = sent % PACKETS_PER_FRAME === 0;
      if (first) source.timestamp = (source.timestamp + 3_600) >>> 0;
      const key = sent % 500 === 0 ? 0x10 : 0x11;
      payload.set([first ? 0x90 : 0x80, 0x80, 0x80, 0x01, key, 0, 0, 0x9d, 0x01, 0x2a, 0x80, 0x02, 0x68, 0x01]);
      stamp.setFloat64(0, performance.now());
      source.send(publisher, payload, sent % PACKETS_PER_FRAME === PACKETS_PER_FRAME - 1);
    }
    await Bun.sleep(2);
  }
  return sent;
}

/** What merely sending costs on this machine at this moment: the ratio to it is what compares between machines. */
async function floor(subscribers: number): Promise<number> {
  const child = Bun.spawn(
    [
      process.execPath,
      `${import.meta.dir}/harness/udp-floor.ts`,
      String(subscribers),
      String(PACKETS_PER_SECOND),
      String(seconds),
    ],
    { stdout: "pipe" },
  );
  const { user, system } = JSON.parse(await new Response(child.stdout).text());
  return user + system;
}

console.log(`${PACKET_BYTES}-byte packets, ${PACKETS_PER_SECOND} a second, ${profile}, ${seconds} s each`);
console.log("subscribers  CPU-µs/packet   (user + system)  sending alone  ratio   packets   loss %   p50 ms   p99 ms");
for (const count of counts) {
  const f = await measure(count);
  const split = `${f.user.toFixed(2)} + ${f.system.toFixed(2)}`;
  const least = await floor(count);
  const cells = [
    f.subscribers,
    (f.user + f.system).toFixed(2),
    split,
    least.toFixed(2),
    ((f.user + f.system) / least).toFixed(2),
    f.forwarded,
    f.lossPercent.toFixed(2),
    f.p50.toFixed(2),
    f.p99.toFixed(2),
  ];
  console.log(cells.map((cell, i) => String(cell).padStart([11, 14, 17, 14, 6, 9, 8, 8, 8][i] ?? 8)).join(" "));
}
process.exit(0);
