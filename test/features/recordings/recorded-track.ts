import { expect } from "bun:test";
import type { RecordedFile, RecordedPart } from "../../../src/protocol/media/recording.ts";
import type { PacketRun, ReceiveBatch } from "../../../src/sfu/fast-path/receive-batch.ts";
import { Publication } from "../../../src/sfu/tracks/publication.ts";
import { TrackRecorder, type TrackRecorderHost } from "../../../src/sfu/tracks/track-recorder.ts";
import type { UdpPort } from "../../../src/sfu/transport/udp.ts";
import { RtpView } from "../../../src/sfu/wire/rtp/rtp.ts";
import type { NegotiatedCodec } from "../../../src/sfu/wire/sdp/codecs.ts";
import { noExtensions } from "../../../src/sfu/wire/sdp/extensions.ts";
import type { SentFrame } from "./packetizers.ts";

export const STARTED_AT = 1_700_000_000_000;

export const VP8: NegotiatedCodec = {
  codec: "VP8",
  payloadType: 96,
  rtxPayloadType: 97,
  clockRate: 90_000,
  variant: "",
  profile: "",
  nack: true,
};
export const VP9: NegotiatedCodec = { ...VP8, codec: "VP9", payloadType: 98 };
export const H264: NegotiatedCodec = { ...VP8, codec: "H264", payloadType: 102 };
export const OPUS: NegotiatedCodec = { ...VP8, codec: "opus", payloadType: 111, clockRate: 48_000 };

/** A track whose packets come when the test says, and the recorder that writes it. */
export function recordedTrack(
  directory: string,
  kind: "audio" | "video",
  rids: readonly string[] = [],
  more: Partial<TrackRecorderHost> = {},
) {
  const nobody = { fanOut() {}, fanOutToGroup() {}, schedule() {} } as unknown as UdpPort;
  const publication = new Publication({
    mid: "0",
    clientTrackId: kind,
    kind,
    source: kind === "audio" ? "microphone" : "camera",
    trackId: `trk_${kind}`,
    identity: "ada",
    rids,
    extensions: noExtensions(),
    udp: nobody,
  });
  const started: RecordedFile[] = [];
  const ended: RecordedFile[] = [];
  const errors: string[] = [];
  const parts: RecordedPart[] = [];
  const notStreamable: string[] = [];
  let ids = 0;
  const recorder = new TrackRecorder(publication, {
    directory,
    startedAtMs: STARTED_AT,
    newId: () => `${kind}-${++ids}-${crypto.randomUUID()}`,
    fileStarted: (file) => started.push({ ...file }),
    fileEnded: (file) => ended.push({ ...file }),
    slow: () => errors.push("slow"),
    failed: (error) => errors.push(error.message),
    part: (part) => parts.push(part),
    notStreamable: ({ codec }) => notStreamable.push(codec),
    ...more,
  });
  const numbers = new Map<number, number>();
  const packetsOf = (frame: SentFrame, codec: NegotiatedCodec, atMs: number, index: number, offset: number) => {
    const layer = publication.layers[index] as (typeof publication.layers)[number];
    if (layer.ssrc === 0) layer.restart(1_000 + index, codec.clockRate, atMs);
    const packets = frame.payloads.map((payload, i) => {
      const number = (numbers.get(index) ?? 10_000) + 1;
      numbers.set(index, number);
      const packet = Buffer.alloc(12 + payload.length);
      packet[0] = 0x80;
      packet[1] = codec.payloadType | (i === frame.payloads.length - 1 ? 0x80 : 0);
      packet.writeUInt16BE(number & 0xffff, 2);
      packet.writeUInt32BE((frame.timestamp + offset) >>> 0, 4);
      packet.writeUInt32BE(layer.ssrc, 8);
      packet.set(payload, 12);
      return { number, packet };
    });
    return { layer, packets };
  };
  const send = (frame: SentFrame, codec: NegotiatedCodec, atMs: number, index = 0, offset = 1_000) => {
    const { layer, packets } = packetsOf(frame, codec, atMs, index, offset);
    for (const { number, packet } of packets) {
      const view = new RtpView();
      expect(view.parse(packet)).toBe(true);
      publication.receive(layer, view, number, codec, atMs);
    }
  };
  /** Sent, and never seen here. */
  const lose = (frame: SentFrame, codec: NegotiatedCodec) => void packetsOf(frame, codec, STARTED_AT, 0, 1_000);
  /** All packets of the frame in one run, as the fast path reports them. */
  const sendRun = (frame: SentFrame, codec: NegotiatedCodec, atMs: number) => {
    const { layer, packets } = packetsOf(frame, codec, atMs, 0, 1_000);
    const extended = packets[0]?.number ?? 0;
    const run = { first: 0, count: packets.length, extended, timestamp: frame.timestamp, bytes: 0 } as PacketRun;
    const datagrams = packets.map(({ packet }) => packet);
    const batch: ReceiveBatch = {
      datagram: (i) => datagrams[i] as Buffer,
      keep: (i, ring, number, nowMs) =>
        ring.put(number, datagrams[i] as Buffer, (datagrams[i] as Buffer).length, nowMs),
    };
    publication.receiveRun(layer, run, batch, atMs);
  };
  const report = (rtpTimestamp: number, ntpMs: number, index = 0) => {
    const layer = publication.layers[index] as (typeof publication.layers)[number];
    layer.senderReport = { reference: { ntpMs, rtpTimestamp }, receivedAtMs: ntpMs };
    publication.reported(layer);
  };
  return { publication, recorder, started, ended, errors, parts, notStreamable, send, lose, sendRun, report };
}
