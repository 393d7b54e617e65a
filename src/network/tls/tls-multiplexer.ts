/**
 * The main thread's half of the TLS thread: it sends the settings, monitors the thread and restarts it after a crash.
 */

import type { Certificate } from "../../kernel/http/serving/certificate.ts";
import type { Log } from "../../kernel/log.ts";
import { startWorker, startWorkerWhenPossible } from "../../kernel/net/descriptors.ts";
import type { LoopbackTransport } from "../../kernel/net/loopback-transport.ts";
import { systemTimers } from "../../kernel/time/timers.ts";
import { ClientTable } from "../../protocol/client-table.ts";
import { RevokedIds } from "../turn/authentication.ts";
import type { Peer } from "../turn/transports.ts";
import { ADMISSION_LIMITS, type AdmissionLimits } from "./admission.ts";
import type { FromTlsThread, TlsStats, TlsThreadSettings, ToTlsThread, TurnSettings } from "./thread-messages.ts";

/** A thread that keeps crashing is restarted with growing delays. */
const RESTART_DELAYS_MS = [0, 250, 1_000, 4_000];
/** A thread that ran for this long is restarted with the first delay again. */
const STABLE_AFTER_MS = 30_000;
const PING_INTERVAL_MS = 2_000;
/**
 * A thread that leaves this many pings unanswered counts as hung and is replaced. Pings are counted, because a deadline
 * would also pass while the whole machine is suspended.
 */
const HUNG_AFTER_PINGS = 5;

export type TlsMultiplexerOptions = {
  hostname: string;
  port: number;
  reusePort?: boolean;
  upstream: { hostname: string; port: number };
  loopback?: LoopbackTransport | null;
  certificate: Certificate | null;
  trustedProxies: readonly string[];
  admission?: AdmissionLimits;
  turn: TurnSettings | null;
};

/** The clients behind the TLS thread's sockets, by local port: over TCP and UDP on loopback, and to media nodes. */
export type ClientTables = { tcp: ClientTable; udp: ClientTable; nodes: ClientTable };

export const createClientTables = (): ClientTables => ({
  tcp: new ClientTable(),
  udp: new ClientTable(),
  nodes: new ClientTable(),
});

/**
 * A port is unavailable. The error has the fields of a system error, so that the command line explains it in the same
 * way.
 */
export class TlsListenError extends Error {
  override readonly name = "TlsListenError";
  constructor(
    message: string,
    readonly code: string | null,
    readonly port: number,
    readonly isTurnPort: boolean,
  ) {
    super(message);
  }
}

type PendingRequest = { request: ToTlsThread; resolve(stats: TlsStats): void; reject(error: Error): void };

export class TlsMultiplexer {
  readonly #log: Log;
  readonly #tables: ClientTables;
  /** Null until `listen`. */
  #settings: TlsThreadSettings | null = null;
  readonly #pending = new Map<number, PendingRequest>();
  readonly #revoked = new RevokedIds();
  #peers: Peer[] = [];
  #challenge: Certificate | null = null;
  #worker: Worker;
  #started = Promise.withResolvers<void>();
  #hasListened = false;
  /** False during a restart of the thread. */
  #isListening = false;
  #turnPort: number | null = null;
  #startedAtMs = 0;
  #crashes = 0;
  #cancelRestart = () => {};
  #nextId = 1;
  #isClosed = false;

  /** The thread starts to load its code, which takes longer than to listen. */
  constructor(tables: ClientTables, log: Log) {
    this.#log = log;
    this.#tables = tables;
    this.#worker = this.#spawn();
    this.#watch();
  }

  /** Resolves when the thread listens, and rejects when a port is unavailable. */
  listen(options: TlsMultiplexerOptions): Promise<void> {
    const { admission = ADMISSION_LIMITS, loopback = null, reusePort = false, ...settings } = options;
    const { tcp, udp, nodes } = this.#tables;
    const memory = { tcpClients: tcp.memory, udpClients: udp.memory, nodeClients: nodes.memory };
    this.#settings = { ...settings, admission, loopback, reusePort, ...memory };
    this.#startThread(this.#worker, this.#settings);
    return this.#started.promise;
  }

  /** 0 until the thread listens. */
  get port(): number {
    return this.#settings?.port ?? 0;
  }

  get turnPort(): number | null {
    return this.#turnPort;
  }

  /** New connections use the certificate at once; open ones stay. */
  setCertificate(certificate: Certificate): void {
    if (this.#settings) this.#settings.certificate = certificate;
    this.#send({ type: "certificate", certificate });
  }

  /** Resolves when the certificate authority can see the challenge. */
  async setChallenge(certificate: Certificate | null): Promise<void> {
    this.#challenge = certificate;
    await this.#request((id) => ({ type: "challenge", id, certificate }));
  }

  setPeers(peers: readonly Peer[]): void {
    this.#peers = [...peers];
    this.#send({ type: "peers", peers: this.#peers });
  }

  /** Ends the allocations of an id and rejects its credentials until they expire. */
  revokeRelays(id: string, untilMs: number): void {
    this.#revoked.add(id, untilMs);
    this.#revoked.prune(Date.now());
    this.#send({ type: "revoke", id, untilMs });
  }

  stats(): Promise<TlsStats> {
    return this.#request((id) => ({ type: "ping", id }));
  }

  drain(): void {
    this.#send({ type: "drain" });
  }

  stopListening(): void {
    this.#send({ type: "stopListening" });
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#cancelRestart();
    this.#worker.terminate();
    this.#rejectPending();
  }

  #send(message: ToTlsThread): void {
    if (this.#isListening) this.#worker.postMessage(message);
  }

  #request(message: (id: number) => ToTlsThread): Promise<TlsStats> {
    const id = this.#nextId++;
    const { promise, resolve, reject } = Promise.withResolvers<TlsStats>();
    if (this.#isClosed) reject(new Error("the TLS thread has ended"));
    else {
      const request = message(id);
      this.#pending.set(id, { request, resolve, reject });
      // A thread that does not listen yet would not respond; it gets the request when it listens.
      if (this.#isListening) this.#worker.postMessage(request);
    }
    return promise;
  }

  #spawn(): Worker {
    const worker = startWorker("network/tls/worker.ts");
    this.#startedAtMs = performance.now();
    worker.onmessage = ({ data }: MessageEvent<FromTlsThread>) => {
      if (worker === this.#worker) this.#received(data);
    };
    worker.onerror = (event) => {
      this.#log.error({ error: event.message }, "tls: thread crashed");
      this.#lost(worker);
    };
    worker.addEventListener("close", () => this.#lost(worker));
    if (this.#settings) this.#startThread(worker, this.#settings);
    return worker;
  }

  #startThread(worker: Worker, settings: TlsThreadSettings): void {
    worker.postMessage({ type: "start", settings } satisfies ToTlsThread);
  }

  #received(message: FromTlsThread): void {
    switch (message.type) {
      case "started":
        if (this.#settings) this.#onListening(this.#settings, message.port, message.turnPort);
        break;
      case "refused":
        if (!this.#hasListened) {
          this.close();
          this.#started.reject(new TlsListenError(message.message, message.code, message.port, message.isTurnPort));
          break;
        }
        this.#log.error({ error: message.message }, "tls: restarted thread cannot listen, retrying");
        this.#lost(this.#worker);
        break;
      case "response":
        this.#pending.get(message.id)?.resolve(message.stats);
        this.#pending.delete(message.id);
        break;
      case "fault":
        this.#log.error({ error: message.message }, "tls: uncaught error in the TLS thread");
        break;
    }
  }

  #onListening(settings: TlsThreadSettings, port: number, turnPort: number | null): void {
    // A restarted thread has to use the ports that clients know.
    settings.port = port;
    this.#turnPort = turnPort;
    if (settings.turn && turnPort !== null) settings.turn.port = turnPort;
    this.#hasListened = true;
    this.#isListening = true;
    const pending = [...this.#pending.values()];
    // The certificate may have changed since the thread started.
    const { certificate } = settings;
    if (certificate) this.#send({ type: "certificate", certificate });
    this.#send({ type: "peers", peers: this.#peers });
    for (const [id, untilMs] of this.#revoked) this.#send({ type: "revoke", id, untilMs });
    if (this.#challenge) void this.setChallenge(this.#challenge).catch(() => {});
    for (const { request } of pending) this.#send(request);
    this.#log.info({ port, turnPort }, "tls: listening");
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
        this.#log.error({}, "tls: thread not responding");
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
    this.#rejectPending();
    worker.terminate();
    this.#tables.tcp.clearAll();
    this.#tables.udp.clearAll();
    this.#tables.nodes.clearAll();
    if (performance.now() - this.#startedAtMs > STABLE_AFTER_MS) this.#crashes = 0;
    const delayMs = RESTART_DELAYS_MS[Math.min(this.#crashes++, RESTART_DELAYS_MS.length - 1)] ?? 0;
    // A late message of this thread must not be handled as one of its replacement.
    worker.onmessage = null;
    worker.onerror = null;
    const replace = () => {
      this.#worker = this.#spawn();
    };
    const onDelay = (err: unknown) => this.#log.error({ err }, "tls: cannot start a new TLS thread, retrying");
    this.#cancelRestart();
    this.#cancelRestart = systemTimers.after(delayMs, () => {
      this.#cancelRestart = startWorkerWhenPossible(systemTimers, replace, onDelay);
    });
  }

  #rejectPending(): void {
    for (const { reject } of this.#pending.values()) reject(new Error("the TLS thread has ended"));
    this.#pending.clear();
  }
}
