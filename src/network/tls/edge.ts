/** The edge thread as the main thread sees it: what it is told, how it is doing, and its return after a crash. */
import { workerUrl } from "../../kernel/assets.ts";
import type { Log } from "../../kernel/log.ts";
import type { InnerWay } from "../../kernel/net/inner-way.ts";
import { ClientTable } from "../../protocol/client-table.ts";
import { EndedIds } from "../turn/ended-ids.ts";
import type { Peer } from "../turn/line.ts";
import { ADMISSION_LIMITS, type AdmissionLimits } from "./admission.ts";
import type { EdgeCertificate, EdgeSettings, EdgeStats, EdgeTurn, FromEdge, ToEdge } from "./edge-protocol.ts";

/** A thread that dies again and again must not spin. */
const RESTART_DELAYS_MS = [0, 250, 1_000, 4_000];
/** One that lived this long starts from the first delay. */
const STABLE_AFTER_MS = 30_000;
const PING_INTERVAL_MS = 2_000;
/**
 * One that leaves so many unanswered hangs, and is replaced like one that died. Counted, not timed: when the whole machine
 * has stood still, the time is over at once, and nobody had a chance to answer.
 */
const HUNG_AFTER_PINGS = 5;

export type EdgeOptions = {
  hostname: string;
  port: number;
  upstream: { hostname: string; port: number };
  /** Where the same server also listens, if it does. */
  inner?: InnerWay | null;
  /** Null: nobody is let in before there is one. */
  certificate: EdgeCertificate | null;
  trustedProxies: readonly string[];
  admission?: AdmissionLimits;
  turn: EdgeTurn | null;
  tables: EdgeTables;
  log: Log;
};

/** Whom the edge's sockets on loopback speak for, and those to nodes; made before the servers that look it up. */
export type EdgeTables = { tcp: ClientTable; udp: ClientTable; outer: ClientTable };

export const createEdgeTables = (): EdgeTables => ({
  tcp: new ClientTable(),
  udp: new ClientTable(),
  outer: new ClientTable(),
});

/** The port could not be had. Named like the system's errors, so that the command line explains it in its words. */
export class EdgeRefused extends Error {
  override readonly name = "EdgeRefused";
  constructor(
    message: string,
    readonly code: string | null,
    readonly port: number,
    /** Of TURN without TLS. */
    readonly isTurnPort: boolean,
  ) {
    super(message);
  }
}

type Waiting = { question: ToEdge; resolve(stats: EdgeStats): void; reject(error: Error): void };

export class Edge {
  readonly #log: Log;
  readonly #tables: EdgeTables;
  readonly #settings: EdgeSettings;
  readonly #waiting = new Map<number, Waiting>();
  /** Told again to a thread that takes the place of another. */
  readonly #ended = new EndedIds();
  #peers: Peer[] = [];
  #challenge: EdgeCertificate | null = null;
  #worker: Worker;
  #started = Promise.withResolvers<void>();
  #hasListened = false;
  /** False while one thread takes the place of another. */
  #isListening = false;
  #turnPort: number | null = null;
  #startedAtMs = 0;
  #crashes = 0;
  #nextId = 1;
  #isClosed = false;

  /** Resolves when it listens; rejects when it cannot. */
  static async start(options: EdgeOptions): Promise<Edge> {
    const edge = new Edge(options);
    await edge.#started.promise;
    return edge;
  }

  private constructor({ tables, log, admission = ADMISSION_LIMITS, inner = null, ...settings }: EdgeOptions) {
    this.#log = log;
    this.#tables = tables;
    const { tcp, udp, outer } = tables;
    const memory = { tcpClients: tcp.memory, udpClients: udp.memory, outerClients: outer.memory };
    this.#settings = { ...settings, admission, inner, ...memory };
    this.#worker = this.#spawn();
    this.#watch();
  }

  get port(): number {
    return this.#settings.port;
  }

  /** Of TURN without TLS; null when there is none. */
  get turnPort(): number | null {
    return this.#turnPort;
  }

  /** New connections are met with it at once; open ones go on as they are. */
  present(certificate: EdgeCertificate): void {
    this.#settings.certificate = certificate;
    this.#tell({ type: "certificate", certificate });
  }

  /** Resolves when the authority may look. */
  async challenge(certificate: EdgeCertificate | null): Promise<void> {
    this.#challenge = certificate;
    await this.#ask((id) => ({ type: "challenge", id, certificate }));
  }

  /** The only ones to whom TURN relays. */
  relayTo(peers: readonly Peer[]): void {
    this.#peers = [...peers];
    this.#tell({ type: "peers", peers: this.#peers });
  }

  /** Ends the relays of an id, and refuses its credentials until they run out by themselves. */
  end(id: string, untilMs: number): void {
    this.#ended.add(id, untilMs);
    this.#ended.prune(Date.now());
    this.#tell({ type: "end", id, untilMs });
  }

  stats(): Promise<EdgeStats> {
    return this.#ask((id) => ({ type: "ping", id }));
  }

  /** Nobody new is let in from now on. */
  drain(): void {
    this.#tell({ type: "drain" });
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#worker.terminate();
    this.#forsake();
  }

  #tell(message: ToEdge): void {
    if (this.#isListening) this.#worker.postMessage(message);
  }

  #ask(message: (id: number) => ToEdge): Promise<EdgeStats> {
    const id = this.#nextId++;
    const { promise, resolve, reject } = Promise.withResolvers<EdgeStats>();
    if (this.#isClosed) reject(new Error("the edge thread has ended"));
    else {
      const question = message(id);
      this.#waiting.set(id, { question, resolve, reject });
      // One that does not listen yet is asked once it does: before, it would not answer.
      if (this.#isListening) this.#worker.postMessage(question);
    }
    return promise;
  }

  #spawn(): Worker {
    const worker = new Worker(workerUrl("network/tls/worker.ts"));
    this.#startedAtMs = performance.now();
    worker.onmessage = ({ data }: MessageEvent<FromEdge>) => {
      if (worker === this.#worker) this.#received(data);
    };
    worker.onerror = (event) => {
      this.#log.error({ error: event.message }, "edge thread failed");
      this.#lost(worker);
    };
    worker.addEventListener("close", () => this.#lost(worker));
    worker.postMessage({ type: "start", settings: this.#settings } satisfies ToEdge);
    return worker;
  }

  #received(message: FromEdge): void {
    switch (message.type) {
      case "started":
        this.#listens(message.port, message.turnPort);
        break;
      case "refused":
        if (!this.#hasListened) {
          this.close();
          this.#started.reject(new EdgeRefused(message.message, message.code, message.port, message.isTurnPort));
          break;
        }
        this.#log.error({ error: message.message }, "edge thread cannot listen again yet");
        this.#lost(this.#worker);
        break;
      case "answer":
        this.#waiting.get(message.id)?.resolve(message.stats);
        this.#waiting.delete(message.id);
        break;
      case "fault":
        this.#log.error({ error: message.message }, "fault in the edge thread");
        break;
    }
  }

  #listens(port: number, turnPort: number | null): void {
    // One that takes its place must come back under the ports that clients know.
    this.#settings.port = port;
    this.#turnPort = turnPort;
    if (this.#settings.turn && turnPort !== null) this.#settings.turn.port = turnPort;
    this.#hasListened = true;
    this.#isListening = true;
    const asked = [...this.#waiting.values()];
    // It may have changed since the thread was made.
    const { certificate } = this.#settings;
    if (certificate) this.#tell({ type: "certificate", certificate });
    this.#tell({ type: "peers", peers: this.#peers });
    for (const [id, untilMs] of this.#ended) this.#tell({ type: "end", id, untilMs });
    if (this.#challenge) void this.challenge(this.#challenge).catch(() => {});
    for (const { question } of asked) this.#tell(question);
    this.#log.info({ port, turnPort }, "edge listens");
    this.#started.resolve();
  }

  #watch(): void {
    let unanswered = 0;
    let watched = this.#worker;
    const timer = setInterval(() => {
      if (this.#isClosed) {
        clearInterval(timer);
        return;
      }
      if (watched !== this.#worker || !this.#isListening) {
        watched = this.#worker;
        unanswered = 0;
        return;
      }
      if (unanswered >= HUNG_AFTER_PINGS) {
        this.#log.error({}, "edge thread hangs");
        this.#lost(this.#worker);
        return;
      }
      unanswered++;
      this.stats().then(
        () => {
          unanswered = 0;
        },
        () => {},
      );
    }, PING_INTERVAL_MS);
    timer.unref();
  }

  #lost(worker: Worker): void {
    if (worker !== this.#worker || this.#isClosed) return;
    this.#isListening = false;
    this.#forsake();
    worker.terminate();
    this.#tables.tcp.clearAll();
    this.#tables.udp.clearAll();
    this.#tables.outer.clearAll();
    if (performance.now() - this.#startedAtMs > STABLE_AFTER_MS) this.#crashes = 0;
    const delayMs = RESTART_DELAYS_MS[Math.min(this.#crashes++, RESTART_DELAYS_MS.length - 1)] ?? 0;
    // Its last words must not be taken for those of the next.
    worker.onmessage = null;
    worker.onerror = null;
    setTimeout(() => {
      if (!this.#isClosed && worker === this.#worker) this.#worker = this.#spawn();
    }, delayMs);
  }

  #forsake(): void {
    for (const { reject } of this.#waiting.values()) reject(new Error("the edge thread has ended"));
    this.#waiting.clear();
  }
}
