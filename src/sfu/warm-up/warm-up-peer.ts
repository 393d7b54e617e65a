/** A client that exists in a rehearsal only: what it would send is handed to the engine, and what it is sent is looked at here. */
import { randomBytes } from "node:crypto";
import type { Negotiate, NegotiateAnswer } from "../../protocol/media-node.ts";
import { writeReceiverReport, writeSenderReport } from "../wire/rtcp/rtcp-write.ts";
import { MAX_TWCC_BYTES, TwccRecorder } from "../wire/rtcp/twcc.ts";
import { writeUint16, writeUint32 } from "../wire/rtp/bytes.ts";
import { isRtcp, RtpView } from "../wire/rtp/rtp.ts";
import { EXTENSION_URI, RtpExtensions } from "../wire/rtp/rtp-extensions.ts";
import type { SrtpSender } from "../wire/srtp/srtp.ts";
import { writeBindingRequest } from "../wire/stun/stun.ts";

const IDS = { mid: 1, rid: 2, repairedRid: 3, transportSequence: 4, audioLevel: 5, absSendTime: 6 };
/** Browsers send more than they were promised that it is read. */
const UNKNOWN_ID = 7;
/** Beyond 31 bits, as half of all are. */
const REPORTER = 0xf0000001;
export const ADDRESS = "127.0.0.1";
export const PAYLOAD_TYPE = { audio: 111, video: 96 } as const;
const PAYLOAD_TYPES: ReadonlySet<number> = new Set(Object.values(PAYLOAD_TYPE));
const REPAIR_PAYLOAD_TYPE = 97;
const NTP_EPOCH_SECONDS = 2_208_988_800;
const HEADER_BYTES = 24;
const TAG_ROOM = 32;
const MAX_PACKET_BYTES = 1_200;
const PACKETS_KEPT = 64;
const REPORTED_AT_ONCE = 2;
/** Any record of DTLS: the keys are agreed on without a handshake. */
const HANDSHAKE = Buffer.from([22, 254, 253]);

/** `rid` while the other side may not know yet which layer it is, else 0. */
export type Stream = { kind: "audio" | "video"; ssrc: number; sequenceNumber: number; timestamp: number; rid: number };

type Engine = {
  negotiate(request: Negotiate): NegotiateAnswer;
  receive(data: Buffer, port: number, address: string): void;
  /** All that comes in the course of a call: by a socket, as ever. */
  receiveBySocket(data: Buffer, port: number): void;
};

export class RehearsalPeer {
  readonly id: string;
  readonly port: number;
  readonly #engine: Engine;
  readonly #srtp: SrtpSender;
  readonly #arrivals = new TwccRecorder();
  readonly #view = new RtpView();
  readonly #extensions = new RtpExtensions();
  readonly #report = new Uint8Array(MAX_TWCC_BYTES + TAG_ROOM);
  readonly #packets = Array.from({ length: PACKETS_KEPT }, () => Buffer.alloc(MAX_PACKET_BYTES));
  #credentials = { username: "", password: "" };
  #number = 0;
  #arrived = 0;

  constructor(engine: Engine, port: number, srtp: SrtpSender) {
    this.id = `peer-${port}`;
    this.port = port;
    this.#engine = engine;
    this.#srtp = srtp;
  }

  /** Negotiates, and has its media flow from then on. */
  join(roomId: string, media: Pick<Negotiate, "publish" | "subscribe">, rids: readonly string[] = []): NegotiateAnswer {
    const sdp = offerOf(media.publish?.length ? "sendonly" : "recvonly", rids);
    const answer = this.#engine.negotiate({ roomId, participantId: this.id, sdp, ...media });
    const ufrag = /a=ice-ufrag:(\S+)/.exec(answer.sdp)?.[1] ?? "";
    const password = /a=ice-pwd:(\S+)/.exec(answer.sdp)?.[1] ?? "";
    this.#credentials = { username: `${ufrag}:rehearsal`, password };
    this.#engine.receive(this.#checkBytes(), this.port, ADDRESS);
    this.#engine.receive(HANDSHAKE, this.port, ADDRESS);
    return answer;
  }

  /** It is still there. */
  sendCheck(): void {
    this.#engine.receiveBySocket(this.#checkBytes(), this.port);
  }

  #checkBytes(): Buffer {
    const check = Buffer.alloc(256);
    const length = writeBindingRequest(check, {
      ...{ transactionId: randomBytes(12), ...this.#credentials },
      ...{ priority: 1, useCandidate: true, iceControlling: 1n },
    });
    return check.subarray(0, length);
  }

  /** The next packet of a stream, with the extensions that browsers send. */
  sendRtp(stream: Stream, payload: Uint8Array, marker: boolean): void {
    // Not garbage each: they are used up by the end of the turn.
    const bytes = HEADER_BYTES + payload.length + TAG_ROOM;
    const number = this.#number++ & 0xffff;
    const packet = (this.#packets[number % PACKETS_KEPT] as Buffer).subarray(0, bytes);
    packet.set([0x90, (marker ? 0x80 : 0) | PAYLOAD_TYPE[stream.kind]]);
    writeUint16(packet, 2, stream.sequenceNumber);
    stream.sequenceNumber = (stream.sequenceNumber + 1) & 0xffff;
    writeUint32(packet, 4, stream.timestamp);
    writeUint32(packet, 8, stream.ssrc);
    const mid = stream.kind === "audio" ? 0x30 : 0x31;
    packet.set([0xbe, 0xde, 0, 2, IDS.mid << 4, mid, (IDS.transportSequence << 4) | 1, number >> 8, number & 0xff], 12);
    if (stream.kind === "audio") packet.set([IDS.audioLevel << 4, 0x80 | 30, 0], 21);
    else packet.set(stream.rid === 0 ? [(UNKNOWN_ID << 4) | 1, 0, 0] : [IDS.rid << 4, stream.rid, 0], 21);
    packet.set(payload, HEADER_BYTES);
    const end = this.#srtp.protectRtp(packet, HEADER_BYTES, HEADER_BYTES + payload.length);
    this.#engine.receiveBySocket(packet.subarray(0, end), this.port);
  }

  sendSenderReport({ ssrc, timestamp }: Stream, nowMs: number): void {
    const ntpSeconds = Math.floor(nowMs / 1_000) + NTP_EPOCH_SECONDS;
    const counts = { packetCount: 1, octetCount: 1, rtpTimestamp: timestamp };
    this.#sendRtcp(writeSenderReport(this.#report, 0, { ssrc, ntpSeconds, ntpFraction: 0, ...counts }));
  }

  /** On what it was sent last. */
  sendReceiverReport(): void {
    const counts = { fractionLost: 0, cumulativeLost: 0, highestSequence: 1, jitter: 1 };
    const block = { ssrc: this.#view.ssrc, ...counts, lastSenderReport: 0, delaySinceLastSenderReport: 0 };
    this.#sendRtcp(writeReceiverReport(this.#report, 0, REPORTER, [block]));
  }

  sendTransportFeedback(): void {
    while (this.#arrivals.pending)
      this.#sendRtcp(this.#arrivals.writeFeedback(this.#report, 0, REPORTER, this.#view.ssrc));
  }

  #sendRtcp(length: number): void {
    const end = this.#srtp.protectRtcp(this.#report, length);
    this.#engine.receiveBySocket(Buffer.from(this.#report.subarray(0, end)), this.port);
  }

  /** What the engine has sent: its header is for everybody to read. True: it is media. */
  receive(data: Uint8Array, nowMs: number): boolean {
    if ((data[0] ?? 0) < 128 || isRtcp(data) || !this.#view.parse(data)) return false;
    this.#extensions.read(this.#view, IDS);
    if (this.#extensions.transportSequence >= 0) {
      this.#arrivals.record(this.#extensions.transportSequence, nowMs);
      if (++this.#arrived % REPORTED_AT_ONCE === 0) this.sendTransportFeedback();
    }
    return PAYLOAD_TYPES.has(this.#view.payloadType);
  }
}

function offerOf(direction: "sendonly" | "recvonly", rids: readonly string[]): string {
  const section = (mid: number, kind: "audio" | "video", codec: string[]) => [
    `m=${kind} 9 UDP/TLS/RTP/SAVPF ${PAYLOAD_TYPE[kind]}${kind === "video" ? ` ${REPAIR_PAYLOAD_TYPE}` : ""}`,
    ...[`a=mid:${mid}`, `a=${direction}`, "a=ice-ufrag:rehearsal", "a=ice-pwd:rehearsalrehearsalrehearsal"],
    ...[`a=fingerprint:sha-256 ${new Array(32).fill("00").join(":")}`, "a=setup:actpass", "a=rtcp-mux"],
    ...Object.entries(IDS).map(([name, id]) => `a=extmap:${id} ${EXTENSION_URI[name as keyof typeof IDS]}`),
    ...codec,
  ];
  const video = [
    ...["rtpmap:96 VP8/90000", "rtcp-fb:96 nack", "rtcp-fb:96 nack pli", "rtcp-fb:96 transport-cc"],
    ...[`rtpmap:${REPAIR_PAYLOAD_TYPE} rtx/90000`, `fmtp:${REPAIR_PAYLOAD_TYPE} apt=96`],
    ...rids.map((rid) => `rid:${rid} send`),
    ...(rids.length > 0 ? [`simulcast:send ${rids.join(";")}`] : []),
  ];
  const lines = [
    ...["v=0", "o=- 1 2 IN IP4 127.0.0.1", "s=-", "t=0 0", "a=group:BUNDLE 0 1"],
    ...section(0, "audio", ["a=rtpmap:111 opus/48000/2"]),
    ...section(
      1,
      "video",
      video.map((attribute) => `a=${attribute}`),
    ),
  ];
  return `${lines.join("\r\n")}\r\n`;
}
