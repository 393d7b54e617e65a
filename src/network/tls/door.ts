/**
 * The one port: ends TLS for everybody, and tells by the first decrypted byte what a client speaks. Application protocols
 * do not tell it: browsers offer the ones of HTTP for TURN behind a proxy, and many HTTP clients offer none.
 */
import type { Socket, TCPSocketListener } from "bun";
import { plainAddress } from "../../kernel/addresses.ts";
import type { ClientAddress } from "../../protocol/client-table.ts";
import type { Admission } from "./admission.ts";
import type { Carrier } from "./carrier.ts";
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
  http(socket: EdgeSocket, client: ClientAddress): Carrier;
  /** Null: TURN is not served, and who speaks it is sent away. */
  turn: ((socket: EdgeSocket, client: ClientAddress) => Carrier) | null;
};

/** STUN's first byte; no request of HTTP starts with one of these. */
const FIRST_BYTE_OF_TURN_BELOW = 4;
const ACME_PROTOCOL = "acme-tls/1";
/** In the form of the wire: a list would be refused, a plain text be misread. */
const ACME_ALPN = Buffer.concat([Buffer.from([ACME_PROTOCOL.length]), Buffer.from(ACME_PROTOCOL)]);
/** Whose those are that will be admitted under another address. */
const PROXIES = "proxies";
/** A header of a proxy and a ClientHello. */
const MAX_PEEKED_BYTES = 20_000;
const NOTHING = Buffer.alloc(0);

/** A client behind its TLS. */
type Guest = { client: ClientAddress | null; carrier: Carrier | null; settled: () => void };

/** What is left of the rest once it has a carrier, which knows the client. */
const KNOWN = { client: null, settled: () => {} };

/** A connection that is looked at before its TLS begins, with what it has said so far. */
type Peeked = { client: ClientAddress; isProxy: boolean; bytes: Buffer; settled: () => void; close: () => void };

type RawSocket = Socket<Peeked | null>;

export class Door {
  handshakes = 0;
  readonly #options: DoorOptions;
  readonly #listener: TCPSocketListener<Peeked | null>;
  #certificate: EdgeCertificate | null;
  #challenge: EdgeCertificate | null = null;
  #peeked = 0;
  #isPeeking = false;
  #isDraining = false;

  constructor(options: DoorOptions) {
    this.#options = options;
    this.#certificate = options.certificate;
    this.#isPeeking = this.#mustPeek();
    const { hostname, port } = options;
    this.#listener = Bun.listen<Peeked | null>({ hostname, port, data: null, socket: this.#outerHandlers() });
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
    this.#challenge = certificate;
    this.#look();
  }

  drain(): void {
    this.#isDraining = true;
  }

  close(): void {
    this.#listener.stop(true);
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
    const always = { open: (raw: RawSocket) => this.#arrived(raw), drain() {}, error() {} };
    if (!this.#isPeeking) return always as never;
    return {
      ...always,
      data: (raw: RawSocket, bytes: Buffer) => {
        if (raw.data) this.#peek(raw, raw.data, bytes);
      },
      end: (raw: RawSocket) => void (raw.data && raw.end()),
      close: (raw: RawSocket) => {
        if (!raw.data) return;
        raw.data.settled();
        this.#looked(raw);
      },
    } as never;
  }

  #arrived(raw: RawSocket): void {
    raw.data = null;
    const client = { address: plainAddress(raw.remoteAddress), port: raw.remotePort };
    const isProxy = this.#options.isTrustedProxy?.(client.address) ?? false;
    if (this.#isDraining) {
      raw.terminate();
      return;
    }
    const { admission } = this.#options;
    const peeked: Peeked = { client, isProxy, bytes: NOTHING, settled: () => {}, close: () => void raw.terminate() };
    // A proxy brings many clients: each is admitted under its own address, once that is known.
    const close = () => peeked.close();
    const settled = isProxy ? admission.await(PROXIES, close) : admission.admit(client.address, close);
    if (!settled) {
      raw.terminate();
      return;
    }
    peeked.settled = settled;
    if (!isProxy && this.#challenge === null) {
      this.#beginTls(raw, peeked, this.#certificate);
      return;
    }
    this.#peeked++;
    raw.data = peeked;
  }

  /** Whoever closes it from now on closes its TLS: the socket below is a shell. */
  #beginTls(raw: RawSocket, peeked: Peeked, certificate: EdgeCertificate | null, isProof = false): void {
    const { client, bytes, settled } = peeked;
    if (!certificate) {
      settled();
      raw.terminate();
      return;
    }
    raw.setNoDelay(true);
    const data: Guest = { client, carrier: null, settled };
    const protocols = isProof ? { ALPNProtocols: ACME_ALPN } : {};
    const [, tls] = raw.upgradeTLS<Guest>({
      data,
      tls: { ...certificate, ...protocols, isServer: true } as unknown as Bun.TLSOptions,
      isServer: true,
      // What was read of it before.
      ...(bytes.length > 0 && { initialData: bytes }),
      socket: isProof ? PROOF_HANDLERS : this.#guestHandlers,
    } as never);
    peeked.close = () => void tls.terminate();
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
    if (first >= FIRST_BYTE_OF_TURN_BELOW) return http(tls, client);
    if (turn) return turn(tls, client);
    tls.terminate();
    return null;
  }

  #peek(raw: RawSocket, peeked: Peeked, bytes: Buffer): void {
    peeked.bytes = Buffer.concat([peeked.bytes, bytes]);
    const isProof = this.#isProof(peeked);
    if (isProof === "refused" || (isProof === null && peeked.bytes.length > MAX_PEEKED_BYTES)) raw.terminate();
    if (isProof === null || isProof === "refused") return;
    this.#looked(raw);
    this.#beginTls(raw, peeked, isProof ? this.#challenge : this.#certificate, isProof);
  }

  /** Whether it is the authority, which wants to be shown the proof. Null: not enough was seen yet. */
  #isProof(peeked: Peeked): boolean | "refused" | null {
    if (peeked.isProxy) {
      const header = readProxyHeader(peeked.bytes);
      if (header === null) return null;
      if (header === "wrong") return "refused";
      peeked.bytes = peeked.bytes.subarray(header.bytes);
      peeked.isProxy = false;
      if (header.client) {
        const settled = this.#options.admission.admit(header.client.address, () => peeked.close());
        if (!settled) return "refused";
        peeked.settled();
        Object.assign(peeked, { client: header.client, settled });
      }
    }
    if (this.#challenge === null) return false;
    const offered = offeredProtocols(peeked.bytes);
    return offered && offered.length === 1 && offered[0] === ACME_PROTOCOL;
  }

  #looked(raw: RawSocket): void {
    raw.data = null;
    this.#peeked--;
    this.#look();
  }
}

/** Only for the authority, which looks at the certificate and goes. */
const PROOF_HANDLERS = {
  data() {},
  drain() {},
  end: (tls: Socket<Guest>) => void tls.end(),
  close: ({ data: guest }: Socket<Guest>) => guest.settled(),
  error() {},
};
