import type { Log } from "../../kernel/log.ts";
import { EDGE_PATH } from "./carried-client.ts";
import { decodeLeaderFrame, type EdgeFrame, encodeEdgeFrame, type LeaderFrame } from "./frames.ts";

const AGAIN_MS = 100;
const OPEN_WITHIN_MS = 2_000;

export type LeaderLinkDeps = {
  credential: string;
  /** The address of whoever leads; null when nobody is known to. */
  leader: () => Promise<string | null>;
  log: Log;
  onOpen: () => void;
  onFrame: (frame: LeaderFrame) => void;
  onLost: () => void;
};

/** The one connection of an edge to whoever leads: made, kept, and made again with the next one. */
export class LeaderLink {
  #socket: WebSocket | null = null;
  #leader: string | null = null;
  #opened = Promise.withResolvers<void>();
  #stopped = false;
  readonly #living: Promise<void>;

  constructor(private readonly deps: LeaderLinkDeps) {
    this.#living = this.#live();
  }

  get leader(): string | null {
    return this.#socket === null ? null : this.#leader;
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
    this.#socket.send(encodeEdgeFrame(frame));
    return true;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#socket?.close(1001);
    await this.#living;
  }

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
    const address = `${leader.replace(/^http/, "ws")}${EDGE_PATH}`;
    const socket = new WebSocket(address, { headers: { authorization: `Bearer ${credential}` } } as never);
    const ended = Promise.withResolvers<void>();
    const late = setTimeout(() => socket.close(), OPEN_WITHIN_MS);
    const watch = setInterval(async () => {
      const now = await this.deps.leader().catch(() => leader);
      if (now !== null && now !== leader) socket.close(1001);
    }, 500);
    socket.addEventListener("open", () => {
      clearTimeout(late);
      this.#socket = socket;
      this.#leader = leader;
      log.info({ leader }, "this edge is connected to the leader");
      onOpen();
      this.#opened.resolve();
    });
    socket.addEventListener("message", ({ data }) => onFrame(decodeLeaderFrame(String(data))));
    socket.addEventListener("error", () => {});
    socket.addEventListener("close", () => {
      clearTimeout(late);
      ended.resolve();
    });
    await ended.promise;
    clearInterval(watch);
    if (this.#socket !== socket) return;
    this.#socket = null;
    this.#opened = Promise.withResolvers();
    onLost();
    if (!this.#stopped) log.warn({ leader }, "the connection to the leader is lost");
  }
}
