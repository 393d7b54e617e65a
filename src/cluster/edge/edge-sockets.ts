import type { Server, ServerWebSocket } from "bun";
import { AGAIN_PROTOCOL } from "../../protocol/again.ts";
import { carriedHeaders } from "./carried-client.ts";
import type { Arrival, EdgeFrame, LeaderFrame, Refusal } from "./frames.ts";

/** What a protocol may take at most, with room for what is put around it. */
const MOST_BYTES = 700 * 1024;
/** From here on the leader is told how much a reader has not taken. */
const WORTH_TELLING_BYTES = 64 * 1024;
const LOOK_EVERY_MS = 250;
const SERVICE_RESTART = 1012;

type Decision = { kind: "accept"; headers: Record<string, string> } | { kind: "refuse"; refusal: Refusal };

/** `none`: the leader knows nothing of it any more, or not yet. */
export type EdgeSocket = {
  id: number;
  arrival: Arrival;
  /** Its client takes a second greeting as word that another server answers now. */
  canStay: boolean;
  leader: "known" | "none";
  topics: Set<string>;
  toldBuffered: number;
};

type Live = ServerWebSocket<EdgeSocket>;

export type EdgeSocketsDeps = {
  say: (frame: EdgeFrame) => boolean;
  credential: string;
  server: () => Server<EdgeSocket>;
};

/** The sockets of clients at this edge. The leader decides everything about them; broadcasts are fanned out here. */
export class EdgeSockets {
  readonly #live = new Map<number, Live>();
  readonly #deciding = new Map<number, (decision: Decision | null) => void>();
  /** What the leader says of one socket may come before the runtime has opened it. */
  readonly #early = new Map<number, LeaderFrame[]>();
  #lastId = 0;
  readonly #timer = setInterval(() => this.#tellBuffered(), LOOK_EVERY_MS);

  constructor(private readonly deps: EdgeSocketsDeps) {}

  get count(): number {
    return this.#live.size;
  }

  /** The answer to a request for a socket; undefined when it became one, null when nobody decided. */
  async ask(request: Request, address: string): Promise<Response | undefined | null> {
    const { say, credential, server } = this.deps;
    const id = ++this.#lastId;
    const arrival = { url: request.url, headers: carriedHeaders(request, address, credential) };
    const decided = new Promise<Decision | null>((resolve) => this.#deciding.set(id, resolve));
    if (!say({ type: "open", id, arrival })) this.#decide(id, null);
    const decision = await decided;
    if (decision === null) return null;
    if (decision.kind === "refuse") {
      const { status, headers, body } = decision.refusal;
      return new Response(body, { status, headers });
    }
    const offered = request.headers.get("sec-websocket-protocol") ?? "";
    const canStay = offered.split(",").some((protocol) => protocol.trim() === AGAIN_PROTOCOL);
    const data: EdgeSocket = { id, arrival, canStay, leader: "known", topics: new Set(), toldBuffered: 0 };
    if (server().upgrade(request, { data, headers: decision.headers })) return undefined;
    this.#early.delete(id);
    say({ type: "closed", id, code: 1006 });
    return new Response("connect to this address with a WebSocket", { status: 426 });
  }

  opened(ws: Live): void {
    this.#live.set(ws.data.id, ws);
    for (const frame of this.#early.get(ws.data.id) ?? []) this.#carry(ws, frame);
    this.#early.delete(ws.data.id);
  }

  message(ws: Live, message: string | Buffer): void {
    const { id, leader } = ws.data;
    // Nobody would know whose it is. A client that stays says it again after the next greeting.
    if (leader === "none") return;
    const size = Buffer.byteLength(message);
    if (size > MOST_BYTES) this.deps.say({ type: "huge", id, size });
    else if (typeof message === "string") this.deps.say({ type: "text", id, text: message });
    else this.deps.say({ type: "bytes", id, data: message });
  }

  pong(ws: Live): void {
    this.deps.say({ type: "pong", id: ws.data.id });
  }

  closed(ws: Live, code: number): void {
    const { id, leader } = ws.data;
    this.#live.delete(id);
    if (leader === "known") this.deps.say({ type: "closed", id, code });
  }

  receive(frame: LeaderFrame): void {
    if (frame.type === "publish") return void this.deps.server().publish(frame.topic, frame.text);
    const { id } = frame;
    const ws = this.#live.get(id);
    if (frame.type === "accept") {
      if (ws !== undefined) return;
      // Its client went while the leader was being told of it: nobody else would end what was made there.
      if (!this.#deciding.has(id)) return void this.deps.say({ type: "closed", id, code: 1006 });
      this.#early.set(id, []);
      this.#decide(id, { kind: "accept", headers: frame.headers });
      return;
    }
    if (frame.type === "refuse") {
      // One that was open already, and that the next leader does not want: its client finds out by coming anew.
      if (ws !== undefined) ws.close(SERVICE_RESTART, "come again");
      this.#decide(id, { kind: "refuse", refusal: frame.refusal });
      return;
    }
    if (ws !== undefined) this.#carry(ws, frame);
    else this.#early.get(id)?.push(frame);
  }

  /** Whoever leads now knows nobody here: those who can stay are introduced. */
  introduce(): void {
    for (const ws of this.#live.values()) {
      ws.data.leader = "known";
      this.deps.say({ type: "open", id: ws.data.id, arrival: ws.data.arrival });
    }
  }

  /** The leader is gone, and with it what it knew. */
  orphan(): void {
    for (const id of [...this.#deciding.keys()]) this.#decide(id, null);
    this.#early.clear();
    for (const ws of [...this.#live.values()]) this.#end(ws, SERVICE_RESTART, "another server leads");
  }

  close(): void {
    clearInterval(this.#timer);
    for (const ws of this.#live.values()) ws.close(SERVICE_RESTART, "restarting");
  }

  #carry(ws: Live, frame: LeaderFrame): void {
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

  /** A server that goes ends the sockets of those who cannot stay; the others wait for the next one. */
  #end(ws: Live, code: number, reason: string): void {
    ws.data.leader = "none";
    if (code === SERVICE_RESTART && ws.data.canStay) for (const topic of ws.data.topics) ws.unsubscribe(topic);
    else ws.close(code, reason);
    ws.data.topics.clear();
  }

  #decide(id: number, decision: Decision | null): void {
    this.#deciding.get(id)?.(decision);
    this.#deciding.delete(id);
  }

  #tellBuffered(): void {
    for (const ws of this.#live.values()) {
      const { data } = ws;
      const size = ws.getBufferedAmount();
      const told = size >= WORTH_TELLING_BYTES ? size : 0;
      if (told === data.toldBuffered) continue;
      data.toldBuffered = told;
      this.deps.say({ type: "buffered", id: data.id, size: told });
    }
  }
}
