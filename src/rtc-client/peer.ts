/**
 * A WebRTC peer connection without a browser: ICE checks, DTLS and SRTP. The headless participant, the load test and the tests of
 * the SFU share it.
 */
import "../sfu/werift/reflect.ts";
import { randomBytes } from "node:crypto";
import { DtlsClient } from "werift";
import type { MediaNode } from "../protocol/media-node.ts";
import type { PublishedSection, SubscribedSection } from "../protocol/signaling.ts";
import {
  createCertificate,
  type DtlsCertificate,
  keepRecordNumbersIncreasing,
  SRTP_PROFILE_NUMBERS,
} from "../sfu/werift/werift-hooks.ts";
import { CONTENT_TYPE } from "../sfu/wire/dtls/records.ts";
import { parseRtcp, type RtcpPacket } from "../sfu/wire/rtcp/rtcp.ts";
import { writeRemb } from "../sfu/wire/rtcp/rtcp-write.ts";
import { MAX_TWCC_BYTES, TwccRecorder } from "../sfu/wire/rtcp/twcc.ts";
import { isRtcp, RtpView } from "../sfu/wire/rtp/rtp.ts";
import { RtpExtensions } from "../sfu/wire/rtp/rtp-extensions.ts";
import { type SrtpProfile, SrtpReceiver, SrtpSender } from "../sfu/wire/srtp/srtp.ts";
import { MASTER_KEY_BYTES, masterSaltBytes } from "../sfu/wire/srtp/srtp-cipher.ts";
import {
  hasIntegrity,
  isStun,
  MAX_BINDING_SUCCESS_BYTES,
  parseStun,
  STUN_TYPE,
  type StunMessage,
  writeBindingRequest,
  writeBindingSuccess,
} from "../sfu/wire/stun/stun.ts";
import { deferred } from "./deferred.ts";
import { carriesMedia, EXTENSION_IDS, type PeerSection, writeOffer } from "./sdp.ts";

const CHECK_INTERVAL_MS = 2_000;
const HANDSHAKE_RETRY_MS = 50;
/** The largest tie-breaker, so that a server that also wants the controlling role switches to controlled. */
const TIE_BREAKER = 2n ** 64n - 1n;

export type PeerOptions = {
  /** Answers offers; either a media node or a signaling client. */
  node: Pick<MediaNode, "negotiate">;
  roomId: string;
  participantId: string;
  sections: PeerSection[];
  certificate?: DtlsCertificate;
  profile?: SrtpProfile;
  /** The local IP address; loopback by default. */
  hostname?: string;
  /** Replaces Bun's socket, for other runtimes and simulated networks. */
  openSocket?: (onData: (data: Buffer) => void) => Promise<PeerSocket>;
  /** Set for servers that choose extension ids themselves. */
  extensionIds?: typeof EXTENSION_IDS;
  /** Offers a media section for data channels; the caller writes and reads the SCTP packets. */
  onData?: (packet: Buffer) => void;
  /** `mid` is undefined for packets without one. The extensions are overwritten with the next packet. */
  onRtp?: (view: RtpView, peer: RtcPeer, mid: string | undefined, extensions: RtpExtensions) => void;
  onRtcp?: (packet: RtcpPacket, peer: RtcPeer) => void;
};

export type PeerSocket = {
  readonly port: number;
  readonly closed: boolean;
  send(data: Uint8Array, port: number, address: string): unknown;
  close(): void;
};

export class RtcPeer {
  readonly options: PeerOptions;
  readonly ice = { ufrag: randomBytes(6).toString("hex"), pwd: randomBytes(16).toString("hex") };
  remote = { ufrag: "", pwd: "", port: 0, address: "127.0.0.1" };
  packetsIn = 0;
  /** Media packets, without retransmissions and bandwidth probes. */
  mediaIn = 0;
  bytesIn = 0;
  outgoing: SrtpSender | null = null;
  incoming: SrtpReceiver | null = null;
  checksAnswered = 0;
  answerSdp = "";
  readonly #sessionId = String(Math.floor(Math.random() * 2 ** 50));
  readonly #certificate: DtlsCertificate;
  #socket: PeerSocket;
  #dtls: DtlsClient | null = null;
  readonly #dtlsTransport = {
    type: "stoa",
    address: { address: "127.0.0.1", family: "IPv4", port: 0 },
    closed: false,
    onData: (_data: Buffer) => {},
    send: async (data: Buffer) => void this.sendRaw(data),
    close: async () => {},
  };
  readonly #unhandledRecords: Buffer[] = [];
  readonly #view = new RtpView();
  readonly #extensions = new RtpExtensions();
  readonly #twcc = new TwccRecorder();
  #timer: Timer | null = null;
  readonly #ready = deferred<void>();

  static async create(options: PeerOptions): Promise<RtcPeer> {
    const certificate = options.certificate ?? (await createCertificate());
    let peer: RtcPeer | null = null;
    const open = options.openSocket ?? ((onData) => bind(options.hostname, onData));
    const socket = await open((data) => peer?.receive(data));
    peer = new RtcPeer(options, certificate, socket);
    return peer;
  }

  private constructor(options: PeerOptions, certificate: DtlsCertificate, socket: PeerSocket) {
    this.options = options;
    this.#certificate = certificate;
    this.#socket = socket;
  }

  get port(): number {
    return this.#socket.port;
  }

  /** Negotiates, and resolves when SRTP is up. */
  async connect(publish: PublishedSection[] | undefined, subscribe: SubscribedSection[] | undefined): Promise<void> {
    await this.negotiate(publish, subscribe);
    this.check();
    this.#timer = setInterval(() => this.check(), CHECK_INTERVAL_MS);
    await this.#ready.promise;
  }

  async negotiate(
    publish: PublishedSection[] | undefined,
    subscribe: SubscribedSection[] | undefined,
  ): Promise<{ clientTrackId: string; trackId: string }[]> {
    const { node, roomId, participantId } = this.options;
    const answer = await node.negotiate({
      roomId,
      participantId,
      sdp: this.offer(),
      ...(publish ? { publish } : {}),
      ...(subscribe ? { subscribe } : {}),
    });
    this.answerSdp = answer.sdp;
    this.remote = {
      ufrag: /a=ice-ufrag:(\S+)/.exec(answer.sdp)?.[1] ?? "",
      pwd: /a=ice-pwd:(\S+)/.exec(answer.sdp)?.[1] ?? "",
      port: Number(/a=candidate:\S+ 1 udp \d+ \S+ (\d+)/.exec(answer.sdp)?.[1]),
      address: /a=candidate:\S+ 1 udp \d+ (\S+)/.exec(answer.sdp)?.[1] ?? "",
    };
    return answer.tracks;
  }

  offer(): string {
    return writeOffer(this.options.sections, {
      sessionId: this.#sessionId,
      ice: this.ice,
      certificate: this.#certificate,
      hasData: this.options.onData !== undefined,
    });
  }

  /** A binding request of a controlling agent. */
  checkBytes(password = this.remote.pwd, ufrag = this.remote.ufrag): Uint8Array {
    const out = new Uint8Array(256);
    const length = writeBindingRequest(out, {
      transactionId: randomBytes(12),
      username: `${ufrag}:${this.ice.ufrag}`,
      password,
      priority: 1,
      useCandidate: true,
      iceControlling: TIE_BREAKER,
    });
    return out.subarray(0, length);
  }

  /** Behaves like clients that send media instead of consent checks. */
  stopChecks(): void {
    if (this.#timer) clearInterval(this.#timer);
    this.#timer = null;
  }

  check(): void {
    this.sendRaw(this.checkBytes());
  }

  sendRaw(data: Uint8Array): void {
    if (this.#socket.closed) return;
    try {
      this.#socket.send(data, this.remote.port, this.remote.address);
    } catch {
      // An ICMP error means that the remote port is closed: the packet counts as lost.
    }
  }

  /** Continues from another IP address, like a phone that leaves its Wi-Fi. */
  async move(hostname = this.options.hostname): Promise<void> {
    const old = this.#socket;
    this.#socket = await bind(hostname, (data) => this.receive(data));
    old.close();
    this.check();
  }

  receive(data: Buffer): void {
    const first = data[0] ?? 255;
    if (first < 4) this.#receiveStun(data);
    else if (first < 64) this.#receiveRecord(data);
    else this.#receiveMedia(data);
  }

  /**
   * Bun reads a socket until it is empty, and runs nothing else meanwhile. The server answers at once to what is sent in response to
   * data, so handling data in that time could keep the socket from ever being empty, and timers from running. The handshake is handled
   * at once: media that arrives with its last record needs the keys.
   */
  #receiveRecord(data: Buffer): void {
    if (data[0] !== CONTENT_TYPE.applicationData && this.#unhandledRecords.length === 0)
      this.#dtlsTransport.onData(data);
    else if (this.#unhandledRecords.push(data) === 1) setImmediate(this.#handleRecords);
  }

  readonly #handleRecords = (): void => {
    for (const record of this.#unhandledRecords.splice(0)) this.#dtlsTransport.onData(record);
  };

  #receiveStun(data: Buffer): void {
    const message = isStun(data) ? parseStun(data) : undefined;
    if (message?.type === STUN_TYPE.bindingRequest) this.#answerCheck(message);
    if (message?.type !== STUN_TYPE.bindingSuccess || !hasIntegrity(message, this.remote.pwd)) return;
    this.checksAnswered++;
    if (this.#dtls) return;
    const profile = this.options.profile ?? "AEAD_AES_128_GCM";
    this.#dtls = new DtlsClient({
      cert: this.#certificate.certPem,
      key: this.#certificate.keyPem,
      signatureHash: this.#certificate.signatureHash,
      transport: this.#dtlsTransport,
      srtpProfiles: [SRTP_PROFILE_NUMBERS[profile]],
      extendedMasterSecret: true,
    });
    keepRecordNumbersIncreasing((this.#dtls as unknown as { dtls: { recordSequenceNumber: number } }).dtls);
    this.#dtls.onConnect.once(() => {
      const keys = this.#dtls?.extractSessionKeys(MASTER_KEY_BYTES, masterSaltBytes(profile));
      if (!keys) return;
      this.outgoing = new SrtpSender({ profile, key: keys.localKey, salt: keys.localSalt });
      this.incoming = new SrtpReceiver({ profile, key: keys.remoteKey, salt: keys.remoteSalt });
      // The server is ready when it has read our Finished message, shortly afterwards.
      setTimeout(() => this.#ready.resolve(), HANDSHAKE_RETRY_MS);
    });
    this.#dtls.onData.subscribe((packet) => this.options.onData?.(packet));
    // werift reports a repeated answer, as on a busy machine, as an error without a message; it is harmless.
    this.#dtls.onError.subscribe((error) => {
      if (error.message !== "") this.#ready.reject(error);
    });
    this.#dtls.connect().catch((error) => this.#ready.reject(error));
  }

  /** Servers that are not ICE-lite send connectivity checks too. */
  #answerCheck(request: StunMessage): void {
    if (!hasIntegrity(request, this.ice.pwd)) return;
    const { address, port } = this.remote;
    const out = new Uint8Array(MAX_BINDING_SUCCESS_BYTES);
    this.sendRaw(out.subarray(0, writeBindingSuccess(out, request, address, port, this.ice.pwd)));
  }

  #receiveMedia(data: Buffer): void {
    if (!this.incoming) return;
    this.bytesIn += data.length;
    if (isRtcp(data)) {
      const length = this.incoming.unprotectRtcp(data);
      if (length > 0) for (const packet of parseRtcp(data, length)) this.options.onRtcp?.(packet, this);
      return;
    }
    this.packetsIn++;
    if (carriesMedia(data)) this.mediaIn++;
    if (!this.options.onRtp) return;
    const length = this.incoming.unprotectRtp(data);
    if (length <= 0 || !this.#view.parse(data, length)) return;
    this.#extensions.read(this.#view, this.options.extensionIds ?? EXTENSION_IDS);
    if (this.#extensions.transportSequence >= 0)
      this.#twcc.record(this.#extensions.transportSequence, performance.now());
    this.options.onRtp(this.#view, this, this.#extensions.mid, this.#extensions);
  }

  /** `packet` has room for the authentication tag after `length`. */
  sendRtp(packet: Uint8Array, headerLength: number, length: number): void {
    if (this.outgoing) this.sendRaw(packet.subarray(0, this.outgoing.protectRtp(packet, headerLength, length)));
  }

  sendRtcp(packet: Uint8Array, length: number): void {
    if (this.outgoing) this.sendRaw(packet.subarray(0, this.outgoing.protectRtcp(packet, length)));
  }

  async sendData(packet: Buffer): Promise<void> {
    await this.#dtls?.send(packet).catch(() => {});
  }

  sendRemb(bitrate: number): void {
    const out = new Uint8Array(64);
    this.sendRtcp(out, writeRemb(out, 0, 1, bitrate, [1]));
  }

  /** Reports the arrivals since the last call, for servers that use transport-wide sequence numbers. */
  sendTransportFeedback(): void {
    const out = new Uint8Array(MAX_TWCC_BYTES + 64);
    while (this.#twcc.pending) {
      const end = this.#twcc.writeFeedback(out, 0, 1, 1);
      if (end > 0) this.sendRtcp(out, end);
    }
  }

  close(): void {
    this.stopChecks();
    if (!this.#socket.closed) this.#socket.close();
  }
}

function bind(hostname: string | undefined, onData: (data: Buffer) => void): Promise<Bun.udp.Socket<"buffer">> {
  return Bun.udpSocket({
    hostname: hostname ?? "127.0.0.1",
    port: 0,
    binaryType: "buffer",
    socket: { data: (_socket, data) => onData(data), error: () => {} },
  });
}
