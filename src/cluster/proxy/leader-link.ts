import type { Log } from "../../kernel/log.ts";
import { type Authorization, type MemberAuthentication, MemberRefused } from "../member-authentication.ts";
import {
  BATCHES_QUERY,
  decodeLeaderFrame,
  encodeProxyFrame,
  framesOf,
  isBatch,
  type LeaderFrame,
  nextBatch,
  PROXY_PATH,
  type ProxyFrame,
} from "./frames.ts";

const RECONNECT_MS = 100;
const OPEN_TIMEOUT_MS = 2_000;
const LEADER_CHECK_MS = 500;
const PING_EVERY_MS = 500;
/**
 * A machine that has failed, or a network that drops every packet, does not close the connection. The leader's lease is
 * longer.
 */
const SILENCE_MS = 4_000;
/** A leader that hands over closes its sockets first and then finishes its requests. */
const HAND_OVER_MS = 1_000;

type LeaderLinkDeps = {
  authentication: MemberAuthentication;
  leader: () => Promise<string | null>;
  log: Log;
  onOpen: () => void;
  onFrame: (frame: LeaderFrame) => void;
  onLost: () => void;
};

/** Members of Bun's WebSocket that the standard does not have. */
type LeaderSocket = WebSocket & {
  ping(): void;
  terminate(): void;
  addEventListener(type: "pong", listener: () => void): void;
};

/**
 * The leader that this edge is connected to. `lost` is aborted when the leader will not respond any more; `token`
 * authenticates the requests that are forwarded to the leader.
 */
type ConnectedLeader = { url: string; lost: AbortSignal; token: string };

export class LeaderLink {
  #socket: LeaderSocket | null = null;
  #connected: ConnectedLeader | null = null;
  #opened = Promise.withResolvers<void>();
  #stopped = false;
  /** The leader whose failed authentication is already logged. */
  #refused: string | null = null;
  /** The frames to be sent at the end of this event-loop tick. */
  readonly #unsent: string[] = [];
  #takesBatches = false;
  readonly #running: Promise<void>;

  constructor(private readonly deps: LeaderLinkDeps) {
    this.#running = this.#run();
  }

  /** Null while no leader is connected. */
  get token(): string | null {
    return this.#connected?.token ?? null;
  }

  get leader(): string | null {
    return this.#connected?.url ?? null;
  }

  async waitForLeader(withinMs: number): Promise<ConnectedLeader | null> {
    if (this.#connected === null) await Promise.race([this.#opened.promise, Bun.sleep(withinMs)]);
    return this.#connected;
  }

  send(frame: ProxyFrame): boolean {
    if (this.#socket?.readyState !== WebSocket.OPEN) return false;
    const encoded = encodeProxyFrame(frame);
    // An upgrade is more work than most frames, so the leader reads upgrades one by one.
    if (!this.#takesBatches || frame.type === "open") {
      this.#flush();
      this.#socket.send(encoded);
    } else if (this.#unsent.push(encoded) === 1) setImmediate(this.#flush);
    return true;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#socket?.close(1001);
    await this.#running;
  }

  readonly #flush = (): void => {
    const unsent = this.#unsent.splice(0);
    for (let sent = 0; sent < unsent.length; ) {
      const { text, next } = nextBatch(unsent, sent);
      this.#socket?.send(text);
      sent = next;
    }
  };

  async #run(): Promise<void> {
    while (!this.#stopped) {
      const leader = await this.deps.leader().catch(() => null);
      if (leader !== null) await this.#stayConnected(leader);
      await Bun.sleep(RECONNECT_MS);
    }
  }

  /** Null when the leader does not respond or fails to authenticate. */
  async #authorize(leader: string): Promise<Authorization | null> {
    try {
      const authorization = await this.deps.authentication.authorize(leader, "GET", PROXY_PATH);
      this.#refused = null;
      return authorization;
    } catch (error) {
      if (error instanceof MemberRefused && this.#refused !== leader) {
        this.deps.log.error({ leader }, "cluster: leader failed to authenticate, not connecting to it");
        this.#refused = leader;
      }
      return null;
    }
  }

  /** Resolves when the connection ends or another server becomes the leader. */
  async #stayConnected(leader: string): Promise<void> {
    const { log, onOpen, onFrame, onLost } = this.deps;
    const authorization = await this.#authorize(leader);
    if (authorization === null) return;
    const { headers, linkToken: token } = authorization;
    const address = `${leader.replace(/^http/, "ws")}${PROXY_PATH}?${BATCHES_QUERY}`;
    const socket = new WebSocket(address, { headers } as never) as LeaderSocket;
    const coalescer = new WriteCoalescer((text) => {
      for (const encoded of framesOf(text)) onFrame(decodeLeaderFrame(encoded));
    });
    const ended = Promise.withResolvers<void>();
    const lost = new AbortController();
    // A closing handshake would wait for a peer that may have failed.
    const end = () => socket.terminate();
    const abandon = () => {
      end();
      lost.abort();
    };
    const openTimeout = setTimeout(end, OPEN_TIMEOUT_MS);
    const leaderCheck = setInterval(async () => {
      const current = await this.deps.leader().catch(() => leader);
      if (current !== null && current !== leader) abandon();
    }, LEADER_CHECK_MS);
    let heardAt = performance.now();
    const heard = () => {
      heardAt = performance.now();
    };
    const heartbeat = setInterval(() => {
      if (performance.now() - heardAt > SILENCE_MS) abandon();
      else if (socket.readyState === WebSocket.OPEN) socket.ping();
    }, PING_EVERY_MS);
    socket.addEventListener("open", () => {
      clearTimeout(openTimeout);
      this.#socket = socket;
      this.#connected = { url: leader, lost: lost.signal, token };
      log.info({ leader }, "cluster: edge connected to the leader");
      onOpen();
      this.#opened.resolve();
    });
    socket.addEventListener("pong", heard);
    socket.addEventListener("message", ({ data }) => {
      heard();
      const text = String(data);
      if (isBatch(text)) this.#takesBatches = true;
      coalescer.add(text);
    });
    socket.addEventListener("error", () => {});
    socket.addEventListener("close", () => {
      clearTimeout(openTimeout);
      coalescer.flush();
      ended.resolve();
    });
    await ended.promise;
    clearInterval(leaderCheck);
    clearInterval(heartbeat);
    if (this.#socket !== socket) return;
    setTimeout(() => lost.abort(), HAND_OVER_MS);
    this.#socket = null;
    this.#connected = null;
    this.#unsent.length = 0;
    this.#takesBatches = false;
    this.#opened = Promise.withResolvers();
    onLost();
    if (!this.#stopped) log.warn({ leader }, "cluster: edge lost the connection to the leader");
  }
}

/** Messages are delayed by this share of the time that the last fan-out took. */
const WAIT_SHARE = 1 / 4;
const MAX_WAIT_MS = 8;
/** The minimum delay of a timer. */
const MIN_WAIT_MS = 1;

/**
 * One write to a socket costs as much as about ten messages within one write. While the fan-out is slow, messages from
 * the leader are therefore delayed a little and written together, in order. While it is fast, no message is delayed.
 */
export class WriteCoalescer {
  readonly #waiting: string[] = [];
  #fanOutMs = 0;
  #timer: ReturnType<typeof setTimeout> | null = null;

  constructor(
    private readonly fanOut: (text: string) => void,
    private readonly clock: () => number = () => performance.now(),
  ) {}

  add(text: string): void {
    this.#waiting.push(text);
    if (this.#timer !== null) return;
    const waitMs = Math.min(this.#fanOutMs * WAIT_SHARE, MAX_WAIT_MS);
    if (waitMs < MIN_WAIT_MS) this.flush();
    else this.#timer = setTimeout(() => this.flush(), waitMs);
  }

  flush(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    const startedAt = this.clock();
    for (const text of this.#waiting.splice(0)) this.fanOut(text);
    // Bun writes to the sockets at the end of an event-loop tick, and after a timer that is the next tick.
    setImmediate(() =>
      setImmediate(() => {
        this.#fanOutMs = this.clock() - startedAt;
      }),
    );
  }
}
