import type { RtcRequest } from "../dialect.ts";
import { StoaError } from "../errors.ts";
import type { Transport } from "./transport.ts";

/** How `room.sendData` sends. */
export type DataOptions = {
  /** `false` may lose messages, but a late one never holds up the next. */
  reliable?: boolean;
  /** What it is about, for whoever receives it. */
  topic?: string;
  /** Identities; everyone when omitted. */
  to?: string[];
};

/** Text that somebody in the room has sent; `from` is null when it was the server. */
export type DataMessage = { from: string | null; topic?: string; payload: string };

const MAX_FRAME_BYTES = 65_536;
const MAX_SOCKET_BYTES = 8_192;

/** Two data channels, opened by us; while they are not open the socket carries what is small enough. */
export class DataChannels {
  readonly #reliable: RTCDataChannel;
  readonly #lossy: RTCDataChannel;

  constructor(
    transport: Transport,
    readonly request: RtcRequest,
    onMessage: (message: DataMessage) => void,
  ) {
    this.#reliable = transport.addChannel("reliable");
    this.#lossy = transport.addChannel("lossy", { ordered: false, maxRetransmits: 0 });
    for (const channel of [this.#reliable, this.#lossy]) {
      channel.addEventListener("message", ({ data }) => onMessage(JSON.parse(String(data)) as DataMessage));
    }
  }

  async send(payload: string, { reliable = true, topic, to }: DataOptions): Promise<void> {
    const channel = reliable ? this.#reliable : this.#lossy;
    const frame = { ...(topic === undefined ? {} : { topic }), ...(to === undefined ? {} : { to }), payload };
    const text = JSON.stringify(frame);
    const bytes = new TextEncoder().encode(text).length;
    if (channel.readyState === "open") {
      if (bytes > MAX_FRAME_BYTES) throw tooLarge(MAX_FRAME_BYTES);
      channel.send(text);
      return;
    }
    if (new TextEncoder().encode(payload).length > MAX_SOCKET_BYTES) throw tooLarge(MAX_SOCKET_BYTES);
    await this.request("data.send", frame);
  }
}

function tooLarge(limit: number): StoaError {
  return new StoaError("PAYLOAD_TOO_LARGE", "invalid", `A message may have at most ${limit} bytes right now.`);
}
