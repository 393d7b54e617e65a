import type { Server, ServerWebSocket } from "bun";
import { REPEAT_PROTOCOL } from "../../protocol/again.ts";
import { forwardedHeaders } from "./forwarded-requests.ts";
import type { LeaderFrame, ProxyFrame, RefusedUpgrade, UpgradeRequest } from "./frames.ts";

/** Larger than the largest frame of any protocol, including its encoding. */
const MAX_MESSAGE_BYTES = 700 * 1024;
/** The leader is notified of a slow client when this much is buffered for it. */
const REPORTED_BUFFER_BYTES = 64 * 1024;
const REPORT_BUFFERS_EVERY_MS = 250;
const SERVICE_RESTART = 1012;
const ABNORMAL_CLOSURE = 1006;

type Decision = { kind: "accept"; headers: Record<string, string> } | { kind: "refuse"; refusal: RefusedUpgrade };

export type ProxySocket = {
  id: number;
  /** The upgrade request that the client sent. */
  upgradeRequest: UpgradeRequest;
  address: string;
  /** The client interprets a second greeting as a change of the leader. */
  survivesTakeOver: boolean;
  isKnownToLeader: boolean;
  topics: Set<string>;
  reportedBytes: number;
};

type OpenSocket = ServerWebSocket<ProxySocket>;

type ProxySocketsDeps = {
  send: (frame: ProxyFrame) => boolean;
  /** Authenticates this proxy to the current leader; null without one. */
  token: () => string | null;
  server: () => Server<ProxySocket>;
};

/**
 * The WebSockets of this proxy's clients. The leader makes all decisions about them; broadcasts are fanned out here.
 */
export class ProxySockets {
  readonly #open = new Map<number, OpenSocket>();
  readonly #pendingUpgrades = new Map<number, (decision: Decision | null) => void>();
  /** The leader's frames for a socket that it accepted and that Bun has not opened yet. */
  readonly #earlyFrames = new Map<number, LeaderFrame[]>();
  #lastId = 0;
  readonly #timer = setInterval(() => this.#reportBuffers(), REPORT_BUFFERS_EVERY_MS);

  constructor(private readonly deps: ProxySocketsDeps) {}

  get count(): number {
    return this.#open.size;
  }

  /** Undefined when the request became a WebSocket, null when no leader decided in time. */
  async upgrade(request: Request, address: string, withinMs: number): Promise<Response | undefined | null> {
    const { send, server } = this.deps;
    const id = ++this.#lastId;
    const upgradeRequest: UpgradeRequest = { url: request.url, headers: [...request.headers] };
    const decided = new Promise<Decision | null>((resolve) => this.#pendingUpgrades.set(id, resolve));
    if (!this.#announce(id, upgradeRequest, address)) this.#decide(id, null);
    const timeout = setTimeout(() => this.#decide(id, null), withinMs);
    const decision = await decided;
    clearTimeout(timeout);
    if (decision === null) return null;
    if (decision.kind === "refuse") {
      const { status, headers, body } = decision.refusal;
      return new Response(body, { status, headers });
    }
    const offered = request.headers.get("sec-websocket-protocol") ?? "";
    const survivesTakeOver = offered.split(",").some((protocol) => protocol.trim() === REPEAT_PROTOCOL);
    const data: ProxySocket = {
      id,
      upgradeRequest,
      address,
      survivesTakeOver,
      isKnownToLeader: true,
      topics: new Set(),
      reportedBytes: 0,
    };
    if (server().upgrade(request, { data, headers: decision.headers })) return undefined;
    this.#earlyFrames.delete(id);
    send({ type: "closed", id, code: ABNORMAL_CLOSURE });
    return new Response("connect to this address with a WebSocket", { status: 426 });
  }

  opened(ws: OpenSocket): void {
    this.#open.set(ws.data.id, ws);
    for (const frame of this.#earlyFrames.get(ws.data.id) ?? []) this.#apply(ws, frame);
    this.#earlyFrames.delete(ws.data.id);
  }

  message(ws: OpenSocket, message: string | Buffer): void {
    const { id, isKnownToLeader } = ws.data;
    // A client that waits for the next leader repeats its frames after the next greeting.
    if (!isKnownToLeader) return;
    const size = Buffer.byteLength(message);
    if (size > MAX_MESSAGE_BYTES) this.deps.send({ type: "oversized", id, size });
    else if (typeof message === "string") this.deps.send({ type: "text", id, text: message });
    else this.deps.send({ type: "bytes", id, data: message });
  }

  pong(ws: OpenSocket): void {
    this.deps.send({ type: "pong", id: ws.data.id });
  }

  closed(ws: OpenSocket, code: number): void {
    const { id, isKnownToLeader } = ws.data;
    this.#open.delete(id);
    if (isKnownToLeader) this.deps.send({ type: "closed", id, code });
  }

  receive(frame: LeaderFrame): void {
    if (frame.type === "publish") return void this.deps.server().publish(frame.topic, frame.text);
    const { id } = frame;
    const ws = this.#open.get(id);
    if (frame.type === "accept") {
      if (ws !== undefined) return;
      // The client left before the leader decided, and the leader has to remove the socket that it created.
      if (!this.#pendingUpgrades.has(id)) {
        return void this.deps.send({ type: "closed", id, code: ABNORMAL_CLOSURE });
      }
      this.#earlyFrames.set(id, []);
      this.#decide(id, { kind: "accept", headers: frame.headers });
      return;
    }
    if (frame.type === "refuse") {
      // The next leader rejected a socket that was open. Its client reconnects and gets the reason.
      if (ws !== undefined) ws.close(SERVICE_RESTART, "come again");
      this.#decide(id, { kind: "refuse", refusal: frame.refusal });
      return;
    }
    if (ws !== undefined) this.#apply(ws, frame);
    else this.#earlyFrames.get(id)?.push(frame);
  }

  /** A new leader knows none of the sockets that survived the take-over. */
  announceAll(): void {
    for (const ws of this.#open.values()) {
      ws.data.isKnownToLeader = true;
      this.#announce(ws.data.id, ws.data.upgradeRequest, ws.data.address);
    }
  }

  #announce(id: number, { url, headers }: UpgradeRequest, address: string): boolean {
    const { send, token } = this.deps;
    const upgradeRequest = { url, headers: forwardedHeaders(headers, address, token() ?? "") };
    return send({ type: "open", id, upgradeRequest });
  }

  leaderLost(): void {
    for (const id of [...this.#pendingUpgrades.keys()]) this.#decide(id, null);
    this.#earlyFrames.clear();
    for (const ws of [...this.#open.values()]) this.#end(ws, SERVICE_RESTART, "another server leads");
  }

  close(): void {
    clearInterval(this.#timer);
    for (const ws of this.#open.values()) ws.close(SERVICE_RESTART, "restarting");
  }

  #apply(ws: OpenSocket, frame: LeaderFrame): void {
    switch (frame.type) {
      case "text":
        ws.send(frame.text);
        break;
      case "bytes":
        ws.send(frame.data);
        break;
      case "ping":
        ws.ping();
        break;
      case "subscribe":
        ws.data.topics.add(frame.topic);
        ws.subscribe(frame.topic);
        break;
      case "unsubscribe":
        ws.data.topics.delete(frame.topic);
        ws.unsubscribe(frame.topic);
        break;
      case "close":
        this.#end(ws, frame.code, frame.reason);
        break;
      default:
        return;
    }
  }

  /** A socket that survives a take-over stays open and waits for the next leader. */
  #end(ws: OpenSocket, code: number, reason: string): void {
    ws.data.isKnownToLeader = false;
    if (code === SERVICE_RESTART && ws.data.survivesTakeOver) for (const topic of ws.data.topics) ws.unsubscribe(topic);
    else ws.close(code, reason);
    ws.data.topics.clear();
  }

  #decide(id: number, decision: Decision | null): void {
    this.#pendingUpgrades.get(id)?.(decision);
    this.#pendingUpgrades.delete(id);
  }

  #reportBuffers(): void {
    for (const ws of this.#open.values()) {
      const { data } = ws;
      const buffered = ws.getBufferedAmount();
      const size = buffered >= REPORTED_BUFFER_BYTES ? buffered : 0;
      if (size === data.reportedBytes) continue;
      data.reportedBytes = size;
      this.deps.send({ type: "buffered", id: data.id, size });
    }
  }
}
