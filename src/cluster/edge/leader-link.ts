import type { Log } from "../../kernel/log.ts";
import { BUNDLES_QUERY, bundled, isBundle, unbundled } from "./bundles.ts";
import { EDGE_PATH } from "./carried-client.ts";
import { decodeLeaderFrame, type EdgeFrame, encodeEdgeFrame, type LeaderFrame } from "./frames.ts";
import { Gathering } from "./gathering.ts";

const AGAIN_MS = 100;
const OPEN_WITHIN_MS = 2_000;
const PING_EVERY_MS = 1_000;
/** A machine that is gone, or a network that swallows everything, says nothing; nor does it say that it is over. */
const SILENCE_MS = 5_000;

export type LeaderLinkDeps = {
  credential: string;
  /** The address of whoever leads; null when nobody is known to. */
  leader: () => Promise<string | null>;
  log: Log;
  onOpen: () => void;
  onFrame: (frame: LeaderFrame) => void;
  onLost: () => void;
};

/** What the runtime's socket can do besides what a page's can. */
type LeaderSocket = WebSocket & {
  ping(): void;
  terminate(): void;
  addEventListener(type: "pong", listener: () => void): void;
};

/** The one connection of an edge to whoever leads: made, kept, and made again with the next one. */
export class LeaderLink {
  #socket: LeaderSocket | null = null;
  #leader: string | null = null;
  #opened = Promise.withResolvers<void>();
  #silence = new AbortController();
  #stopped = false;
  /** Said in this turn. */
  readonly #said: string[] = [];
  #takesBundles = false;
  readonly #living: Promise<void>;

  constructor(private readonly deps: LeaderLinkDeps) {
    this.#living = this.#live();
  }

  get leader(): string | null {
    return this.#socket === null ? null : this.#leader;
  }

  /** Aborted when the leader is out of reach without having said so: whoever waits for its answer waits in vain. */
  get silence(): AbortSignal {
    return this.#silence.signal;
  }

  /** The leader's address once there is one, or null after so long. */
  async reached(withinMs: number): Promise<string | null> {
    if (this.leader !== null) return this.leader;
    await Promise.race([this.#opened.promise, Bun.sleep(withinMs)]);
    return this.leader;
  }

  /** False when there is nobody to say it to. */
  say(frame: EdgeFrame): boolean {
    if (this.#socket?.readyState !== WebSocket.OPEN) return false;
    const encoded = encodeEdgeFrame(frame);
    // A request is more work than most of what clients say: of those the leader takes a few at a time.
    if (!this.#takesBundles || frame.type === "open") {
      this.#sendSaid();
      this.#socket.send(encoded);
    } else if (this.#said.push(encoded) === 1) setImmediate(this.#sendSaid);
    return true;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#socket?.close(1001);
    await this.#living;
  }

  readonly #sendSaid = (): void => {
    const said = this.#said.splice(0);
    for (let sent = 0; sent < said.length; ) {
      const { text, next } = bundled(said, sent);
      this.#socket?.send(text);
      sent = next;
    }
  };

  async #live(): Promise<void> {
    while (!this.#stopped) {
      const leader = await this.deps.leader().catch(() => null);
      if (leader !== null) await this.#talkTo(leader);
      await Bun.sleep(AGAIN_MS);
    }
  }

  /** Until the connection ends, or somebody else leads. */
  async #talkTo(leader: string): Promise<void> {
    const { credential, log, onOpen, onFrame, onLost } = this.deps;
    const address = `${leader.replace(/^http/, "ws")}${EDGE_PATH}?${BUNDLES_QUERY}`;
    const socket = new WebSocket(address, {
      headers: { authorization: `Bearer ${credential}` },
    } as never) as LeaderSocket;
    const gathering = new Gathering((text) => {
      for (const encoded of unbundled(text)) onFrame(decodeLeaderFrame(encoded));
    });
    const ended = Promise.withResolvers<void>();
    // At once, and not after a goodbye that nobody may be there to answer.
    const end = () => socket.terminate();
    const late = setTimeout(end, OPEN_WITHIN_MS);
    const watch = setInterval(async () => {
      const now = await this.deps.leader().catch(() => leader);
      if (now !== null && now !== leader) end();
    }, 500);
    let heardAt = performance.now();
    const heard = () => {
      heardAt = performance.now();
    };
    const beat = setInterval(() => {
      if (performance.now() - heardAt > SILENCE_MS) {
        end();
        this.#silence.abort();
        this.#silence = new AbortController();
      } else if (socket.readyState === WebSocket.OPEN) socket.ping();
    }, PING_EVERY_MS);
    socket.addEventListener("open", () => {
      clearTimeout(late);
      this.#socket = socket;
      this.#leader = leader;
      log.info({ leader }, "this edge is connected to the leader");
      onOpen();
      this.#opened.resolve();
    });
    socket.addEventListener("pong", heard);
    socket.addEventListener("message", ({ data }) => {
      heard();
      const text = String(data);
      if (isBundle(text)) this.#takesBundles = true;
      gathering.add(text);
    });
    socket.addEventListener("error", () => {});
    socket.addEventListener("close", () => {
      clearTimeout(late);
      gathering.takeAll();
      ended.resolve();
    });
    await ended.promise;
    clearInterval(watch);
    clearInterval(beat);
    if (this.#socket !== socket) return;
    this.#socket = null;
    this.#said.length = 0;
    this.#takesBundles = false;
    this.#opened = Promise.withResolvers();
    onLost();
    if (!this.#stopped) log.warn({ leader }, "the connection to the leader is lost");
  }
}
