/**
 * The one port: ends TLS for everybody, and tells by the first decrypted byte what a client speaks. Application protocols
 * do not tell it: browsers offer the ones of HTTP for TURN behind a proxy, and many HTTP clients offer none.
 */
import type { Socket, TCPSocketListener } from "bun";
import { plainAddress } from "../kernel/addresses.ts";
import type { ClientAddress, ClientTable } from "../protocol/client-table.ts";
import type { Admission } from "./admission.ts";
import { type Carrier, carryTo } from "./carrier.ts";
import { offeredProtocols } from "./client-hello.ts";
import type { EdgeCertificate } from "./edge-protocol.ts";
import { readProxyHeader } from "./proxy-header.ts";
import type { EdgeSocket } from "./socket.ts";

type DoorOptions = {
  hostname: string;
  port: number;
  certificate: EdgeCertificate | null;
  isTrustedProxy: ((address: string) => boolean) | null;
  admission: Admission;
  clients: ClientTable;
  http(socket: EdgeSocket, client: ClientAddress): Carrier;
  /** Null: TURN is not served, and who speaks it is sent away. */
  turn: ((socket: EdgeSocket, client: ClientAddress) => Carrier) | null;
};

/** STUN's first byte; no request of HTTP starts with one of these. */
const FIRST_BYTE_OF_TURN_BELOW = 4;
const ACME_PROTOCOL = "acme-tls/1";
const LOOPBACK = "127.0.0.1";
/** Whose those are that were admitted elsewhere, or will be. */
const PROXIES = "proxies";
/** A header of a proxy and a ClientHello. */
const MAX_PEEKED_BYTES = 20_000;

/** A client behind its TLS. */
type Guest = { client: (() => ClientAddress) | null; carrier: Carrier | null; settled: () => void };

/** What is left of the rest once it has a carrier, which knows the client. */
const KNOWN = { client: null, settled: () => {} };

/** A connection that is looked at before it is decided where its bytes go, encrypted as they are. */
type Peeked = { client: ClientAddress; isProxy: boolean; bytes: Buffer; carrier: Carrier | null; settled: () => void };

export class Door {
  handshakes = 0;
  readonly #options: DoorOptions;
  readonly #listener: TCPSocketListener<Peeked | null>;
  /** Where connections go on that were looked at first: TLS can only begin on a socket of which nothing was read. */
  readonly #inner: TCPSocketListener<Peeked | null>;
  #certificate: EdgeCertificate | null;
  #challenge: TCPSocketListener<undefined> | null = null;
  #peeked = 0;
  #isPeeking = false;
  #isDraining = false;

  constructor(options: DoorOptions) {
    this.#options = options;
    this.#certificate = options.certificate;
    this.#isPeeking = this.#mustPeek();
    const { hostname, port } = options;
    this.#listener = Bun.listen<Peeked | null>({ hostname, port, data: null, socket: this.#outerHandlers() });
    const inner = { open: (raw: Socket<Peeked | null>) => this.#arrivedInside(raw), drain() {}, error() {} };
    this.#inner = Bun.listen<Peeked | null>({ hostname: LOOPBACK, port: 0, data: null, socket: inner as never });
  }

  get port(): number {
    return this.#listener.port;
  }

  /** Connections from now on are met with it; open ones go on as they are. */
  present(certificate: EdgeCertificate): void {
    this.#certificate = certificate;
  }

  /** While a challenge is pending, who offers its protocol is shown its certificate (RFC 8737). */
  challenge(certificate: EdgeCertificate | null): void {
    this.#challenge?.stop(true);
    this.#challenge = certificate ? challengeListener(certificate) : null;
    this.#look();
  }

  drain(): void {
    this.#isDraining = true;
  }

  close(): void {
    this.#listener.stop(true);
    this.#inner.stop(true);
    this.#challenge?.stop(true);
  }

  #mustPeek(): boolean {
    return this.#options.isTrustedProxy !== null || this.#challenge !== null || this.#peeked > 0;
  }

  /** A listener with a `data` handler is handed all the encrypted bytes as well: it has one only while it must. */
  #look(): void {
    const must = this.#mustPeek();
    if (must === this.#isPeeking) return;
    this.#isPeeking = must;
    this.#listener.reload({ socket: this.#outerHandlers() });
  }

  #outerHandlers(): never {
    const always = {
      open: (raw: Socket<Peeked | null>) => this.#arrived(raw),
      drain: ({ data: peeked }: Socket<Peeked | null>) => peeked?.carrier?.drained(),
      error() {},
    };
    if (!this.#isPeeking) return always as never;
    return {
      ...always,
      data: (raw: Socket<Peeked | null>, bytes: Buffer) => {
        if (raw.data) this.#peek(raw, raw.data, bytes);
      },
      end: (raw: Socket<Peeked | null>) => void (raw.data && raw.end()),
      close: (raw: Socket<Peeked | null>) => this.#peekedClosed(raw.data),
    } as never;
  }

  #arrived(raw: Socket<Peeked | null>): void {
    raw.data = null;
    const client = { address: plainAddress(raw.remoteAddress), port: raw.remotePort };
    const isProxy = this.#options.isTrustedProxy?.(client.address) ?? false;
    if (this.#isDraining) {
      raw.terminate();
      return;
    }
    let close = () => void raw.terminate();
    const { admission } = this.#options;
    // A proxy brings many clients: each is admitted under its own address, once that is known.
    const settled = isProxy ? admission.await(PROXIES, () => close()) : admission.admit(client.address, () => close());
    if (!settled) {
      close();
      return;
    }
    if (!isProxy && this.#challenge === null) {
      const tls = this.#beginTls(raw, () => client, settled);
      close = () => void tls?.terminate();
      return;
    }
    this.#peeked++;
    raw.data = { client, isProxy, bytes: Buffer.alloc(0), carrier: null, settled };
  }

  #arrivedInside(raw: Socket<Peeked | null>): void {
    const { admission, clients } = this.#options;
    const own = { address: LOOPBACK, port: raw.remotePort };
    let tls: Socket<Guest> | null = null;
    const settled = admission.await(PROXIES, () => void tls?.terminate());
    // Looked up when it speaks: the other end of this connection may not have written the slot yet.
    tls = this.#beginTls(raw, () => clients.clientOf(own.port) ?? own, settled);
  }

  #beginTls(raw: Socket<Peeked | null>, client: () => ClientAddress, settled: () => void): Socket<Guest> | null {
    const certificate = this.#certificate;
    if (!certificate) {
      settled();
      raw.terminate();
      return null;
    }
    raw.setNoDelay(true);
    const data: Guest = { client, carrier: null, settled };
    const [, tls] = raw.upgradeTLS<Guest>({
      data,
      tls: { ...certificate, isServer: true } as Bun.TLSOptions,
      isServer: true,
      socket: this.#guestHandlers,
    } as never);
    return tls;
  }

  readonly #guestHandlers = {
    // Its report of a missing client certificate means nothing: none is asked for.
    handshake: () => {
      this.handshakes++;
    },
    data: (tls: Socket<Guest>, bytes: Buffer) => {
      const guest = tls.data;
      if (guest.carrier === null) {
        guest.carrier = this.#carrierFor(tls, guest, bytes[0] ?? 0);
        // It may stay for days, and needs what it came with no more.
        Object.assign(guest, KNOWN);
      }
      guest.carrier?.received(bytes);
    },
    drain: ({ data: guest }: Socket<Guest>) => guest.carrier?.drained(),
    end: (tls: Socket<Guest>) => void tls.end(),
    close: ({ data: guest }: Socket<Guest>) => {
      guest.settled();
      guest.carrier?.closed();
    },
    error() {},
  };

  #carrierFor(tls: Socket<Guest>, { client, settled }: Guest, first: number): Carrier | null {
    settled();
    if (client === null) return null;
    const { http, turn } = this.#options;
    if (first >= FIRST_BYTE_OF_TURN_BELOW) return http(tls, client());
    if (turn) return turn(tls, client());
    tls.terminate();
    return null;
  }

  #peek(raw: Socket<Peeked | null>, peeked: Peeked, bytes: Buffer): void {
    if (peeked.carrier) {
      peeked.carrier.received(bytes);
      return;
    }
    peeked.bytes = Buffer.concat([peeked.bytes, bytes]);
    const target = this.#targetOf(raw, peeked);
    if (target === "wrong" || (target === null && peeked.bytes.length > MAX_PEEKED_BYTES)) raw.terminate();
    if (target === null || target === "wrong") return;
    peeked.settled();
    peeked.carrier = carryTo({ hostname: LOOPBACK, port: target.port }, raw, peeked.client, this.#options.clients);
    peeked.carrier.received(peeked.bytes);
    peeked.bytes = Buffer.alloc(0);
  }

  /** Null: not enough was seen yet. */
  #targetOf(raw: Socket<Peeked | null>, peeked: Peeked): TCPSocketListener<unknown> | "wrong" | null {
    if (peeked.isProxy) {
      const header = readProxyHeader(peeked.bytes);
      if (header === null || header === "wrong") return header;
      peeked.bytes = peeked.bytes.subarray(header.bytes);
      peeked.isProxy = false;
      if (header.client) {
        const settled = this.#options.admission.admit(header.client.address, () => raw.terminate());
        if (!settled) return "wrong";
        peeked.settled();
        Object.assign(peeked, { client: header.client, settled });
      }
    }
    if (this.#challenge === null) return this.#inner;
    const offered = offeredProtocols(peeked.bytes);
    if (offered === null) return null;
    return offered.length === 1 && offered[0] === ACME_PROTOCOL ? this.#challenge : this.#inner;
  }

  #peekedClosed(peeked: Peeked | null): void {
    if (!peeked) return;
    this.#peeked--;
    peeked.settled();
    peeked.carrier?.closed();
    this.#look();
  }
}

/** Only for the authority, which looks at the certificate and goes. */
function challengeListener(certificate: EdgeCertificate): TCPSocketListener<undefined> {
  // In the form of the wire: a list would be refused, a plain text be misread.
  const protocols = Buffer.concat([Buffer.from([ACME_PROTOCOL.length]), Buffer.from(ACME_PROTOCOL)]);
  return Bun.listen({
    hostname: LOOPBACK,
    port: 0,
    tls: { ...certificate, ALPNProtocols: protocols } as unknown as Bun.TLSOptions,
    socket: { data() {}, end: (socket) => void socket.end(), error() {} },
  }) as TCPSocketListener<undefined>;
}
