import { pause } from "../backoff.ts";
import type { RtcRequest } from "../dialect.ts";
import { StoaError } from "../errors.ts";
import type { DataFrame, KeptData } from "./kept-data.ts";
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

const REOPEN_MS = 500;
const MAX_FRAME_BYTES = 65_536;
const MAX_SOCKET_BYTES = 8_192;
/** What may be lost with an earlier channel goes first; no longer, as there may be no channel any more. */
const CATCH_UP_MS = 15_000;

/**
 * Two data channels, opened by us; while one is not open the socket carries what is small enough. What is to arrive for
 * certain never takes the channel that loses things, and leaves in the order in which it was sent, whichever way it takes.
 */
export class DataChannels {
  #reliable: RTCDataChannel;
  #lossy: RTCDataChannel;
  /** When the last reliable message has left. */
  #last: Promise<void> = Promise.resolve();

  constructor(
    readonly transport: Transport,
    readonly request: RtcRequest,
    /** Of this session, on whichever connections. */
    readonly kept: KeptData,
    readonly onMessage: (message: DataMessage) => void,
  ) {
    this.#reliable = this.#open("reliable");
    this.#lossy = this.#open("lossy");
    if (kept.lately().length > 0) this.#last = this.#opened(this.#reliable);
  }

  /** Resolves when the channel is open, or will not be in time. */
  #opened(channel: RTCDataChannel): Promise<void> {
    const late = new AbortController();
    const settled = () => late.abort();
    channel.addEventListener("open", settled, { once: true });
    this.transport.ended.addEventListener("abort", settled, { once: true });
    return pause(CATCH_UP_MS, late.signal);
  }

  async send(payload: string, { reliable = true, topic, to }: DataOptions): Promise<void> {
    const frame = { ...(topic === undefined ? {} : { topic }), ...(to === undefined ? {} : { to }), payload };
    if (!reliable) return this.#leave(this.#lossy, frame, null);
    const left = this.#last.then(() => this.#leave(this.#reliable, frame, this.kept));
    this.#last = left.catch(() => {});
    return left;
  }

  async #leave(channel: RTCDataChannel, frame: DataFrame, kept: KeptData | null): Promise<void> {
    if (channel.readyState === "open") {
      const text = JSON.stringify(kept?.number(frame) ?? frame);
      if (new TextEncoder().encode(text).length > MAX_FRAME_BYTES) throw tooLarge(MAX_FRAME_BYTES);
      channel.send(text);
      kept?.keep(text);
      return;
    }
    if (new TextEncoder().encode(frame.payload).length > MAX_SOCKET_BYTES) throw tooLarge(MAX_SOCKET_BYTES);
    await this.request("data.send", frame);
  }

  #open(label: "reliable" | "lossy"): RTCDataChannel {
    const { transport } = this;
    const channel = transport.addChannel(label, label === "lossy" ? { ordered: false, maxRetransmits: 0 } : {});
    channel.addEventListener("message", ({ data }) => this.onMessage(JSON.parse(String(data)) as DataMessage));
    if (label === "reliable")
      channel.addEventListener("open", () => {
        for (const text of this.kept.lately()) channel.send(text);
      });
    // The server closes a channel whose reader is too far behind; another one may be opened.
    channel.addEventListener("close", async () => {
      await pause(REOPEN_MS, transport.ended);
      if (transport.closed) return;
      if (label === "reliable") this.#reliable = this.#open(label);
      else this.#lossy = this.#open(label);
    });
    return channel;
  }
}

function tooLarge(limit: number): StoaError {
  return new StoaError("PAYLOAD_TOO_LARGE", "invalid", `A message may have at most ${limit} bytes right now.`);
}
