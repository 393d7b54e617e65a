// A voice over two lossy paths, in a time that the test moves: the publisher and the subscriber do what browsers do, and the server
// resends in both directions.

import { expect, test } from "bun:test";
import { Impairment, seededRandom } from "../../src/kernel/net/impairment.ts";
import { fanOut } from "../../src/sfu/fast-path/fan-out.ts";
import type { FanOutGroup } from "../../src/sfu/fast-path/fan-out-group.ts";
import type { FastPath } from "../../src/sfu/fast-path/fast-path.ts";
import { SendBatch } from "../../src/sfu/fast-path/send-batch.ts";
import { FlightRecorder } from "../../src/sfu/flight/flight-recorder.ts";
import type { FanOutTarget } from "../../src/sfu/forwarding/fan-out-target.ts";
import type { SourcePacket } from "../../src/sfu/forwarding/source-packet.ts";
import type { ParticipantHost, RoomTracks } from "../../src/sfu/room/host.ts";
import { Uplink } from "../../src/sfu/room/uplink.ts";
import { OutgoingSection } from "../../src/sfu/tracks/outgoing-section.ts";
import type { Publication } from "../../src/sfu/tracks/publication.ts";
import { DEFAULT_SUBSCRIPTION_SETTINGS, Subscription } from "../../src/sfu/tracks/subscription.ts";
import type { UdpPort } from "../../src/sfu/transport/udp.ts";
import { AUDIO_REPAIR, NackGenerator } from "../../src/sfu/wire/rtcp/nack-generator.ts";
import { parseRtcp, type ReportBlock } from "../../src/sfu/wire/rtcp/rtcp.ts";
import { SentPackets } from "../../src/sfu/wire/rtcp/twcc-feedback.ts";
import { RtpView } from "../../src/sfu/wire/rtp/rtp.ts";
import type { NegotiatedCodec } from "../../src/sfu/wire/sdp/codecs.ts";
import type { Offer } from "../../src/sfu/wire/sdp/offer.ts";
import { SrtpReceiver, SrtpSender } from "../../src/sfu/wire/srtp/srtp.ts";
import { PATHS } from "./fast-path/both-paths.ts";
import { rtpPacket } from "./packets.ts";
import { AUDIO, EXTENSIONS, key } from "./traced-publisher.ts";

const FRAME_MS = 20;
const ONE_WAY_MS = 10;
const SECONDS = 30;
/** A frame that comes later than this has been concealed. */
const PLAYED_AFTER_MS = 120;
const RED: NegotiatedCodec = { ...AUDIO, codec: "red", payloadType: 63 };

type Options = { path: FastPath; lossRatio: number; audio?: NegotiatedCodec; repairs?: boolean; seed?: number };

/** The share of concealed frames, and what was sent to the subscriber. */
function call({ path, lossRatio, audio = AUDIO, repairs = true, seed = 1 }: Options) {
  const random = seededRandom(seed);
  let nowMs = 1_700_000_000_000;
  const up = new Impairment<Uint8Array>(seed, { lossRatio, delayMs: ONE_WAY_MS });
  const down = new Impairment<Uint8Array>(seed + 1, { lossRatio, delayMs: ONE_WAY_MS });
  const toPublisher = new Impairment<Uint8Array>(seed + 2, { lossRatio, delayMs: ONE_WAY_MS });
  const toServer = new Impairment<number[]>(seed + 3, { lossRatio, delayMs: ONE_WAY_MS });

  const wire: string[] = [];
  const batch = new SendBatch((entries) => {
    for (let i = 0; i < entries.length; i += 3) {
      const packet = Uint8Array.from(entries[i] as Uint8Array);
      wire.push(Buffer.from(packet).toString("hex"));
      down.push(packet, packet.length, nowMs);
    }
    return entries.length / 3;
  });
  const udp = {
    path,
    repairs: { nacksIn: 0, nacksOut: 0, keyframesIn: 0, keyframesOut: 0 },
    fanOut: (view: RtpView, targets: readonly FanOutTarget[], count: number) => fanOut(view, targets, count, batch),
    fanOutToGroup(packet: SourcePacket, group: FanOutGroup, atMs: number) {
      path.fanOutToGroup(packet, group, atMs, batch);
      group.advance(packet, atMs);
    },
    schedule() {},
  } as unknown as UdpPort;

  const connection = {
    isReady: true,
    liveness: { mediaAtMs: 0 },
    sendRtcp: (packet: Uint8Array) => toPublisher.push(packet.slice(), packet.length, nowMs),
  };
  const uplink = new Uplink(
    { udp, newId: () => "1", expediteFeedback() {} } as unknown as ParticipantHost,
    {
      published() {},
      unpublished() {},
      announced() {},
      isWanted: () => true,
      muteChanged() {},
      isVoiceUncontested: () => true,
      observeAudioLevel() {},
    } as unknown as RoomTracks,
    { self: { identity: "ann" }, connection, rttMs: 2 * ONE_WAY_MS, emit() {} } as unknown as ConstructorParameters<
      typeof Uplink
    >[2],
    new FlightRecorder(),
  );
  const section = { mid: "0", kind: "audio", rejected: false, extensions: EXTENSIONS } as const;
  uplink.negotiated(
    { sections: [{ mid: "0", sendRids: [], ssrcs: new Map() }] } as unknown as Offer,
    [{ ...section, sends: false, receives: true, codecs: [{ ...audio, nack: repairs }] }],
    [{ mid: "0", clientTrackId: "a", kind: "audio", source: "microphone" }],
  );
  const publication = uplink.publications()[0] as Publication;
  const answered = { ...section, sends: true, receives: false, codecs: [{ ...AUDIO, nack: repairs }] };
  const outgoing = new OutgoingSection(answered, "audio", () => Math.floor(random() * 0x100000000));
  const numbers = new SentPackets();
  const subscription = new Subscription(publication, outgoing, DEFAULT_SUBSCRIPTION_SETTINGS, numbers, {
    changed() {},
    mayRequestKeyframe: () => true,
    awaitedSource() {},
  });
  const srtp = new SrtpSender(key(2), path.createCipher);
  subscription.start({ srtp, address: "127.0.0.1", port: 9, deliver: undefined, slots: new Set() });

  // The publisher keeps its packets; the subscriber notes when each frame came.
  const kept = new Map<number, Uint8Array>();
  const reports: ReportBlock[] = [];
  const lateMs: number[] = [];
  const losses: { path: number; left: number }[] = [];
  const incoming = new SrtpReceiver(key(2));
  const view = new RtpView();
  const nack = new NackGenerator(AUDIO_REPAIR);
  nack.setRtt(2 * ONE_WAY_MS);
  const publish = (packet: Uint8Array) => up.push(packet, packet.length, nowMs);
  const step = () => {
    for (const packet of up.takeDue(nowMs)) uplink.receiveRtp(packet.slice(), packet.length, nowMs);
    subscription.refreshAudio(nowMs);
    batch.flush();
    for (const packet of toPublisher.takeDue(nowMs)) {
      for (const report of parseRtcp(Buffer.from(packet), packet.length)) {
        if (report.type === "rr") reports.push(...report.reports);
        if (report.type === "nack") for (const lost of report.lost) publish(kept.get(lost) as Uint8Array);
      }
    }
    for (const packet of down.takeDue(nowMs)) {
      const length = incoming.unprotectRtp(packet);
      if (length <= 0 || !view.parse(packet, length)) continue;
      nack.receive(view.sequenceNumber, nowMs);
      const [frame = 0, ...rest] = new Uint16Array(packet.slice(view.payloadOffset, length).buffer);
      lateMs[frame] ??= nowMs - began - frame * FRAME_MS - 2 * ONE_WAY_MS;
      expect(rest.length).toBe(30);
    }
    const lost = nack.takeDue(nowMs);
    if (repairs && lost.length > 0) toServer.push(lost, 20, nowMs);
    for (const numbersLost of toServer.takeDue(nowMs))
      outgoing.repair(numbersLost, numbers, { rttMs: 2 * ONE_WAY_MS, take: () => true }, udp, nowMs);
    batch.flush();
    if (nowMs % 10 === 0) uplink.tick(nowMs);
  };
  const began = nowMs;
  const count = (SECONDS * 1_000) / FRAME_MS;
  for (let frame = 0; frame < count; frame++) {
    const body = new Uint8Array(62);
    new Uint16Array(body.buffer)[0] = frame;
    // RED: one earlier frame of three bytes, then the newest.
    const redundant = [0x80 | 111, 960 >> 6, (960 & 0x3f) << 2, 3, 111, 7, 7, 7];
    const payload = audio === RED ? Uint8Array.from([...redundant, ...body]) : body;
    const sequenceNumber = (65_000 + frame) & 0xffff;
    const extensions = [
      { id: 1, data: Buffer.from("0") },
      { id: 6, data: new Uint8Array([20]) },
    ];
    const shape = {
      ssrc: 7,
      payloadType: audio.payloadType,
      timestamp: frame * 960,
      sequenceNumber,
      extensions,
      payload,
    };
    const packet = rtpPacket(shape);
    if (repairs) kept.set(sequenceNumber, packet);
    publish(packet);
    const { pathLossPercent: path, lossPercent: left } = uplink.feedback;
    if (path !== null && left !== null) losses.push({ path, left });
    if (frame === count / 2) publication.downlinkLost(64, nowMs);
    for (let ms = 0; ms < FRAME_MS; ms++, nowMs++) step();
  }
  for (let ms = 0; ms < 500; ms++, nowMs++) step();
  let concealed = 0;
  for (let frame = 0; frame < count; frame++) if (!((lateMs[frame] ?? Infinity) <= PLAYED_AFTER_MS)) concealed += 1;
  const mean = (of: "path" | "left") => losses.reduce((sum, one) => sum + one[of], 0) / losses.length;
  const uplinkPercent = { path: mean("path"), left: mean("left") };
  return {
    concealed: concealed / count,
    uplinkPercent,
    wire,
    reports,
    group: publication.layers[0]?.group.packets ?? 0,
  };
}

for (const [name, path] of PATHS) {
  test(`${name}: at 10 % loss each way, lost audio is sent again in time`, () => {
    const { concealed, group } = call({ path, lossRatio: 0.1 });
    expect(concealed).toBeLessThan(0.02);
    expect(group).toBeGreaterThan(1_000);
    expect(call({ path, lossRatio: 0.1, repairs: false }).concealed).toBeGreaterThan(0.15);
  }, 60_000);

  test(`${name}: a packet is sent again with the same bytes, because an SRTP nonce must not be used for different packets`, () => {
    for (const audio of [AUDIO, RED]) {
      const { wire, concealed } = call({ path, lossRatio: 0.2, audio });
      const byNumber = new Map<string, string>();
      for (const packet of wire) {
        const number = packet.slice(4, 8);
        expect(byNumber.get(number) ?? packet).toBe(packet);
        byNumber.set(number, packet);
      }
      expect(wire.length - byNumber.size).toBeGreaterThan(150);
      expect(concealed).toBeLessThan(0.08);
    }
  }, 60_000);
}

test("both paths send the same packets", () => {
  const [typescript, native] = PATHS.map(([, path]) => call({ path, lossRatio: 0.1 }).wire);
  expect(native).toEqual(typescript);
}, 60_000);

test("the loss on the publisher's path is known although most of it is repaired", () => {
  const { uplinkPercent } = call({ path: PATHS[0]?.[1] as FastPath, lossRatio: 0.15 });
  expect(uplinkPercent.path).toBeWithin(13, 17);
  // The quality depends on the loss that a listener may notice.
  expect(uplinkPercent.left).toBeLessThan(5);
  expect(call({ path: PATHS[0]?.[1] as FastPath, lossRatio: 0 }).uplinkPercent).toEqual({ path: 0, left: 0 });
}, 60_000);

test("the publisher learns of the worse loss of both ways, so that its encoder adds error correction", () => {
  const { reports } = call({ path: PATHS[0]?.[1] as FastPath, lossRatio: 0 });
  // Half-way through the call, a subscriber reports a loss of a quarter.
  expect(reports[0]?.fractionLost).toBe(0);
  expect(Math.max(...reports.map(({ fractionLost }) => fractionLost))).toBe(64);
  expect(reports.at(-1)?.fractionLost).toBe(0);
  expect(reports.every(({ cumulativeLost }) => cumulativeLost === 0)).toBe(true);
}, 60_000);
