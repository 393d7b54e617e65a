/** A client of the RTC socket without a browser: it joins, sends offers, resumes and rejoins like the SDK. */
import { inflateRawSync } from "node:zlib";
import type { NegotiateAnswer } from "../protocol/media-node.ts";
import type { ErrorFrame, JoinAck, OfferAck, Push, Roster } from "../protocol/signaling.ts";
import { packSdp } from "../sfu/wire/sdp/packed.ts";
import { deferred } from "./deferred.ts";

type SignalingClientOptions = {
  /** The server's http(s) URL. */
  url: string;
  token: string;
  /** The name of the SDK in the server's connection record. */
  sdk?: string;
  roster?: Roster;
  /** The public key for the key agreement with the other participants. */
  publicKey?: string;
  /** Passed for runtimes without a WebSocket. */
  WebSocket?: typeof WebSocket;
  onPush?: (push: Push) => void;
  /** Called when the client waits in a lobby; without it, the join fails with `IN_LOBBY`. */
  onLobby?: (() => void) | undefined;
  onClose?: (code: number) => void;
};

export class RtcRefused extends Error {
  override readonly name = "RtcRefused";
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(`${code}: ${message}`);
  }
}

export class SignalingClient {
  readonly connectionId: string;
  ack: JoinAck | null = null;
  closeCode: number | null = null;
  #lastSeq = 0;
  #nextId = 1;
  readonly #options: SignalingClientOptions;
  readonly #socket: WebSocket;
  readonly #waiting = new Map<string, { resolve(frame: object): void; reject(error: Error): void }>();
  readonly #opened = deferred<void>();
  #wasOpen = false;

  constructor(options: SignalingClientOptions, connectionId = `load-${crypto.randomUUID()}`) {
    this.#options = options;
    this.connectionId = connectionId;
    const { url, token, WebSocket: Socket = WebSocket } = options;
    this.#socket = new Socket(`${url.replace(/^http/, "ws")}/v1/rtc`, [`token.${token}`]);
    this.#opened.promise.catch(() => {});
    this.#socket.onopen = () => {
      this.#wasOpen = true;
      this.#opened.resolve();
    };
    this.#socket.onmessage = ({ data }) => this.#received(JSON.parse(String(data)));
    this.#socket.onclose = ({ code }) => this.#closed(code);
  }

  async join(resume?: { sessionId: string; resumeToken: string; lastSeq: number }): Promise<JoinAck> {
    await this.#opened.promise;
    const { connectionId } = this;
    const { sdk = "stoa-load-test", roster, publicKey, onLobby } = this.#options;
    const fields = { connectionId, sdk, roster, publicKey, ...(resume && { resume }) };
    const join = () => this.request<JoinAck>("room.join", fields);
    const ack = await join().catch(async (error: Error) => {
      if (!onLobby || !(error instanceof RtcRefused) || error.code !== "IN_LOBBY") throw error;
      onLobby();
      await this.#expect("lobby.admitted");
      return join();
    });
    this.ack = ack;
    this.#lastSeq = ack.seq;
    return ack;
  }

  /** The parameters with which another connection resumes this session. */
  get resumption(): { sessionId: string; resumeToken: string; lastSeq: number } | undefined {
    if (!this.ack) return undefined;
    return { sessionId: this.ack.sessionId, resumeToken: this.ack.resumeToken, lastSeq: this.#lastSeq };
  }

  /** Has the signature of a media node's `negotiate`, so that an `RtcPeer` can use it. */
  readonly negotiate = async (offer: {
    sdp: string;
    publish?: unknown;
    subscribe?: unknown;
  }): Promise<NegotiateAnswer> => {
    const { publish = [], subscribe = [] } = offer;
    const fields = { ...packSdp(offer.sdp), publish, subscribe };
    const { sdp, sdpDeflate, tracks } = await this.request<OfferAck>("media.offer", fields);
    return { sdp: sdp ?? inflateRawSync(Buffer.from(sdpDeflate ?? "", "base64")).toString(), tracks };
  };

  request<Ack>(type: string, fields: object = {}): Promise<Ack> {
    if (this.closeCode !== null)
      return Promise.reject(new RtcRefused("CLOSED", `the socket is closed (${this.closeCode})`));
    const id = String(this.#nextId++);
    const { promise, resolve, reject } = deferred<object>();
    this.#waiting.set(id, { resolve, reject });
    this.#socket.send(JSON.stringify({ type, id, ...fields }));
    return promise as Promise<Ack>;
  }

  /** Waits for a frame that answers no request. Fails if the socket closes, or if an error arrives that answers no request either. */
  #expect(type: string): Promise<object> {
    const { promise, resolve, reject } = deferred<object>();
    this.#waiting.set(type, { resolve, reject });
    return promise;
  }

  async leave(): Promise<void> {
    await this.request("room.leave").catch(() => {});
    this.#socket.close();
  }

  close(): void {
    this.#socket.close();
  }

  #received(frame: { type: string; id?: string; seq?: number }): void {
    if (frame.type === "ack" || frame.type === "error") {
      const waiting = this.#waiting.get(frame.id ?? "");
      this.#waiting.delete(frame.id ?? "");
      if (frame.type === "ack") waiting?.resolve(frame);
      else {
        const { code, message } = frame as ErrorFrame;
        const refused = new RtcRefused(code, message);
        // An error before the first request has no id.
        if (waiting) waiting.reject(refused);
        else this.#fail(refused);
      }
      return;
    }
    this.#waiting.get(frame.type)?.resolve(frame);
    this.#waiting.delete(frame.type);
    if (frame.seq === undefined) return;
    this.#lastSeq = frame.seq;
    this.#options.onPush?.(frame as Push);
  }

  #closed(code: number): void {
    this.closeCode = code;
    const reason = this.#wasOpen ? "the socket was closed" : `${this.#options.url} could not be reached`;
    this.#fail(new RtcRefused("CLOSED", `${reason} (${code})`));
    this.#options.onClose?.(code);
  }

  #fail(error: Error): void {
    this.#opened.reject(error);
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }
}
