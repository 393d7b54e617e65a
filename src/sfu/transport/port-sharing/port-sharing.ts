/**
 * Lets several processes use one media port while a new process takes over from an old one. The newest makes the kernel steer the
 * datagrams of the others' clients to them, and gets all others. A datagram that reaches the wrong process, because a client has
 * moved or a process has just come or gone, is relayed to the right one over loopback. Each process sends from the port itself.
 */
import { randomBytes, timingSafeEqual } from "node:crypto";
import { openPortReuse, type PortReuse } from "../../../kernel/net/socket-options.ts";
import { TcpConnection, TcpPort } from "../tcp.ts";
import { TokenBucket } from "../token-bucket.ts";
import {
  datagramFrame,
  type Frame,
  helloFrame,
  joinedFrame,
  keysFrames,
  MAX_RELAYED_BYTES,
  parseFrame,
  TOKEN_BYTES,
} from "./frames.ts";
import { addressKey, MAX_STEERED, type Steered, steeringProgram } from "./steering.ts";

/** As many bytes may wait for a process that gets no processor time as its media socket would buffer. */
const LINK = { hostname: "127.0.0.1", maxPendingBytes: 4 * 1_024 * 1_024 };
const CONNECT_WITHIN_MS = 2_000;
/** Clients come and go in bursts, so the program is updated after this delay. Until then datagrams from new addresses are relayed. */
const STEER_AFTER_MS = 20;
export const MAX_SHARERS = 8;
/** The limit of addresses per process. The kernel steers fewer of them, and datagrams from the others are relayed. */
const MAX_KEYS = 20_000;
/** The limit of datagrams that are relayed in one pass of the event loop. */
const MAX_UNSENT = 1_024;
/** The limit of relayed datagrams from unknown addresses, which strangers may send as well. */
const STRANGERS_PER_SECOND = 5_000;
const STRANGERS_AT_ONCE = 1_000;

/** What a process needs in order to use another one's port. The token is a secret; `links` are loopback ports. */
export type SharedPort = { port: number; token: string; links: number[] };
/** Why a port cannot be shared, as a sentence. */
export type Unshareable = { unavailable: string };

export type SharingCounters = { relayedOut: number; relayedIn: number };

type Sockets = {
  udp: { readonly port: number; readonly fd: number | null };
  tcp: Pick<TcpPort, "fd" | "stopAccepting" | "accept"> | null;
  /** The addresses of this process's clients. */
  addresses(): Iterable<{ address: string; port: number }>;
  /** Called with a datagram that another process has relayed. */
  deliver(data: Buffer, port: number, address: string): void;
};

type SharingOutput = {
  /** Called with how many other processes use the port. */
  onSharers(others: number): void;
  onFault(error: unknown): void;
};

/** Another process at the same port. */
type Sharer = {
  readonly connection: TcpConnection;
  /** Whether the other process used the port before this one did. */
  readonly isOlder: boolean;
  /** The loopback port at which an older process accepts links; 0 for a younger process. */
  readonly link: number;
  ordinal: number;
  hasJoined: boolean;
  keys: ReadonlySet<number>;
  arriving: number[];
  /** Datagrams to relay to it, which the event loop has received in this pass. */
  readonly unsent: Buffer[];
};

function newSharer(connection: TcpConnection): Sharer {
  const unknown = { isOlder: false, link: 0, ordinal: 0, hasJoined: false };
  return { connection, ...unknown, keys: new Set(), arriving: [], unsent: [] };
}

export class PortSharing {
  readonly counters: SharingCounters = { relayedOut: 0, relayedIn: 0 };
  readonly #token: Buffer;
  readonly #output: SharingOutput;
  readonly #reuse: PortReuse | null = openPortReuse();
  readonly #sharers = new Map<TcpConnection, Sharer>();
  readonly #strangers = new TokenBucket(STRANGERS_PER_SECOND, STRANGERS_AT_ONCE, () => performance.now());
  #sockets: Sockets | null = null;
  /** The ordinals of all processes, in the order in which the kernel lists their sockets. */
  #order: number[] = [];
  #ordinal = 1;
  /** Accepts links of younger processes; null while the port is not offered. */
  #links: TcpPort | null = null;
  #timer: Timer | null = null;
  #hasUnsent = false;
  #isDelivering = false;
  /** What the kernel is told as soon as the port is bound; null once it has been. */
  #program: Uint8Array | null = null;
  #isClosed = false;

  /** Creates the port sharing of a process that is alone at its port. */
  static alone(output: SharingOutput, sockets: Sockets): PortSharing {
    const sharing = new PortSharing(randomBytes(TOKEN_BYTES), output);
    sharing.#sockets = sockets;
    sharing.#order = [sharing.#ordinal];
    return sharing;
  }

  /** Connects to the processes that use the port, before binding it; returns null when none of them is left. */
  static async reach({ token, links }: SharedPort, output: SharingOutput): Promise<PortSharing | null> {
    const sharing = new PortSharing(Buffer.from(token, "hex"), output);
    const orders = await Promise.all(links.map((link) => sharing.#connect(link).catch(() => null)));
    const [latest] = orders.filter((order) => order !== null).sort((a, b) => Math.max(...b) - Math.max(...a));
    if (!latest || sharing.#sharers.size === 0) {
      sharing.close();
      return null;
    }
    sharing.#ordinal = Math.max(...latest) + 1;
    sharing.#order = [...latest, sharing.#ordinal];
    const reached = new Set([...sharing.#sharers.values()].map(({ ordinal }) => ordinal));
    for (const ordinal of latest) if (!reached.has(ordinal)) sharing.#leave(ordinal);
    sharing.#program = sharing.#steering();
    return sharing;
  }

  private constructor(token: Buffer, output: SharingOutput) {
    this.#token = token;
    this.#output = output;
  }

  /** The number of other processes that use the port. */
  get others(): number {
    return this.#joined().length;
  }

  /**
   * Called as soon as this process has bound the port. Until the kernel has the program, it sends this process a part of the
   * others' datagrams, which wait until its event loop relays them.
   */
  steerAtOnce(fd: number): void {
    if (this.#program) this.#attach(fd, this.#program);
    this.#program = null;
  }

  /** Called when this process has bound the port. */
  join(sockets: Sockets): void {
    this.#sockets = sockets;
    this.#steer();
    for (const { connection } of this.#sharers.values()) connection.send(joinedFrame(this.#ordinal));
    this.#output.onSharers(this.others);
  }

  /** Lets one more process use the port. */
  offer(): SharedPort | Unshareable {
    if (!this.#sockets) return { unavailable: "The media port is not bound." };
    const { udp } = this.#sockets;
    const joined = this.#joined();
    if (!this.#isNewest) return { unavailable: "A newer process uses the media port already." };
    if (joined.length >= MAX_SHARERS)
      return { unavailable: `${MAX_SHARERS} other processes use the media port already.` };
    if (!this.#allow(true)) return { unavailable: "This system lets no other process use the media port." };
    this.#links ??= TcpPort.listen({
      ...LINK,
      port: 0,
      onPacket: (data, connection) => this.#receive(parseFrame(data), connection),
      onClosed: (connection) => this.#lost(connection),
    });
    const links = [this.#links.port, ...joined.map(({ link }) => link)];
    return { port: udp.port, token: this.#token.toString("hex"), links };
  }

  /** Called when the process that was expected does not come. Processes that have joined keep the port. */
  withdraw(): void {
    if (!this.#isNewest || !this.#links) return;
    this.#links.close();
    this.#links = null;
    this.#allowOthers();
  }

  /** Sends a datagram for another process to that process or, if it is unknown which, to all others. */
  relay(data: Uint8Array, port: number, address: string): boolean {
    if (this.#isDelivering || this.#sharers.size === 0 || data.length > MAX_RELAYED_BYTES) return false;
    const key = addressKey(address, port, this.#salt);
    const joined = this.#joined();
    const owner = key === null ? undefined : joined.find(({ keys }) => keys.has(key));
    const receivers = owner ? [owner] : joined;
    if (receivers.length === 0 || (!owner && !this.#strangers.take(1))) return false;
    const frame = datagramFrame(data, port, address);
    for (const { unsent } of receivers) if (unsent.length < MAX_UNSENT) unsent.push(frame);
    this.counters.relayedOut++;
    if (!this.#hasUnsent) setImmediate(this.send);
    this.#hasUnsent = true;
    return true;
  }

  /** Sends everything that was received in one pass of the event loop with one system call. */
  readonly send = (): void => {
    if (!this.#hasUnsent) return;
    this.#hasUnsent = false;
    for (const { connection, unsent } of this.#sharers.values())
      if (unsent.length > 0) connection.send(...unsent.splice(0));
  };

  addressesChanged(): void {
    if (this.#sharers.size > 0) this.#updateSoon();
  }

  get #salt(): number {
    return this.#token.readUInt32LE(0);
  }

  get #isNewest(): boolean {
    return this.#joined().every(({ isOlder }) => isOlder);
  }

  #joined(): Sharer[] {
    return [...this.#sharers.values()].filter(({ hasJoined }) => hasJoined);
  }

  /** Resolves to the order of the sockets as the process at the other end knows it, once that process has also sent its addresses. */
  async #connect(link: number): Promise<number[]> {
    const { promise, resolve, reject } = Promise.withResolvers<number[]>();
    let order: number[] | null = null;
    const connection = await TcpConnection.connect({
      ...LINK,
      port: link,
      onPacket: (data, connection) => {
        const frame = parseFrame(data);
        if (order === null) {
          if (frame?.kind !== "hello" || !this.#isOurs(frame.token)) return connection.close();
          order = frame.sockets;
          const { ordinal } = frame;
          this.#sharers.set(connection, { ...newSharer(connection), link, ordinal, isOlder: true, hasJoined: true });
          return;
        }
        this.#receive(frame, connection);
        if (frame?.kind === "keys" && frame.isLast) resolve(order);
      },
      onClosed: (connection) => {
        reject(new Error("the link was closed"));
        this.#lost(connection);
      },
    });
    connection.send(helloFrame(this.#token, 0, []));
    const timeout = setTimeout(() => connection.close(), CONNECT_WITHIN_MS);
    return promise.finally(() => clearTimeout(timeout));
  }

  #isOurs(token: Buffer): boolean {
    return token.length === TOKEN_BYTES && timingSafeEqual(token, this.#token);
  }

  /** The first frame of a connection that this process has accepted. */
  #admit(frame: Frame | null, connection: TcpConnection): void {
    if (frame?.kind !== "hello" || !this.#isOurs(frame.token) || this.#sharers.size >= MAX_SHARERS) {
      connection.close();
      return;
    }
    connection.authenticated = true;
    this.#sharers.set(connection, newSharer(connection));
    connection.send(helloFrame(this.#token, this.#ordinal, this.#order));
    this.#tellAddresses();
  }

  #receive(frame: Frame | null, connection: TcpConnection): void {
    const sharer = this.#sharers.get(connection);
    if (!sharer) {
      this.#admit(frame, connection);
      return;
    }
    switch (frame?.kind) {
      case "keys":
        if (frame.isFirst) sharer.arriving = [];
        for (const key of frame.keys) if (sharer.arriving.length < MAX_KEYS) sharer.arriving.push(key);
        if (!frame.isLast) return;
        sharer.keys = new Set(sharer.arriving);
        sharer.arriving = [];
        this.#updateSoon();
        return;
      case "joined":
        if (sharer.hasJoined) return;
        sharer.hasJoined = true;
        sharer.ordinal = frame.ordinal;
        this.#order.push(frame.ordinal);
        this.#sockets?.tcp?.stopAccepting();
        this.#output.onSharers(this.others);
        return;
      case "datagram":
        this.#deliver(frame.data, frame.port, frame.address);
        return;
      default:
        connection.close();
    }
  }

  /** A relayed datagram of a client that this process does not know either is not relayed again. */
  #deliver(data: Buffer, port: number, address: string): void {
    this.counters.relayedIn++;
    this.#isDelivering = true;
    try {
      this.#sockets?.deliver(data, port, address);
    } finally {
      this.#isDelivering = false;
    }
  }

  #lost(connection: TcpConnection): void {
    const sharer = this.#sharers.get(connection);
    if (!sharer || this.#isClosed) return;
    this.#sharers.delete(connection);
    if (!sharer.hasJoined) return;
    this.#leave(sharer.ordinal);
    // The kernel may close the socket of the port after that of the link, so one update may be too early.
    this.#updateSoon();
    this.#allowOthers();
    if (this.#sockets) this.#output.onSharers(this.others);
  }

  /** The kernel fills the gap of a closed socket with its last one. */
  #leave(ordinal: number): void {
    const at = this.#order.indexOf(ordinal);
    const last = this.#order.pop();
    if (at >= 0 && at < this.#order.length && last !== undefined) this.#order[at] = last;
  }

  #allow(isAllowed: boolean): boolean {
    const { udp, tcp } = this.#sockets ?? {};
    const allow = (fd: number) => this.#reuse?.allow(fd, isAllowed) === true;
    return typeof udp?.fd === "number" && allow(udp.fd) && (typeof tcp?.fd !== "number" || allow(tcp.fd));
  }

  /** While the port belongs to this process alone, no other one may bind it unasked. */
  #allowOthers(): void {
    this.#allow(this.others > 0 || this.#links !== null);
  }

  /** The newest process accepts TCP connections, including a process that becomes the newest because another has ended. */
  #acceptTcp(): void {
    try {
      this.#sockets?.tcp?.accept();
      this.#allowOthers();
    } catch (error) {
      this.#output.onFault(error);
    }
  }

  #updateSoon(): void {
    if (this.#isClosed) return;
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      this.#tellAddresses();
      if (!this.#isNewest) return;
      this.#steer();
      this.#acceptTcp();
    }, STEER_AFTER_MS);
  }

  /** Only the newest process steers, so only younger ones need the addresses. */
  #tellAddresses(): void {
    const younger = [...this.#sharers.values()].filter(({ isOlder }) => !isOlder);
    if (younger.length === 0 || !this.#sockets) return;
    const keys = new Set<number>();
    for (const { address, port } of this.#sockets.addresses()) {
      const key = addressKey(address, port, this.#salt);
      if (key !== null && keys.size < MAX_KEYS) keys.add(key);
    }
    const frames = keysFrames([...keys]);
    for (const { connection } of younger) for (const frame of frames) connection.send(frame);
  }

  #steer(): void {
    const fd = this.#sockets?.udp.fd ?? null;
    if (fd !== null) this.#attach(fd, this.#steering());
  }

  #steering(): Uint8Array {
    const steered = new Map<number, Steered>();
    for (const { keys, ordinal } of this.#joined()) {
      const socket = this.#order.indexOf(ordinal);
      for (const key of keys) if (steered.size < MAX_STEERED) steered.set(key, { key, socket });
    }
    return steeringProgram([...steered.values()], this.#order.indexOf(this.#ordinal), this.#salt);
  }

  #attach(fd: number, program: Uint8Array): void {
    if (this.#reuse?.attach(fd, program)) return;
    // Without steering, the kernel spreads datagrams by a hash, and those that reach the wrong process are relayed.
    this.#output.onFault(new Error("the kernel does not steer the datagrams of the shared media port"));
  }

  /** The socket of the port has been closed. */
  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer ?? undefined);
    for (const { connection } of this.#sharers.values()) connection.close();
    this.#sharers.clear();
    this.#links?.close();
    this.#reuse?.close();
  }
}
