/** A data message in the two formats that clients read, each serialized when first needed. */
import type { DataChannelDelivery } from "../../protocol/signaling.ts";
import { addSender, type DataPacket, type Sender, writeUserPacket } from "./livekit-data-packet.ts";

/** JSON frames for Stoa clients, protobuf packets for LiveKit clients. */
export type DataDialect = "frames" | "packets";

export class DataMessage {
  /** For Stoa clients; null when the payload is not text. */
  readonly delivery: DataChannelDelivery | null;
  readonly size: number;
  readonly to: ReadonlySet<string> | null;
  readonly #makePacket: () => Buffer;
  #packet: Buffer | null = null;
  #text: string | null = null;

  private constructor(
    delivery: DataChannelDelivery | null,
    size: number,
    to: readonly string[] | undefined,
    makePacket: () => Buffer,
  ) {
    this.delivery = delivery;
    this.size = size;
    this.to = to && to.length > 0 ? new Set(to) : null;
    this.#makePacket = makePacket;
  }

  static ofFrame(from: Sender | null, { topic, to, payload }: { topic?: string; to?: string[]; payload: string }) {
    const delivery = { from: from?.identity ?? null, ...(topic === undefined ? {} : { topic }), payload };
    return new DataMessage(delivery, payload.length, to, () => writeUserPacket(from, payload, topic));
  }

  static ofPacket(from: Sender, data: Buffer, packet: DataPacket) {
    const payload = packet.user && textOf(packet.user.payload);
    const topic = packet.user?.topic ?? null;
    const delivery =
      payload === null ? null : { from: from.identity, ...(topic === null || topic === "" ? {} : { topic }), payload };
    return new DataMessage(delivery, data.length, packet.destinations, () => addSender(data, packet, from));
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

/** Stoa clients send and receive text; other bytes are delivered to LiveKit clients only. */
function textOf(payload: Buffer): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(payload);
  } catch {
    return null;
  }
}
