/**
 * Keeps file descriptors free for files, the database and worker threads, however many connections clients open. Bun
 * accepts every connection and ends the process when a thread finds no descriptor, so this file uses libc directly: the
 * soft limit stops Bun from accepting at a ceiling. While the ceiling is reached, new connections are answered with 503
 * or closed, and those that have sent nothing yet are closed as well.
 */
import { FFIType, ptr } from "bun:ffi";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { ApiError } from "../../protocol/errors.ts";
import { workerUrl } from "../assets.ts";
import { openLibc } from "../libc.ts";
import type { Log } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import { systemTimers, type Timers } from "../time/timers.ts";
import { IPPROTO_TCP, SO_ACCEPTCONN, SOL_SOCKET } from "./socket-options.ts";

const { i32, ptr: pointer } = FFIType;
const SYMBOLS = {
  accept4: { args: [i32, pointer, pointer, i32], returns: i32 },
  close: { args: [i32], returns: i32 },
  dup: { args: [i32], returns: i32 },
  epoll_ctl: { args: [i32, i32, i32, pointer], returns: i32 },
  getrlimit: { args: [i32, pointer], returns: i32 },
  getsockname: { args: [i32, pointer, pointer], returns: i32 },
  getsockopt: { args: [i32, i32, i32, pointer, pointer], returns: i32 },
  recv: { args: [i32, pointer, FFIType.u64, i32], returns: FFIType.i64 },
  send: { args: [i32, pointer, FFIType.u64, i32], returns: FFIType.i64 },
  setrlimit: { args: [i32, pointer], returns: i32 },
  shutdown: { args: [i32, i32], returns: i32 },
} as const;

type Libc = NonNullable<ReturnType<typeof openLibc<typeof SYMBOLS>>>;

/** Constants of Linux, the same on x64 and arm64. */
const RLIMIT_NOFILE = 7;
const SO_DOMAIN = 39;
const AF_INET = 2;
const AF_INET6 = 10;
const TCP_INFO = 11;
const TCP_ESTABLISHED = 1;
const EPOLL_CTL_MOD = 3;
const EPOLLIN = 1;
const MSG_NOSIGNAL = 0x4000;
const SHUT_RDWR = 2;
/** SOCK_NONBLOCK and SOCK_CLOEXEC. */
const ACCEPT_FLAGS = 0o2004000;

/** Offsets in `struct tcp_info`. */
const INFO = { bytes: 136, state: 0, lastReceivedMs: 52, bytesReceived: 128 };

/** A quarter of the limit is reserved, within these bounds. */
const RESERVE = { min: 64, max: 2_048 };
/** The assumed maximum rate of new connections until the limit is checked again. */
const BURST_PER_MS = 20;
const CHECK_MS = { min: 20, max: 1_000 };
/** The minimum time for which new connections are refused: finding the listeners takes time with many descriptors. */
const REFUSE_MS = 250;
const SWEEP_EVERY_MS = 100;
/** A connection that has sent nothing for this time is closed to make room for others. */
const SILENT_MS = 500;
const MAX_REFUSED_PER_CHECK = 1_024;
const MAX_SCANNED = 65_536;
/**
 * Readiness fails for this long after a refused connection, so that neither readiness nor the log changes with every
 * check.
 */
const PRESSURE_MS = 10_000;
/** A worker thread opens about ten descriptors. */
const WORKER_DESCRIPTORS = 32;
const WORKER_RETRY_MS = { first: 250, max: 8_000 };

type DescriptorGuard = {
  /** Why new connections are refused, for the readiness check. */
  problem(): string | null;
  stop(): void;
};

type GuardOptions = {
  log: Log;
  metrics: Metrics | null;
  /** The port of plain HTTP, where a refused client gets a response. Connections to other ports are closed. */
  httpPort: () => number | null;
};

const NO_GUARD: DescriptorGuard = { problem: () => null, stop: () => {} };

export function guardDescriptors({ log, metrics, httpPort }: GuardOptions): DescriptorGuard {
  const libc = process.platform === "linux" ? openLibc(SYMBOLS) : null;
  if (!libc) return NO_GUARD;
  const table = new DescriptorTable(libc);
  const ceiling = table.limit - reserveOf(table.limit);
  const refused = metrics?.counter("stoa_connections_refused_total", "Connections refused to keep descriptors free.");
  const silenced = metrics?.counter(
    "stoa_connections_silent_total",
    "Connections without a request that were closed to keep descriptors free.",
  );
  metrics?.gaugesOf(
    {
      stoa_descriptors_used: ["File descriptors that this process has open.", (open) => open.length],
      stoa_descriptors_allowed: ["File descriptors that this process may have open.", () => table.limit],
    },
    () => readdir("/proc/self/fd"),
  );
  let refusing: Refusing | null = null;
  let refusedAtMs = Number.NEGATIVE_INFINITY;
  let cancel = () => {};
  table.limitTo(ceiling);

  function check(): void {
    const free = table.lowestFree();
    if (refusing === null && free >= ceiling) {
      // Other code that opens a file may use the reserve now; only connections may not.
      table.limitTo(table.limit);
      refusing = { sinceMs: performance.now(), sweptAtMs: performance.now(), listeners: table.pauseListeners() };
      if (!isPressed()) log.warn({ limit: table.limit, ceiling }, "descriptors: limit reached, refusing connections");
    }
    if (refusing === null) return;
    const nowMs = performance.now();
    refusedAtMs = nowMs;
    let count = 0;
    for (const { fd, port } of refusing.listeners) count += table.refuse(fd, port === httpPort());
    refused?.inc(count);
    if (nowMs - refusing.sweptAtMs >= SWEEP_EVERY_MS) {
      refusing.sweptAtMs = nowMs;
      silenced?.inc(table.closeSilent(new Set(refusing.listeners.map(({ port }) => port))));
    }
    if (nowMs - refusing.sinceMs < REFUSE_MS || table.lowestFree() >= ceiling) return;
    refusing = null;
    table.limitTo(ceiling);
    table.resumeListeners();
  }

  function next(): void {
    const room = refusing === null ? ceiling - table.lowestFree() : 0;
    const delayMs = Math.min(CHECK_MS.max, Math.max(CHECK_MS.min, room / BURST_PER_MS));
    cancel = systemTimers.after(delayMs, () => {
      check();
      next();
    });
  }

  const isPressed = () => performance.now() - refusedAtMs < PRESSURE_MS;

  next();
  return {
    problem: () =>
      isPressed() ? `new connections are refused: ${ceiling} of ${table.limit} file descriptors are in use` : null,
    stop() {
      cancel();
      if (refusing !== null) table.resumeListeners();
      table.limitTo(table.limit);
      libc.close();
    },
  };
}

/** Throws when the thread cannot start: Bun aborts the whole process when a new thread finds no descriptor. */
export function startWorker(path: `${string}.ts`): Worker {
  if (!hasDescriptors(WORKER_DESCRIPTORS)) throw new Error("no free file descriptors for a thread");
  return new Worker(workerUrl(path));
}

/**
 * For replacing a thread that has died: retries more and more slowly for as long as `start` throws. The returned function
 * cancels the next attempt.
 */
export function startWorkerWhenPossible(timers: Timers, start: () => void, onDelay: (error: unknown) => void) {
  let cancel = () => {};
  let delayMs = WORKER_RETRY_MS.first;
  const attempt = () => {
    try {
      start();
    } catch (error) {
      if (delayMs === WORKER_RETRY_MS.first) onDelay(error);
      cancel = timers.after(delayMs, attempt);
      delayMs = Math.min(2 * delayMs, WORKER_RETRY_MS.max);
    }
  };
  attempt();
  return () => cancel();
}

function hasDescriptors(count: number): boolean {
  const libc = process.platform === "linux" ? openLibc(SYMBOLS) : null;
  if (!libc) return true;
  const opened: number[] = [];
  for (let fd = 0; fd >= 0 && opened.length < count; ) {
    fd = libc.symbols.dup(0);
    if (fd >= 0) opened.push(fd);
  }
  for (const fd of opened) libc.symbols.close(fd);
  libc.close();
  return opened.length === count;
}

type Refusing = { sinceMs: number; sweptAtMs: number; listeners: PausedListener[] };
type PausedListener = { fd: number; port: number };

function reserveOf(limit: number): number {
  return Math.min(RESERVE.max, Math.max(RESERVE.min, Math.floor(limit / 4)));
}

/** The file descriptors of this process, including all its threads. */
class DescriptorTable {
  readonly limit: number;
  readonly #libc: Libc;
  readonly #value = new Int32Array(1);
  readonly #length = new Uint32Array(1);
  readonly #name = new Uint8Array(128);
  readonly #info = new Uint8Array(256);
  readonly #request = new Uint8Array(16_384);
  readonly #response = Buffer.from(refusalResponse());

  constructor(libc: Libc) {
    this.#libc = libc;
    const limits = new BigUint64Array(2);
    libc.symbols.getrlimit(RLIMIT_NOFILE, ptr(limits));
    this.limit = Number(limits[1] ?? 0n);
  }

  /** Sets the soft limit, up to the hard one. */
  limitTo(soft: number): void {
    this.#libc.symbols.setrlimit(RLIMIT_NOFILE, ptr(new BigUint64Array([BigInt(soft), BigInt(this.limit)])));
  }

  /** The kernel always assigns the lowest free descriptor, so all below it are in use. */
  lowestFree(): number {
    const fd = this.#libc.symbols.dup(0);
    if (fd < 0) return this.limit;
    this.#libc.symbols.close(fd);
    return fd;
  }

  /** Removes the listeners from Bun's event loops, so that their connections stay in the kernel's queue. */
  pauseListeners(): PausedListener[] {
    return this.#changeListeners(0);
  }

  resumeListeners(): void {
    this.#changeListeners(EPOLLIN);
  }

  /** Accepts and closes the connections in the queue; returns their number. */
  refuse(listener: number, responds: boolean): number {
    const { accept4, recv, send, shutdown, close } = this.#libc.symbols;
    let count = 0;
    for (; count < MAX_REFUSED_PER_CHECK; count++) {
      const fd = accept4(listener, null, null, ACCEPT_FLAGS);
      if (fd < 0) break;
      if (responds) {
        // A connection that is closed with unread bytes is reset, and the client might lose the response.
        recv(fd, ptr(this.#request), this.#request.byteLength, 0);
        send(fd, ptr(this.#response), this.#response.byteLength, MSG_NOSIGNAL);
        shutdown(fd, SHUT_RDWR);
      }
      close(fd);
    }
    return count;
  }

  /** Ends the connections to these ports that have sent nothing; Bun sees their end and closes them. */
  closeSilent(ports: ReadonlySet<number>): number {
    const info = new DataView(this.#info.buffer);
    let count = 0;
    for (const fd of this.#open()) {
      if (this.#option(fd, IPPROTO_TCP, TCP_INFO, this.#info) < INFO.bytes) continue;
      if (this.#info[INFO.state] !== TCP_ESTABLISHED || info.getBigUint64(INFO.bytesReceived, true) > 0n) continue;
      if (info.getUint32(INFO.lastReceivedMs, true) < SILENT_MS || !ports.has(this.#portOf(fd))) continue;
      this.#libc.symbols.shutdown(fd, SHUT_RDWR);
      count++;
    }
    return count;
  }

  /** The listeners are looked up each time: a thread that was replaced has another event loop and other sockets. */
  #changeListeners(events: number): PausedListener[] {
    const listeners = new Map<number, PausedListener>();
    const loops: number[] = [];
    for (const fd of this.#open()) {
      if (this.#option(fd, SOL_SOCKET, SO_ACCEPTCONN, this.#value) < 0) {
        if (isEventLoop(fd)) loops.push(fd);
      } else if (this.#value[0] === 1 && this.#isInternet(fd)) listeners.set(fd, { fd, port: this.#portOf(fd) });
    }
    for (const loop of loops) {
      for (const { fd, data } of watchedBy(loop)) {
        if (listeners.has(fd)) this.#libc.symbols.epoll_ctl(loop, EPOLL_CTL_MOD, fd, ptr(epollEvent(events, data)));
      }
    }
    return [...listeners.values()];
  }

  /**
   * Checking every possible descriptor takes 9 µs for each closed one, and there are thousands after many connections were closed.
   */
  #open(): number[] {
    try {
      return readdirSync("/proc/self/fd").map(Number);
    } catch {
      // No descriptor is free for reading the folder.
      return Array.from({ length: Math.min(this.limit, MAX_SCANNED) }, (_, fd) => fd);
    }
  }

  /** The size of the option in bytes, or -1 when the descriptor is not open or not of that kind. */
  #option(fd: number, level: number, option: number, into: Int32Array | Uint8Array): number {
    this.#length[0] = into.byteLength;
    const result = this.#libc.symbols.getsockopt(fd, level, option, ptr(into), ptr(this.#length));
    return result === 0 ? (this.#length[0] ?? 0) : -1;
  }

  #isInternet(fd: number): boolean {
    this.#option(fd, SOL_SOCKET, SO_DOMAIN, this.#value);
    return this.#value[0] === AF_INET || this.#value[0] === AF_INET6;
  }

  #portOf(fd: number): number {
    this.#length[0] = this.#name.byteLength;
    if (this.#libc.symbols.getsockname(fd, ptr(this.#name), ptr(this.#length)) !== 0) return 0;
    return new DataView(this.#name.buffer).getUint16(2);
  }
}

function isEventLoop(fd: number): boolean {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`) === "anon_inode:[eventpoll]";
  } catch {
    return false;
  }
}

/** The entries of an epoll instance; `data` is Bun's pointer to its own record, which must not change. */
function watchedBy(loop: number): { fd: number; data: bigint }[] {
  const text = readFileSync(`/proc/self/fdinfo/${loop}`, "utf8");
  return [...text.matchAll(/^tfd:\s*(\d+) events:\s*[0-9a-f]+ data:\s*([0-9a-f]+)/gm)].map(([, fd, data]) => ({
    fd: Number(fd),
    data: BigInt(`0x${data}`),
  }));
}

/** `struct epoll_event` is packed on x64 only. */
function epollEvent(events: number, data: bigint): Uint8Array {
  const view = new DataView(new ArrayBuffer(16));
  view.setUint32(0, events, true);
  view.setBigUint64(process.arch === "x64" ? 4 : 8, data, true);
  return new Uint8Array(view.buffer);
}

function refusalResponse(): string {
  const { code, legacyCode, message } = new ApiError("SVC_OVERLOADED");
  const body = JSON.stringify({ code, legacyCode, message });
  return [
    "HTTP/1.1 503 Service Unavailable",
    "content-type: application/json",
    "retry-after: 1",
    "access-control-allow-origin: *",
    "connection: close",
    `content-length: ${body.length}`,
    "",
    body,
  ].join("\r\n");
}
