/**
 * Accepts connections, terminates TLS and recognises HTTP or TURN by the first decrypted byte. ALPN cannot distinguish
 * them: browsers behind a proxy offer HTTP's protocols for TURN, and many HTTP clients offer none.
 */
import type { Socket, TCPSocketListener } from "bun";
import type { Certificate } from "../../kernel/http/serving/certificate.ts";
import { unmappedAddress } from "../../kernel/net/addresses.ts";
import type { ClientAddress } from "../../protocol/client-table.ts";
import type { Admission } from "./admission.ts";
import { offeredProtocols } from "./client-hello.ts";
import { readProxyHeader } from "./proxy-header.ts";
import type { ConnectionHandler, StreamSocket } from "./sockets.ts";

type TlsListenerOptions = {
  hostname: string;
  port: number;
  reusePort: boolean;
  certificate: Certificate | null;
  isTrustedProxy: ((address: string) => boolean) | null;
  admission: Admission;
  http(socket: StreamSocket, client: ClientAddress): ConnectionHandler;
  turn: ((socket: StreamSocket, client: ClientAddress) => ConnectionHandler) | null;
};

/** A STUN message starts with a byte below 4, and no HTTP request does. */
const STUN_FIRST_BYTE_BELOW = 4;
const ACME_PROTOCOL = "acme-tls/1";
/** Bun accepts this option only in the wire format. */
const ACME_ALPN = Buffer.concat([Buffer.from([ACME_PROTOCOL.length]), Buffer.from(ACME_PROTOCOL)]);
/** Connections of trusted proxies wait under this holder until their client's IP address is known. */
const PROXIES = "proxies";
/** Enough for a PROXY header and a ClientHello. */
const MAX_PEEKED_BYTES = 20_000;
const NOTHING = Buffer.alloc(0);

type TlsConnection = { client: ClientAddress | null; handler: ConnectionHandler | null; settled: () => void };

/** Replaces the fields that a connection does not need any more once it has a handler. */
const HANDLED = { client: null, settled: () => {} };

type PeekedConnection = {
  client: ClientAddress;
  isProxy: boolean;
  bytes: Buffer;
  settled: () => void;
  close: () => void;
};

type TlsSocket = Socket<TlsConnection>;
type TcpSocket = Socket<PeekedConnection | null>;

export class TlsListener {
  handshakes = 0;
  readonly #listener: TCPSocketListener<PeekedConnection | null>;
  #certificate: Certificate | null;
  #challenge: Certificate | null = null;
  #peekedCount = 0;
  #isPeeking = false;
  #isDraining = false;

  constructor(private readonly options: TlsListenerOptions) {
    this.#certificate = options.certificate;
    this.#isPeeking = this.#mustPeek();
    const { hostname, port, reusePort } = options;
    const address = { hostname, port, reusePort };
    this.#listener = Bun.listen<PeekedConnection | null>({ ...address, data: null, socket: this.#tcpHandlers() });
  }

  get port(): number {
    return this.#listener.port;
  }

  setCertificate(certificate: Certificate): void {
    this.#certificate = certificate;
  }

  /** While a challenge is pending, clients that offer `acme-tls/1` get its certificate (RFC 8737). */
  setChallenge(certificate: Certificate | null): void {
    this.#challenge = certificate;
    this.#updatePeeking();
  }

  drain(): void {
    this.#isDraining = true;
  }

  stopListening(): void {
    this.#listener.stop();
  }

  close(): void {
    this.#listener.stop(true);
  }

  #mustPeek(): boolean {
    return this.options.isTrustedProxy !== null || this.#challenge !== null || this.#peekedCount > 0;
  }

  /**
   * A listener with a `data` handler also gets all encrypted bytes, so it has one only while it has to inspect the
   * first bytes.
   */
  #updatePeeking(): void {
    const must = this.#mustPeek();
    if (must === this.#isPeeking) return;
    this.#isPeeking = must;
    this.#listener.reload({ socket: this.#tcpHandlers() });
  }

  #tcpHandlers(): never {
    const handlers = { open: (tcp: TcpSocket) => this.#accept(tcp), drain() {}, error() {} };
    if (!this.#isPeeking) return handlers as never;
    return {
      ...handlers,
      data: (tcp: TcpSocket, bytes: Buffer) => {
        if (tcp.data) this.#peek(tcp, tcp.data, bytes);
      },
      end: (tcp: TcpSocket) => void (tcp.data && tcp.end()),
      close: (tcp: TcpSocket) => {
        if (!tcp.data) return;
        tcp.data.settled();
        this.#stopPeeking(tcp);
      },
    } as never;
  }

  #accept(tcp: TcpSocket): void {
    tcp.data = null;
    const client = { address: unmappedAddress(tcp.remoteAddress), port: tcp.remotePort };
    const isProxy = this.options.isTrustedProxy?.(client.address) ?? false;
    if (this.#isDraining) {
      tcp.terminate();
      return;
    }
    const { admission } = this.options;
    const peeked: PeekedConnection = {
      client,
      isProxy,
      bytes: NOTHING,
      settled: () => {},
      close: () => void tcp.terminate(),
    };
    // A proxy forwards many clients, and each is admitted under its own IP address once that is known.
    const close = () => peeked.close();
    const settled = isProxy ? admission.await(PROXIES, close) : admission.admit(client.address, close);
    if (!settled) {
      tcp.terminate();
      return;
    }
    peeked.settled = settled;
    if (!isProxy && this.#challenge === null) {
      this.#beginTls(tcp, peeked, this.#certificate);
      return;
    }
    this.#peekedCount++;
    tcp.data = peeked;
  }

  /** From here on the TLS socket has to be closed, because closing the TCP socket below it has no effect. */
  #beginTls(tcp: TcpSocket, peeked: PeekedConnection, certificate: Certificate | null, isAcmeChallenge = false): void {
    const { client, bytes, settled } = peeked;
    if (!certificate) {
      settled();
      tcp.terminate();
      return;
    }
    tcp.setNoDelay(true);
    const data: TlsConnection = { client, handler: null, settled };
    const protocols = isAcmeChallenge ? { ALPNProtocols: ACME_ALPN } : {};
    const [, tls] = tcp.upgradeTLS<TlsConnection>({
      data,
      tls: { ...certificate, ...protocols, isServer: true } as unknown as Bun.TLSOptions,
      isServer: true,
      ...(bytes.length > 0 && { initialData: bytes }),
      socket: isAcmeChallenge ? CHALLENGE_HANDLERS : this.#tlsHandlers,
    } as never);
    peeked.close = () => void tls.terminate();
  }

  readonly #tlsHandlers = {
    // Bun reports a missing client certificate as an error here, although none is requested.
    handshake: () => {
      this.handshakes++;
    },
    data: (tls: TlsSocket, bytes: Buffer) => {
      const connection = tls.data;
      if (connection.handler === null) {
        connection.handler = this.#chooseHandler(tls, connection, bytes[0] ?? 0);
        // The connection may stay open for days, so unneeded objects are released.
        Object.assign(connection, HANDLED);
      }
      connection.handler?.received(bytes);
    },
    drain: ({ data: connection }: TlsSocket) => connection.handler?.drained(),
    end: (tls: TlsSocket) => void tls.end(),
    close: ({ data: connection }: TlsSocket) => {
      connection.settled();
      connection.handler?.closed();
    },
    error() {},
  };

  #chooseHandler(tls: TlsSocket, { client, settled }: TlsConnection, first: number): ConnectionHandler | null {
    settled();
    if (client === null) return null;
    const { http, turn } = this.options;
    if (first >= STUN_FIRST_BYTE_BELOW) return http(tls, client);
    if (turn) return turn(tls, client);
    tls.terminate();
    return null;
  }

  #peek(tcp: TcpSocket, peeked: PeekedConnection, bytes: Buffer): void {
    peeked.bytes = Buffer.concat([peeked.bytes, bytes]);
    const found = this.#inspect(peeked);
    if (found === "refused" || (found === "incomplete" && peeked.bytes.length > MAX_PEEKED_BYTES)) {
      tcp.terminate();
      return;
    }
    if (found === "incomplete") return;
    this.#stopPeeking(tcp);
    const isChallenge = found === "challenge";
    this.#beginTls(tcp, peeked, isChallenge ? this.#challenge : this.#certificate, isChallenge);
  }

  /**
   * Takes the header of a proxy from the first bytes, and recognises the challenge check of the certificate authority.
   */
  #inspect(peeked: PeekedConnection): "client" | "challenge" | "refused" | "incomplete" {
    if (peeked.isProxy) {
      const header = readProxyHeader(peeked.bytes);
      if (header === null) return "incomplete";
      if (header === "wrong") return "refused";
      peeked.bytes = peeked.bytes.subarray(header.bytes);
      peeked.isProxy = false;
      if (header.client) {
        const settled = this.options.admission.admit(header.client.address, () => peeked.close());
        if (!settled) return "refused";
        peeked.settled();
        Object.assign(peeked, { client: header.client, settled });
      }
    }
    if (this.#challenge === null) return "client";
    const offered = offeredProtocols(peeked.bytes);
    if (offered === null) return "incomplete";
    return offered.length === 1 && offered[0] === ACME_PROTOCOL ? "challenge" : "client";
  }

  #stopPeeking(tcp: TcpSocket): void {
    tcp.data = null;
    this.#peekedCount--;
    this.#updatePeeking();
  }
}

/** The certificate authority only reads the certificate and closes the connection. */
const CHALLENGE_HANDLERS = {
  data() {},
  drain() {},
  end: (tls: TlsSocket) => void tls.end(),
  close: ({ data: connection }: TlsSocket) => connection.settled(),
  error() {},
};
