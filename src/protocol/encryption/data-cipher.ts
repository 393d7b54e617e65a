/** Encrypts the data between participants, in the packet format of LiveKit's clients. */
import {
  type DataPacket,
  type EncryptedContent,
  type Fields,
  PACKET,
  type PacketContent,
  read,
  write,
} from "../data/data-packet.ts";

/** The content of an encrypted packet, whose fields have other numbers than those of a packet. */
const CONTENT: Fields = {
  user: [1, PACKET.user[1]],
  request: [4, PACKET.request[1]],
  requestAck: [5, PACKET.requestAck[1]],
  response: [6, PACKET.response[1]],
  header: [7, PACKET.header[1]],
  chunk: [8, PACKET.chunk[1]],
  trailer: [9, PACKET.trailer[1]],
};

export const encodeContent = (content: PacketContent): Uint8Array<ArrayBuffer> => write(CONTENT, content);

/** Returns null for malformed content. */
export const decodeContent = (data: Uint8Array): PacketContent | null => read(CONTENT, data);

/** Messages of this topic carry the key agreement, which encrypts them itself. */
export const KEY_TOPIC = "stoa.e2ee";
const REPORT_EVERY_MS = 1_000;
const decoder = new TextDecoder();

/** Why a participant's message was not delivered: it was not encrypted, or its key is missing. */
type UnreadableReason = "not_encrypted" | "undecryptable";

export type DataKeys = {
  /** Null without a key. */
  encryptData(plain: Uint8Array): Promise<EncryptedContent | null>;
  /** Null if it cannot be decrypted. */
  decryptData(identity: string, content: EncryptedContent): Promise<Uint8Array | null>;
};

/** Encrypts the packets that one participant sends in a room, and decrypts those of the others. */
export class DataCipher {
  readonly #keys: DataKeys;
  /**
   * The last encrypted packet of each participant: packets of one sender stay in order, and do not wait for the key of another
   * sender.
   */
  readonly #opened = new Map<string, Promise<void>>();
  /** The messages that could not be read since the last report, by sender and reason. */
  readonly #unread = new Map<string, { messages: number; reportedAt: number }>();

  /** Called at most once a second for each participant and reason. */
  onUnreadable: (identity: string, reason: UnreadableReason, messages: number) => void = () => {};
  /** Called with messages of `KEY_TOPIC`, which the application does not receive. */
  onKeyMessage: (from: string, message: string) => void = () => {};

  constructor(keys: DataKeys) {
    this.#keys = keys;
  }

  /** The packet in encrypted form, with only its receivers readable. Null without a key. */
  async seal(packet: DataPacket): Promise<DataPacket | null> {
    if (packet.user?.topic === KEY_TOPIC) return packet;
    const { to, ...content } = packet;
    const encrypted = await this.#keys.encryptData(encodeContent(content));
    return encrypted && { ...(to && { to }), encrypted };
  }

  /** Delivers a packet. Unencrypted packets of participants are dropped, because the server could have written them. */
  open(packet: DataPacket, deliver: (packet: DataPacket) => void): void {
    const { from = "", encrypted, user } = packet;
    if (encrypted) {
      const opened = Promise.resolve(this.#opened.get(from)).then(() => this.#decrypt(from, encrypted, deliver));
      this.#opened.set(from, opened);
    } else if (user?.topic === KEY_TOPIC) this.onKeyMessage(from, decoder.decode(user.payload));
    else if (from !== "") this.#report(from, "not_encrypted");
    else deliver(packet);
  }

  participantLeft(identity: string): void {
    this.#opened.delete(identity);
    for (const reason of ["not_encrypted", "undecryptable"]) this.#unread.delete(`${identity} ${reason}`);
  }

  async #decrypt(from: string, encrypted: EncryptedContent, deliver: (packet: DataPacket) => void): Promise<void> {
    const plain = await this.#keys.decryptData(from, encrypted);
    const content = plain && decodeContent(plain);
    if (content) deliver({ ...content, from });
    else this.#report(from, "undecryptable");
  }

  #report(identity: string, reason: UnreadableReason): void {
    const name = `${identity} ${reason}`;
    const { messages, reportedAt } = this.#unread.get(name) ?? { messages: 0, reportedAt: Number.NEGATIVE_INFINITY };
    const isDue = performance.now() - reportedAt >= REPORT_EVERY_MS;
    if (isDue) this.onUnreadable(identity, reason, messages + 1);
    this.#unread.set(
      name,
      isDue ? { messages: 0, reportedAt: performance.now() } : { messages: messages + 1, reportedAt },
    );
  }
}
