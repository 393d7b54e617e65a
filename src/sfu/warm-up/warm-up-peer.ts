/** A client in the JIT warm-up. It talks to the engine over loopback, with keys that both sides know in advance. */
import { randomBytes } from "node:crypto";
import type { Negotiate, NegotiateAnswer } from "../../protocol/media-node.ts";
import { writeReceiverReport, writeSenderReport } from "../wire/rtcp/rtcp-write.ts";
import { MAX_TWCC_BYTES, TwccRecorder } from "../wire/rtcp/twcc.ts";
import { writeUint16, writeUint32 } from "../wire/rtp/bytes.ts";
import { isRtcp, RtpView } from "../wire/rtp/rtp.ts";
import { EXTENSION_URI, RtpExtensions } from "../wire/rtp/rtp-extensions.ts";
import type { SrtpSender } from "../wire/srtp/srtp.ts";
import { isStun, writeBindingRequest } from "../wire/stun/stun.ts";

export const ADDRESS = "127.0.0.1";
const IDS = { mid: 1, rid: 2, repairedRid: 3, transportSequence: 4, audioLevel: 5, absSendTime: 6 };
/** Browsers send extensions that the server has not accepted. */
const UNKNOWN_ID = 7;
/** Half of all SSRCs are beyond 31 bits. */
const REPORTER = 0xf0000001;
const PAYLOAD_TYPE = { audio: 111, video: 96 } as const;
const RTX_PAYLOAD_TYPE = 97;
const NTP_EPOCH_SECONDS = 2_208_988_800;
const HEADER_BYTES = 24;
const TAG_ROOM = 32;
const REPORT_AFTER_PACKETS = 2;
/** Any DTLS record starts the handshake, which agrees on the known keys. */
const HANDSHAKE = Buffer.from([22, 254, 253]);

/** `rid` is 0 once the server knows the layer. */
export type Stream = { kind: "audio" | "video"; ssrc: number; sequenceNumber: number; timestamp: number; rid: number };

type PeerHost = {
  readonly enginePort: number;
  readonly srtp: SrtpSender;
  now(): number;
  negotiate(request: Negotiate): NegotiateAnswer;
};

export class WarmUpPeer {
  readonly id: string;
  /** The number of datagrams sent so far. */
  sent = 0;
  /** Received packets of media, RTCP packets, and answers to checks. */
  media = 0;
  control = 0;
  answers = 0;
  readonly #host: PeerHost;
  readonly #socket: Bun.udp.Socket<"buffer">;
  readonly #arrivals = new TwccRecorder();
  readonly #view = new RtpView();
  readonly #extensions = new RtpExtensions();
  readonly #report = new Uint8Array(MAX_TWCC_BYTES + TAG_ROOM);
  readonly #packet = Buffer.alloc(1_500);
  #credentials = { username: "", password: "" };
  #number = 0;
  #received = 0;

  static async open(id: string, host: PeerHost): Promise<WarmUpPeer> {
    let peer: WarmUpPeer | null = null;
    const socket = await Bun.udpSocket({
      hostname: ADDRESS,
      port: 0,
      binaryType: "buffer",
      socket: { data: (_socket, data) => peer?.receive(data), error() {} },
    });
    peer = new WarmUpPeer(id, host, socket);
    return peer;
  }

  private constructor(id: string, host: PeerHost, socket: Bun.udp.Socket<"buffer">) {
    this.id = id;
    this.#host = host;
    this.#socket = socket;
  }

  join(roomId: string, media: Pick<Negotiate, "publish" | "subscribe">, rids: readonly string[] = []): NegotiateAnswer {
    const sdp = offerOf(media.publish?.length ? "sendonly" : "recvonly", rids);
    const answer = this.#host.negotiate({ roomId, participantId: this.id, sdp, ...media });
    const ufrag = /a=ice-ufrag:(\S+)/.exec(answer.sdp)?.[1] ?? "";
    const password = /a=ice-pwd:(\S+)/.exec(answer.sdp)?.[1] ?? "";
    this.#credentials = { username: `${ufrag}:warmup`, password };
    this.sendCheck();
    this.#send(HANDSHAKE);
    return answer;
  }

  #send(data: Uint8Array): void {
    this.sent++;
    this.#socket.send(data, this.#host.enginePort, ADDRESS);
  }

  /** Sends another peer a datagram that it ignores. */
  sendTo(other: WarmUpPeer | undefined): void {
    if (other) this.#socket.send(HANDSHAKE, other.#socket.port, ADDRESS);
  }

  sendCheck(): void {
    const check = Buffer.alloc(256);
    const length = writeBindingRequest(check, {
      transactionId: randomBytes(12),
      ...this.#credentials,
      priority: 1,
      useCandidate: true,
      iceControlling: 1n,
    });
    this.#send(check.subarray(0, length));
  }

  /** Sends the next packet of a stream, with the extensions that browsers send. */
  sendRtp(stream: Stream, payload: Uint8Array, marker: boolean): void {
    const packet = this.#packet;
    const number = this.#number++ & 0xffff;
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
    this.#send(packet.subarray(0, this.#host.srtp.protectRtp(packet, HEADER_BYTES, HEADER_BYTES + payload.length)));
  }

  sendSenderReport({ ssrc, timestamp }: Stream): void {
    const ntpSeconds = Math.floor(this.#host.now() / 1_000) + NTP_EPOCH_SECONDS;
    const counts = { packetCount: 1, octetCount: 1, rtpTimestamp: timestamp };
    this.#sendRtcp(writeSenderReport(this.#report, 0, { ssrc, ntpSeconds, ntpFraction: 0, ...counts }));
  }

  /** Reports on the stream of the newest packet. */
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
    this.#send(this.#report.subarray(0, this.#host.srtp.protectRtcp(this.#report, length)));
  }

  /** Reads the header, which is not encrypted, and reports on it. */
  receive(data: Buffer): void {
    if (isStun(data)) this.answers++;
    else if (isRtcp(data)) this.control++;
    else if (this.#view.parse(data) && this.#view.payloadType !== RTX_PAYLOAD_TYPE) this.media++;
    else return;
    if ((data[0] ?? 0) < 128 || isRtcp(data)) return;
    this.#extensions.read(this.#view, IDS);
    if (this.#extensions.transportSequence < 0) return;
    this.#arrivals.record(this.#extensions.transportSequence, this.#host.now());
    if (++this.#received % REPORT_AFTER_PACKETS === 0) this.sendTransportFeedback();
  }

  close(): void {
    this.#socket.close();
  }
}

function offerOf(direction: "sendonly" | "recvonly", rids: readonly string[]): string {
  const section = (mid: number, kind: "audio" | "video", codec: string[]) => [
    `m=${kind} 9 UDP/TLS/RTP/SAVPF ${PAYLOAD_TYPE[kind]}${kind === "video" ? ` ${RTX_PAYLOAD_TYPE}` : ""}`,
    ...[`a=mid:${mid}`, `a=${direction}`, "a=ice-ufrag:warmup", "a=ice-pwd:warmupwarmupwarmupwarmup"],
    ...[`a=fingerprint:sha-256 ${new Array(32).fill("00").join(":")}`, "a=setup:actpass", "a=rtcp-mux"],
    ...Object.entries(IDS).map(([name, id]) => `a=extmap:${id} ${EXTENSION_URI[name as keyof typeof IDS]}`),
    ...codec.map((attribute) => `a=${attribute}`),
  ];
  const lines = [
    ...["v=0", "o=- 1 2 IN IP4 127.0.0.1", "s=-", "t=0 0", "a=group:BUNDLE 0 1"],
    ...section(0, "audio", ["rtpmap:111 opus/48000/2"]),
    ...section(1, "video", [
      ...["rtpmap:96 VP8/90000", "rtcp-fb:96 nack", "rtcp-fb:96 nack pli", "rtcp-fb:96 transport-cc"],
      ...[`rtpmap:${RTX_PAYLOAD_TYPE} rtx/90000`, `fmtp:${RTX_PAYLOAD_TYPE} apt=96`],
      ...rids.map((rid) => `rid:${rid} send`),
      ...(rids.length > 0 ? [`simulcast:send ${rids.join(";")}`] : []),
    ]),
  ];
  return `${lines.join("\r\n")}\r\n`;
}
