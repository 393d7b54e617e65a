import type { DataChannelDelivery } from "../../../../src/protocol/signaling.ts";
import { pause } from "../../backoff.ts";
import type { RtcRequest } from "../../dialect.ts";
import { StoaError } from "../../errors.ts";
import type { DataCarrier, DataFrame, KeptData } from "./kept-data.ts";
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

/** The last of what we have sent that the server has had. */
type Heard = { heard: number };

const REOPEN_MS = 500;
const MAX_FRAME_BYTES = 65_536;
const MAX_SOCKET_BYTES = 8_192;
/** What may be lost with an earlier channel goes first; no longer, as there may be no channel any more. */
const CATCH_UP_MS = 15_000;
/** What had to wait leaves no faster than the server takes messages of one sender. */
const CATCH_UP_PACE_MS = 4;
/** So seldom the server is told what has come; it keeps that until then. */
const TELL_MS = 250;
/** Unless it is a lot: timers of a tab that nobody looks at are late. */
const TELL_CHARACTERS = 256 * 1024;

/**
 * Two data channels, opened by us; while one is not open the socket carries what is small enough. What is to arrive for
 * certain never takes the channel that loses things, and leaves in the order in which it was sent, whichever way it takes.
 */
export class DataChannels implements DataCarrier {
  #reliable: RTCDataChannel;
  #lossy: RTCDataChannel;
  /** What an earlier connection may have lost has left on this one. */
  readonly #caughtUp: Promise<void>;
  #telling: ReturnType<typeof setTimeout> | undefined;
  #untold = 0;

  constructor(
    readonly transport: Transport,
    readonly request: RtcRequest,
    /** Of this session, on whichever connections. */
    readonly kept: KeptData,
    readonly onMessage: (message: DataMessage) => void,
  ) {
    kept.carrier = this;
    this.#reliable = this.#open("reliable");
    this.#lossy = this.#open("lossy");
    this.#caughtUp = kept.unheard().length > 0 ? this.#opened(this.#reliable) : Promise.resolve();
    transport.ended.addEventListener("abort", () => clearTimeout(this.#telling), { once: true });
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
    const { kept } = this;
    kept.queued += 1;
    const left = kept.last.then(() => kept.carrier?.carry(frame));
    kept.last = left
      .catch(() => {})
      .then(() => {
        kept.queued -= 1;
      });
    return left;
  }

  async carry(frame: DataFrame): Promise<void> {
    const { kept, transport } = this;
    await this.#caughtUp;
    await kept.room(transport.ended);
    if (kept.isLate) await pause(CATCH_UP_PACE_MS, transport.ended);
    // Meanwhile the connection may have been replaced.
    if (kept.carrier && kept.carrier !== this) return kept.carrier.carry(frame);
    return this.#leave(this.#reliable, frame, kept);
  }

  async #leave(channel: RTCDataChannel, frame: DataFrame, kept: KeptData | null): Promise<void> {
    if (channel.readyState === "open") {
      const numbered = kept?.number(frame);
      const text = JSON.stringify(numbered ?? frame);
      if (new TextEncoder().encode(text).length > MAX_FRAME_BYTES) throw tooLarge(MAX_FRAME_BYTES);
      channel.send(text);
      if (numbered) kept?.keep(text, numbered.seq);
      return;
    }
    if (new TextEncoder().encode(frame.payload).length > MAX_SOCKET_BYTES) throw tooLarge(MAX_SOCKET_BYTES);
    await this.request("data.send", frame);
  }

  #open(label: "reliable" | "lossy"): RTCDataChannel {
    const { transport, kept } = this;
    const options =
      label === "lossy" ? { ordered: false, maxRetransmits: 0 } : { protocol: `numbered.${kept.lastSeq}` };
    const channel = transport.addChannel(label, options);
    channel.addEventListener("message", ({ data }) => this.#receive(channel, JSON.parse(String(data))));
    if (label === "reliable")
      channel.addEventListener("open", () => {
        for (const text of kept.unheard()) channel.send(text);
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

  #receive(channel: RTCDataChannel, frame: DataChannelDelivery | Heard): void {
    if ("heard" in frame) {
      this.kept.heard(frame.heard);
      return;
    }
    const { seq, ...message } = frame;
    if (seq !== undefined) {
      if (seq <= this.kept.lastSeq) return;
      this.kept.lastSeq = seq;
      this.#untold += frame.payload.length;
      this.#telling ??= setTimeout(() => this.#tell(channel), TELL_MS);
      if (this.#untold > TELL_CHARACTERS) this.#tell(channel);
    }
    this.onMessage(message);
  }

  #tell(channel: RTCDataChannel): void {
    clearTimeout(this.#telling);
    this.#telling = undefined;
    this.#untold = 0;
    if (channel.readyState === "open") channel.send(JSON.stringify({ heard: this.kept.lastSeq }));
  }
}

function tooLarge(limit: number): StoaError {
  return new StoaError("PAYLOAD_TOO_LARGE", "invalid", `A message may have at most ${limit} bytes right now.`);
}
