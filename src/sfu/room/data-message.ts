/** A data message in the two formats that clients read, each serialized when first needed. */
import { encodePacket } from "../../protocol/data/data-packet.ts";
import { BYTES, writeField } from "../../protocol/media/protobuf.ts";
import type { RelayedData } from "../../protocol/media/relay.ts";
import type { SendData } from "../../protocol/media-node.ts";
import type { DataChannelDelivery } from "../../protocol/signaling.ts";
import {
  type DataPacket,
  isStreamPart,
  isUser,
  readDataPacket,
  type Sender,
  textForAnother,
  userNonce,
  writeDataPacket,
} from "./livekit-data-packet.ts";

/** The fields of a `DataPacket` with the acknowledgement of a request and with its response. */
const ANSWERS: ReadonlySet<number> = new Set([11, 12]);

/** Protobuf packets, or JSON frames for older Stoa clients. */
export type DataDialect = "frames" | "packets";

export class DataMessage {
  /** The message as a JSON frame; null if the payload is not text. */
  readonly delivery: DataChannelDelivery | null;
  readonly size: number;
  readonly isStreamPart: boolean;
  /** Set if the message answers one of the server's own requests. */
  answer: { requestId: string; packet: Buffer } | null = null;
  /** Null for a message to all participants. */
  readonly #to: { identities: ReadonlySet<string>; participantIds: ReadonlySet<string> } | null;
  readonly #makePacket: () => Buffer;
  #packet: Buffer | null = null;
  #text: string | null = null;

  private constructor(
    delivery: DataChannelDelivery | null,
    size: number,
    to: { identities: readonly string[]; participantIds: readonly string[] },
    makePacket: () => Buffer,
    isPart = false,
  ) {
    this.isStreamPart = isPart;
    this.delivery = delivery;
    this.size = size;
    const { identities, participantIds } = to;
    const isForAll = identities.length === 0 && participantIds.length === 0;
    this.#to = isForAll ? null : { identities: new Set(identities), participantIds: new Set(participantIds) };
    this.#makePacket = makePacket;
  }

  static ofFrame(from: Sender | null, { topic, to, payload }: { topic?: string; to?: string[]; payload: string }) {
    const delivery = { from: from?.identity ?? null, ...(topic === undefined ? {} : { topic }), payload };
    const size = payload.length + charactersOf([topic ?? "", ...(to ?? [])]);
    return new DataMessage(delivery, size, { identities: to ?? [], participantIds: [] }, () => {
      const content = { payload: Buffer.from(payload), topic: topic ?? null, more: [] };
      return writeDataPacket(from, { content, destinations: [], sequence: 0, isLossy: false });
    });
  }

  /** Creates a message of bytes that a backend sends. */
  static ofBytes(
    bytes: Buffer,
    { topic, to, isLossy, nonce }: { topic?: string; to?: string[]; isLossy: boolean; nonce?: string },
  ) {
    const more = nonce === undefined ? [] : [userNonce(Buffer.from(nonce, "base64"))];
    const content = { payload: bytes, topic: topic ?? null, more };
    const packet = { content, destinations: to ?? [], destinationIds: [], sequence: 0, isLossy, namedSender: "" };
    return DataMessage.ofPacket(null, packet, bytes.length + charactersOf([topic ?? "", ...packet.destinations]));
  }

  /** `isAgent` if the sender may send text for another participant. */
  static ofPacket(from: Sender | null, packet: DataPacket, size: number, isAgent = false) {
    const other = isAgent && from ? textForAnother(packet, from.identity) : null;
    const message = other
      ? DataMessage.#read(from, { ...packet, content: other.content }, size, other.by)
      : DataMessage.#read(from, packet, size);
    const { content, destinations } = packet;
    const [requestId] = destinations;
    if (requestId !== undefined && !isUser(content) && ANSWERS.has(content.field))
      message.answer = { requestId, packet: Buffer.from(writeField(content.field, BYTES, content.body)) };
    return message;
  }

  /** Creates a request from the server, whose id takes the place of a sender. */
  static ofRequest(to: string, payload: string, { id, method, timeoutMs }: NonNullable<SendData["request"]>) {
    const request = encodePacket({ request: { id, method, payload, timeoutMs, version: 1 } });
    const content = readDataPacket(Buffer.from(request))?.content;
    if (!content) throw new Error("the request cannot be read");
    const packet = {
      content,
      destinations: [to],
      destinationIds: [],
      sequence: 0,
      isLossy: false,
      namedSender: "",
    };
    return DataMessage.#read({ identity: id, participantId: id }, packet, request.length);
  }

  static #read(from: Sender | null, packet: DataPacket, size: number, by?: string) {
    const { content, destinations, destinationIds } = packet;
    const payload = isUser(content) ? textOf(content.payload) : null;
    const topic = isUser(content) ? content.topic : null;
    const delivery =
      payload === null
        ? null
        : { from: from?.identity ?? null, ...(topic === null || topic === "" ? {} : { topic }), payload };
    const to = { identities: destinations, participantIds: destinationIds };
    return new DataMessage(delivery, size, to, () => writeDataPacket(from, packet, by), isStreamPart(content));
  }

  /** A message that was relayed by another worker. */
  static ofRelayed({ delivery, packet, size, isStreamPart, to }: RelayedData) {
    const makePacket = () => Buffer.from(packet, "base64");
    return new DataMessage(delivery, size, to ?? { identities: [], participantIds: [] }, makePacket, isStreamPart);
  }

  relayed(roomId: string, from: string | null, kind: RelayedData["kind"]): RelayedData {
    this.#packet ??= this.#makePacket();
    const { delivery, size, isStreamPart } = this;
    const to = this.#to && { identities: [...this.#to.identities], participantIds: [...this.#to.participantIds] };
    return { roomId, from, kind, delivery, packet: this.#packet.toString("base64"), size, isStreamPart, to };
  }

  isFor({ identity, participantId }: Sender): boolean {
    return this.#to === null || this.#to.identities.has(identity) || this.#to.participantIds.has(participantId);
  }

  in(dialect: DataDialect): string | Buffer | null {
    if (dialect === "packets") {
      this.#packet ??= this.#makePacket();
      return this.#packet;
    }
    if (!this.delivery) return null;
    this.#text ??= JSON.stringify(this.delivery);
    return this.#text;
  }
}

/** Names count towards the size of a message, because they are kept with it while it waits for a reader. */
const charactersOf = (names: readonly string[]): number => names.reduce((total, { length }) => total + length, 0);

/** Frames and the RTC socket carry only text, so other bytes are delivered in packets only. */
function textOf(payload: Buffer): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(payload);
  } catch {
    return null;
  }
}
