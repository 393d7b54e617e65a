/** The parsers of bytes from strangers and participants. `read` throws only for a fault; refusing an input is none. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { DataPacket, SignalRequest } from "@livekit/protocol";
import { decodeBinary, decodeJson } from "../../../src/gateways/livekit/message-reader.ts";
import { offeredProtocols } from "../../../src/network/tls/client-hello.ts";
import { HeaderInserter } from "../../../src/network/tls/header-inserter.ts";
import { readProxyHeader } from "../../../src/network/tls/proxy-header.ts";
import { unmaskAddress } from "../../../src/network/turn/address.ts";
import { readChannelData, TurnStream } from "../../../src/network/turn/framing.ts";
import { ATTRIBUTE, errorCodeOf, readMessage, textOf, transactionOf } from "../../../src/network/turn/message.ts";
import { decodePacket, encodePacket } from "../../../src/protocol/data/data-packet.ts";
import { decodeContent } from "../../../src/protocol/encryption/data-cipher.ts";
import {
  escapeStartCodes,
  type FrameCodec,
  splitEncryptedFrame,
  splitPlainFrame,
  unescapeStartCodes,
} from "../../../src/protocol/encryption/frame-format.ts";
import { MediaError } from "../../../src/protocol/media-node.ts";
import { formatOf, framesOf } from "../../../src/sfu/recording/media-file.ts";
import { Mp4File } from "../../../src/sfu/recording/mp4-file.ts";
import { WebmFile } from "../../../src/sfu/recording/webm-file.ts";
import { readDataPacket, textForAnother, writeDataPacket } from "../../../src/sfu/room/livekit-data-packet.ts";
import { DtlsGate } from "../../../src/sfu/transport/dtls-gate.ts";
import { datagramFrame, parseFrame } from "../../../src/sfu/transport/port-sharing/frames.ts";
import { SctpReceiver } from "../../../src/sfu/werift/sctp-receiver.ts";
import { av1Height, startsAv1Keyframe } from "../../../src/sfu/wire/codec/av1.ts";
import { h264Height, startsH264Keyframe } from "../../../src/sfu/wire/codec/h264.ts";
import { primaryOfRed } from "../../../src/sfu/wire/codec/red.ts";
import { Vp8Descriptor } from "../../../src/sfu/wire/codec/vp8.ts";
import { startsVp9Keyframe, vp9Height } from "../../../src/sfu/wire/codec/vp9.ts";
import { spanOf } from "../../../src/sfu/wire/frames/frame.ts";
import { FrameAssembler } from "../../../src/sfu/wire/frames/frame-assembler.ts";
import { parseRtcp } from "../../../src/sfu/wire/rtcp/rtcp.ts";
import { TransportFeedback } from "../../../src/sfu/wire/rtcp/twcc-feedback.ts";
import { RtpView } from "../../../src/sfu/wire/rtp/rtp.ts";
import { OutgoingExtensions, RtpExtensions } from "../../../src/sfu/wire/rtp/rtp-extensions.ts";
import { decideSections, writeAnswer } from "../../../src/sfu/wire/sdp/answer.ts";
import { parseOffer } from "../../../src/sfu/wire/sdp/offer.ts";
import { hasFingerprint, hasIntegrity, isStun, parseStun } from "../../../src/sfu/wire/stun/stun.ts";

type Parser = {
  read(input: Buffer): void;
  dictionary?: readonly Uint8Array[];
  /** Blocks of code per byte of input, above which the work is too much. */
  stepsPerByte?: number;
};

const words = (...texts: string[]) => texts.map((text) => Buffer.from(text, "latin1"));

function must(holds: boolean, what: string): void {
  if (!holds) throw new Error(what);
}

/** An input is many packets: each after its length in two bytes. */
function packetsOf(input: Buffer): Buffer[] {
  const packets: Buffer[] = [];
  for (let at = 0; at + 2 <= input.length && packets.length < 256; ) {
    const length = input.readUInt16BE(at) & 0x7ff;
    packets.push(input.subarray(at + 2, at + 2 + length));
    at += 2 + length;
  }
  return packets;
}

const EXTENSION_IDS = { mid: 1, rid: 2, repairedRid: 3, absSendTime: 4, transportSequence: 5, audioLevel: 6 };

function readRtp(input: Buffer): void {
  const view = new RtpView();
  if (!view.parse(input, input.length)) return;
  const { payloadOffset, payloadLength, paddingLength } = view;
  must(payloadOffset + payloadLength + paddingLength === input.length, "the parts do not add up");
  const extensions = new RtpExtensions();
  extensions.read(view, EXTENSION_IDS);
  must(extensions.audioLevel <= 127 && (extensions.mid?.length ?? 0) <= 255, "an absurd extension");
  const outgoing = new OutgoingExtensions({ mid: { id: 1, value: "a" }, passThrough: [{ from: 6, to: 7 }] });
  outgoing.write(new Uint8Array(8_192), 12, view, 0, 0);
  const vp8 = new Vp8Descriptor();
  if (vp8.parse(input, payloadOffset, payloadLength))
    must(vp8.length <= payloadLength, "a descriptor past its payload");
  for (const height of [h264Height, vp9Height, av1Height]) {
    const lines = height(input, payloadOffset, payloadLength);
    must(lines >= 0 && lines <= 65_536, "an absurd height");
  }
  startsH264Keyframe(input, payloadOffset, payloadLength);
  startsVp9Keyframe(input, payloadOffset, payloadLength);
  startsAv1Keyframe(input, payloadOffset, payloadLength);
  primaryOfRed(view, new RtpView());
}

/**
 * Steps of the sequence number, chosen by the upper half of a packet's first byte: most packets follow each other, some are lost,
 * late or far ahead.
 */
const STEPS = [1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4, 0, -1, -2, 32_000];

/** The first byte of a packet says how its number and its time continue, and whether its frame ends. */
function recordFrames(codec: string, input: Buffer): void {
  const frames = framesOf(codec);
  if (!frames) return;
  let file: WebmFile | Mp4File | null = null;
  let atMs = 0;
  const assembler = new FrameAssembler(frames, codec !== "opus", {
    needKeyframe() {},
    frame: (frame) => {
      const format = formatOf(frames, frame);
      if (!format) return;
      file ??= format.codec === "h264" ? new Mp4File(format) : new WebmFile(format);
      if (atMs === 0) file.begin();
      file.add(frame.spans, atMs, 20, frame.keyframe);
      atMs += 20;
    },
  });
  let extended = 1_000;
  let timestamp = 0;
  for (const packet of packetsOf(input)) {
    const step = packet[0] ?? 0;
    extended += STEPS[step >> 4] ?? 1;
    if (step & 2) timestamp += 3_000;
    assembler.add(extended, timestamp, (step & 1) === 1, spanOf(packet.subarray(1)), extended * 10);
  }
  assembler.end();
  (file as WebmFile | Mp4File | null)?.finish();
}

const SCTP_TAG = 7;

function readSctp(input: Buffer): void {
  const association = {
    isServer: true,
    isStopped: false,
    associationState: 1,
    localVerificationTag: SCTP_TAG,
    localTsn: 200,
    reconfigResponseSeq: 0,
    advertisedRwnd: 0,
    receive() {},
    async receiveChunk() {},
    async sendChunk({ bytes }: { readonly bytes: Buffer }) {
      must(bytes.length <= 4_096, "a huge answer");
    },
  };
  const receiver = new SctpReceiver(association);
  for (const [i, packet] of packetsOf(input).entries()) {
    if (i > 0) association.associationState = 4;
    if (packet.length >= 8) packet.writeUInt32BE(i === 0 ? 0 : SCTP_TAG, 4);
    receiver.receive(packet);
  }
  const { chunks, bytes, streams } = receiver.waiting ?? { chunks: 0, bytes: 0, streams: 0 };
  must(chunks >= 0 && chunks <= 2_048 && bytes >= 0 && bytes < 300_000 && streams <= 1_024, "too much waits");
}

function readSdp(input: Buffer): void {
  try {
    const offer = parseOffer(input.toString());
    const sections = decideSections(offer);
    writeAnswer({
      offer,
      sections,
      sessionId: "1",
      version: 1,
      ice: { ufrag: "u", pwd: "p" },
      candidates: [],
      outgoing: new Map(sections.filter(({ sends }) => sends).map(({ mid }) => [mid, { ssrc: 1, rtxSsrc: 2 }])),
      fingerprint: { algorithm: "sha-256", value: "00" },
      maxMessageSize: 70_000,
    });
  } catch (error) {
    if (!(error instanceof MediaError)) throw error;
  }
}

function passHttp(input: Buffer): void {
  const line = "x-mark: put in\r\n";
  const whole = new HeaderInserter(line);
  const text = whole.pass(Buffer.from(input)).toString("latin1");
  const pieces = new HeaderInserter(line);
  let split = "";
  for (let at = 0; at < input.length; at += 7)
    split += pieces.pass(Buffer.from(input.subarray(at, at + 7))).toString("latin1");
  must(pieces.refusal === whole.refusal, "pieces are judged in another way");
  if (whole.refusal === null) must(split === text, "pieces pass in another way");
}

function readTurn(input: Buffer): void {
  new TurnStream().push(input, (bytes) => {
    readChannelData(bytes);
    const message = readMessage(bytes);
    if (!message) return;
    errorCodeOf(message);
    for (const name of Object.values(ATTRIBUTE)) textOf(message, name);
    unmaskAddress(input.subarray(0, 20), transactionOf(message));
  });
}

function readLivekit(input: Buffer): void {
  decodeBinary(SignalRequest, input);
  decodeBinary(DataPacket, input);
  decodeJson(SignalRequest, input.toString());
  const packet = readDataPacket(input);
  if (!packet) return;
  const written = writeDataPacket({ identity: "ann", participantId: "p" }, packet);
  must(written.length <= 4 * input.length + 512, "a packet that grows");
  must(readDataPacket(written) !== null, "a packet that cannot be read again");
  const other = textForAnother(packet, "ann");
  if (!other) return;
  const forAnother = writeDataPacket({ identity: "ann", participantId: "p" }, { ...packet, ...other }, other.by);
  must(readDataPacket(forAnother)?.namedSender === other.by, "an agent's text that cannot be read again");
}

/** What clients send to each other, as far as the server reads it. */
function readData(input: Buffer): void {
  decodeContent(input);
  const packet = decodePacket(input);
  if (packet === null) return;
  const again = encodePacket(packet);
  must(again.length <= 4 * input.length + 512, "a packet that grows");
  must(decodePacket(again) !== null, "a packet that cannot be read again");
}

const ENCRYPTED: readonly FrameCodec[] = ["opus", "VP8", "VP9", "H264", "AV1"];

function readEncryptedFrame(input: Buffer): void {
  const codec = ENCRYPTED[(input[0] ?? 0) % ENCRYPTED.length] as FrameCodec;
  const frame = input.subarray(1);
  for (const isKeyframe of [true, false]) {
    splitEncryptedFrame(codec, frame, isKeyframe);
    splitPlainFrame(codec, frame, isKeyframe);
  }
  must(Buffer.compare(unescapeStartCodes(escapeStartCodes(frame)), frame) === 0, "escaped bytes that are others");
}

/** Messages between processes that share a media port: any local program may connect to that port. */
function readSharedPort(input: Buffer): void {
  const frame = parseFrame(input);
  if (frame?.kind !== "datagram") return;
  const again = parseFrame(datagramFrame(frame.data, frame.port, frame.address));
  must(again?.kind === "datagram" && again.address === frame.address, "a datagram from another address");
}

const CODECS = ["VP8", "VP9", "H264", "AV1", "opus"] as const;

export const PARSERS: Record<string, Parser> = {
  stun: {
    read(input) {
      const message = isStun(input) ? parseStun(input) : undefined;
      if (!message) return;
      hasIntegrity(message, "password");
      hasFingerprint(message);
    },
  },
  "dtls-gate": {
    read(input) {
      let delivered = 0;
      const gate = new DtlsGate({
        deliver: (record) => {
          delivered++;
          must(record.length >= 13 && record.readUInt16BE(11) === record.length - 13, "a record that is not whole");
        },
        hasKeys: () => delivered > 2,
      });
      for (const packet of packetsOf(input)) gate.receive(packet);
    },
    // A fragment marks its bytes one by one.
    stepsPerByte: 20_000,
  },
  sctp: { read: readSctp, stepsPerByte: 1_000 },
  rtp: { read: readRtp },
  rtcp: {
    read(input) {
      for (const packet of parseRtcp(input, input.length))
        must(typeof packet.type === "string", "a packet without a type");
      new TransportFeedback().parse(input, 0, input.length);
    },
    stepsPerByte: 5_000,
  },
  sdp: {
    read: readSdp,
    dictionary: words(
      ...[
        "\r\nm=audio 9 UDP/TLS/RTP/SAVPF 111",
        "\r\na=mid:",
        "\r\na=rtpmap:111 opus/48000/2",
        "\r\na=fmtp:",
        "\r\na=extmap:1 ",
      ],
      ...[
        "\r\na=rid:h send",
        "\r\na=simulcast:send h;l",
        "\r\na=ssrc:1 cname:x",
        "\r\na=group:BUNDLE 0",
        "\r\na=rtcp-fb:* nack",
      ],
    ),
  },
  "proxy-protocol": {
    read(input) {
      const header = readProxyHeader(input);
      if (header !== null && header !== "wrong") must(header.bytes <= input.length, "a header past the input");
      offeredProtocols(input);
    },
    dictionary: words("PROXY TCP4 ", "PROXY TCP6 ", "\r\n\r\n\0\r\nQUIT\n", "\r\n"),
  },
  "http-framing": {
    read: passHttp,
    dictionary: words(
      ...[
        "\r\n",
        "\r\n\r\n",
        "content-length: 5",
        "transfer-encoding: chunked",
        "0\r\n\r\n",
        "-6",
        "upgrade: websocket",
      ],
      ...["GET / HTTP/1.1\r\n", "POST / HTTP/1.0\r\n", ";a=b", "ffffffffffffffff"],
    ),
  },
  turn: { read: readTurn },
  livekit: { read: readLivekit, stepsPerByte: 2_000 },
  data: { read: readData },
  "encrypted-frame": { read: readEncryptedFrame, stepsPerByte: 1_000 },
  "port-sharing": { read: readSharedPort },
  ...Object.fromEntries(
    CODECS.map((codec) => [
      `record-${codec.toLowerCase()}`,
      { read: (input: Buffer) => recordFrames(codec, input), stepsPerByte: 500 },
    ]),
  ),
};

export function corpusFolder(name: string): string {
  return join(import.meta.dir, "../../security/corpus", name);
}

/** The inputs that are kept for a target. */
export function corpusOf(name: string): Buffer[] {
  const folder = corpusFolder(name);
  if (!existsSync(folder)) return [];
  return readdirSync(folder).map((file) => readFileSync(join(folder, file)));
}
