/** relay: what viewers on another worker than the publisher's cost beyond viewers on the same, and what 8 % of loss on the link leaves; `bin/bench relay [viewers] [seconds] [rounds]` */
import { loadavg } from "node:os";
import type { RtcPeer } from "../../src/rtc-client/peer.ts";
import { RtpSource } from "../../src/rtc-client/rtp-source.ts";
import { typescriptPath } from "../../src/sfu/fast-path/fast-path.ts";
import { openNativePath } from "../../src/sfu/fast-path/native-path.ts";
import { nativeLibraryPath } from "../sfu/fast-path/both-paths.ts";
import { type Site, TwoWorkers, until } from "../sfu/relay/two-workers.ts";
import { CAMERA, MICROPHONE } from "../sfu/room-of-peers.ts";
import { median, percentile, report } from "./harness/report.ts";
import { AUDIO, VIDEO } from "./sfu/crowd.ts";

const [viewers = 4, seconds = 5, rounds = 5] = process.argv.slice(2).map(Number);
const ROOM = "room";
const FRAME_MS = (1_000 * VIDEO.perFrame) / VIDEO.perSecond;
const KEYFRAME_EVERY = 52;
const LOSS = 0.08;
const STAMP_AT = 100;

type Cost = { cpuMicros: number; p50: number; p99: number; missingPercent: number };

/** Both engines, the publisher and the viewers are in this thread, so that only the place of the viewers differs. */
async function measure(onOther: boolean, lossRatio = 0): Promise<Cost> {
  const library = await nativeLibraryPath().catch(() => null);
  const workers = await TwoWorkers.start(() => (library === null ? typescriptPath : openNativePath(library)));
  await workers.share(ROOM);
  const { a, b } = workers;
  if (lossRatio > 0) {
    a.impaired = { port: b.port, options: { lossRatio } };
    b.impaired = { port: a.port, options: { lossRatio } };
  }
  const publisher = await a.join(ROOM, "publisher", [
    { kind: "audio", direction: "sendonly" },
    { kind: "video", direction: "sendonly" },
  ]);
  await publisher.connect(
    [
      { ...MICROPHONE, mid: "0" },
      { ...CAMERA, mid: "1" },
    ] as never,
    [],
  );
  const numbers = { next: 0 };
  const voice = new RtpSource({ ssrc: 6, payloadType: 111, mid: "0", audioLevel: 30, numbers });
  const video = new RtpSource({ ssrc: 7, payloadType: 96, mid: "1", numbers });
  let [frame, sent] = [0, 0];
  const stops = [
    everyMs(1_000 / AUDIO.perSecond, () => {
      voice.sendAudio(publisher, stamped(AUDIO.packetBytes));
      sent += 1;
    }),
    everyMs(FRAME_MS, () => {
      video.sendFrame(publisher, frame++ % KEYFRAME_EVERY === 0, VIDEO.perFrame, VIDEO.packetBytes - 40);
      sent += VIDEO.perFrame;
    }),
  ];
  const site: Site = onOther ? b : a;
  const tracks = await until(() => {
    const published = a.events.flatMap((event) => (event.type === "trackPublished" ? [event.track] : []));
    return published.length === 2 && published;
  }, "the tracks");
  const subscribe = tracks.map(({ id, kind }) => ({ mid: kind === "audio" ? "0" : "1", trackId: id }));
  const delays: number[] = [];
  const peers: RtcPeer[] = [];
  for (let n = 0; n < viewers; n++) {
    const peer = await site.join(
      ROOM,
      `viewer-${n}`,
      [
        { kind: "audio", direction: "recvonly" },
        { kind: "video", direction: "recvonly" },
      ],
      // One of them opens what it gets; the others only count.
      n > 0
        ? {}
        : {
            onRtp: ({ data, payloadOffset }, _peer, mid) => {
              if (mid !== "0") return;
              delays.push(
                performance.now() - new DataView(data.buffer, data.byteOffset + payloadOffset).getFloat64(STAMP_AT),
              );
            },
          },
    );
    await peer.connect([], subscribe as never);
    peers.push(peer);
  }
  await until(() => peers.every(({ mediaIn }) => mediaIn > VIDEO.perSecond), "media");
  delays.length = 0;
  const [sentBefore, receivedBefore, before] = [sent, received(peers), process.cpuUsage()];
  await Bun.sleep(seconds * 1_000);
  const { user, system } = process.cpuUsage(before);
  const missing = 1 - (received(peers) - receivedBefore) / ((sent - sentBefore) * viewers);
  for (const stop of stops) stop();
  workers.close();
  return {
    // A machine that is busy with something else sends less than it should.
    cpuMicros: (user + system) / (sent - sentBefore),
    p50: median(delays),
    p99: percentile(delays, 0.99),
    missingPercent: Math.max(0, missing * 100),
  };
}

const received = (peers: readonly RtcPeer[]) => peers.reduce((sum, { mediaIn }) => sum + mediaIn, 0);

function stamped(bytes: number): Uint8Array<ArrayBuffer> {
  const payload = new Uint8Array(bytes);
  new DataView(payload.buffer).setFloat64(STAMP_AT, performance.now());
  return payload;
}

function everyMs(ms: number, run: () => void): () => void {
  const timer = setInterval(run, ms);
  return () => clearInterval(timer);
}

const costs: Record<"same" | "other" | "lossy", Cost[]> = { same: [], other: [], lossy: [] };
// Code is compiled in the first call.
await measure(true);
// In turns, so that a busy moment of the machine meets all.
for (let round = 0; round < rounds; round++) {
  costs.same.push(await measure(false));
  costs.other.push(await measure(true));
  costs.lossy.push(await measure(true, LOSS));
}
const of = (name: keyof typeof costs, field: keyof Cost) => median(costs[name].map((cost) => cost[field]));
report(
  "relay",
  [
    {
      what: `a packet to ${viewers} viewers on the publisher's worker`,
      value: of("same", "cpuMicros"),
      unit: "µs of CPU with all peers",
    },
    {
      what: `a packet to ${viewers} viewers on the other worker`,
      value: of("other", "cpuMicros"),
      unit: "µs of CPU with all peers",
    },
    {
      what: "  of which the relay, both ends",
      value: of("other", "cpuMicros") - of("same", "cpuMicros"),
      unit: "µs of CPU",
    },
    { what: "delay of sound on the same worker, p50", value: of("same", "p50"), unit: "ms" },
    { what: "delay of sound on the other worker, p50", value: of("other", "p50"), unit: "ms" },
    { what: "delay of sound on the other worker, p99", value: of("other", "p99"), unit: "ms" },
    { what: "missing on the other worker", value: of("other", "missingPercent"), unit: "%", goal: { atMost: 0.5 } },
    {
      what: `missing when the link loses ${LOSS * 100} % each way`,
      value: of("lossy", "missingPercent"),
      unit: "%",
      goal: { atMost: 1.5 },
    },
  ],
  { viewers, seconds, rounds, load: loadavg() },
);
process.exit();
