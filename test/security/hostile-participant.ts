/** A participant with a genuine token and a genuine connection who sends whatever costs the media worker most. */
import { RtcPeer } from "../../src/rtc-client/peer.ts";
import { RtpSource } from "../../src/rtc-client/rtp-source.ts";
import { SignalingClient } from "../../src/rtc-client/signaling-client.ts";
import {
  chunk,
  cookieOf,
  DCEP,
  data,
  forwardTsn,
  heartbeat,
  init,
  openChannel,
  packet,
  SCTP,
  sack,
  UNORDERED,
  WHOLE,
} from "../sfu/transport/sctp-packets.ts";

const FIRST_TSN = 1_000;
const BINARY = 53;
const CAMERA = { mid: "0", clientTrackId: "camera", kind: "video", source: "camera" } as const;

export class HostileParticipant {
  readonly peer: RtcPeer;
  readonly source = new RtpSource({ ssrc: 99, payloadType: 96, mid: "0" });
  readonly #client: SignalingClient;
  readonly #answers: Buffer[];
  #waiting: (() => void) | null = null;
  /** The verification tag that the server expects in packets to itself. */
  #tag = 0;
  /** The last number that was used for a chunk of data, and for a request to reset streams. */
  #tsn = FIRST_TSN - 1;
  #request = FIRST_TSN - 1;
  #stream = 0;
  #serverTsn = 0;

  /** Publishes AV1 and has an SCTP association without channels. */
  static async join(url: string, token: string): Promise<HostileParticipant> {
    const client = new SignalingClient({ url, token });
    await client.join();
    const answers: Buffer[] = [];
    let participant: HostileParticipant | null = null;
    const peer = await RtcPeer.create({
      node: client,
      roomId: "",
      participantId: "",
      hostname: "0.0.0.0",
      sections: [{ kind: "video", direction: "sendonly", codec: "AV1" }],
      onData: (answer) => {
        answers.push(answer);
        participant?.answered();
      },
    });
    participant = new HostileParticipant(client, peer, answers);
    await peer.connect([CAMERA], []);
    await participant.#associate();
    return participant;
  }

  private constructor(client: SignalingClient, peer: RtcPeer, answers: Buffer[]) {
    this.#client = client;
    this.peer = peer;
    this.#answers = answers;
  }

  get closeCode(): number | null {
    return this.#client.closeCode;
  }

  answered(): void {
    this.#waiting?.();
  }

  async #answer(type: number): Promise<Buffer> {
    for (;;) {
      const found = this.#answers.find((answer) => answer[12] === type);
      if (found) return found;
      await new Promise<void>((done) => {
        this.#waiting = done;
      });
    }
  }

  async #associate(): Promise<void> {
    this.peer.sendData(packet(0, init(FIRST_TSN)));
    const initAck = await this.#answer(SCTP.initAck);
    this.#tag = initAck.readUInt32BE(16);
    this.#serverTsn = initAck.readUInt32BE(28);
    this.send(chunk(SCTP.cookieEcho, cookieOf(initAck)));
    await this.#answer(SCTP.cookieAck);
  }

  send(...chunks: Buffer[]): void {
    this.peer.sendData(packet(this.#tag, ...chunks));
  }

  /** Opens a data channel on stream 1; it never acknowledges what comes on it. */
  openChannel(label: string): void {
    this.send(data(this.nextTsn(), { stream: 1, flags: WHOLE, protocol: DCEP, content: openChannel(label) }));
  }

  sendBytes(content: Buffer): void {
    this.send(data(this.nextTsn(), { stream: 1, flags: UNORDERED | WHOLE, protocol: BINARY, content }));
  }

  /** Everything that has arrived, once it contains these bytes. */
  async arrived(bytes: string): Promise<Buffer> {
    for (;;) {
      const all = Buffer.concat(this.#answers);
      if (all.includes(bytes)) return all;
      await new Promise<void>((done) => {
        this.#waiting = done;
      });
    }
  }

  nextTsn(): number {
    return ++this.#tsn;
  }

  nextRequest(): number {
    return ++this.#request;
  }

  nextStream(): number {
    this.#stream = (this.#stream + 1) & 0xffff;
    return this.#stream;
  }

  get serverTsn(): number {
    return this.#serverTsn;
  }

  async leave(): Promise<void> {
    this.peer.close();
    await this.#client.leave();
  }
}

const times = <T>(count: number, make: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => make(i));

function resetStreams(request: number, count: number): Buffer {
  const body = Buffer.alloc(16 + 2 * count);
  body.writeUInt16BE(13, 0);
  body.writeUInt16BE(body.length, 2);
  body.writeUInt32BE(request, 4);
  for (let i = 0; i < count; i++) body.writeUInt16BE(i, 16 + 2 * i);
  return chunk(SCTP.reconfig, body);
}

/** Epoch 1, of a length that the path carries, and encrypted with no key. */
const UNREADABLE = Buffer.concat([Buffer.from([23, 254, 253, 0, 1, 0, 0, 0, 0, 9, 9, 4, 176]), Buffer.alloc(1_200, 7)]);

/** One packet each; `round` counts them. */
export const PARTICIPANT_ATTACKS: Record<string, (one: HostileParticipant, round: number) => void> = {
  "FORWARD-TSN of all streams": (one) =>
    one.send(forwardTsn(one.nextTsn(), ...times(280, () => [one.nextStream(), 1] as const))),
  "unordered fragments that never complete": (one) =>
    one.send(data(one.nextTsn(), { flags: UNORDERED, content: Buffer.alloc(1_100) })),
  "ordered messages that wait for ever": (one, round) =>
    one.send(...times(50, () => data(one.nextTsn(), { sequence: round + 1, content: Buffer.alloc(1) }))),
  "many chunks of data behind a gap": (one, round) =>
    one.send(...times(50, (i) => data(one.nextTsn() + 2 + 2 * ((round * 50 + i) % 500), { flags: UNORDERED }))),
  "150 heartbeats in a packet": (one) => one.send(...times(150, () => heartbeat(1))),
  "heartbeats one by one": (one) => one.send(heartbeat(...times(1_000, () => 1))),
  "acknowledgements of 65,535 chunks": (one) => one.send(sack(one.serverTsn - 1, [1, 65_535])),
  "resets of 500 streams": (one) => one.send(resetStreams(one.nextRequest(), 500)),
  "channels without end": (one) =>
    one.send(
      ...times(20, (i) =>
        data(one.nextTsn(), { stream: i, flags: UNORDERED | 3, protocol: DCEP, content: openChannel(`c${i}`) }),
      ),
    ),
  "messages in unknown formats": (one) => one.send(data(one.nextTsn(), { protocol: 99, flags: UNORDERED | 3 })),
  "an association that starts over": (one) => one.peer.sendData(packet(0, init(FIRST_TSN))),
  "records that nobody can read": (one) => one.peer.sendRaw(UNREADABLE),
  "an AV1 frame without end": (one) => one.source.send(one.peer, Uint8Array.of(0xd0, 7, 7), false),
  "AV1 behind a gap of 32,000 packets": (one, round) => {
    if (round === 1) one.source.sequenceNumber = (one.source.sequenceNumber + 32_000) & 0xffff;
    one.source.timestamp = (one.source.timestamp + 3_000) >>> 0;
    one.source.send(one.peer, Uint8Array.of(0x10, 0x30, 7), true);
  },
};
