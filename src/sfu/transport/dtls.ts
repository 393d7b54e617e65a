/** The server side of DTLS with one peer: the handshake behind the gate, and the check of its certificate against the offer. */
import { edenGC } from "bun:jsc";
import { createHash, createHmac, timingSafeEqual, verify, X509Certificate } from "node:crypto";
import {
  createDtlsServer,
  type DtlsCertificate,
  type DtlsEngine,
  type EstablishedDtls,
  type HandshakeMessage,
} from "../werift/werift-hooks.ts";
import { CONTENT_TYPE, eachRecord, openRecord, sealRecord } from "../wire/dtls/records.ts";
import type { Fingerprint } from "../wire/sdp/offer.ts";
import type { SrtpMasterKey, SrtpProfile } from "../wire/srtp/srtp.ts";
import { DtlsGate } from "./dtls-gate.ts";

const CERTIFICATE_VERIFY = 15;
const FINISHED = 20;
const VERIFY_DATA_BYTES = 12;
const WARNING = 1;
const FATAL = 2;
const CLOSE_NOTIFY = 0;
const HASHES: Record<number, string> = { 4: "sha256", 5: "sha384", 6: "sha512" };
const FINGERPRINT_HASHES: ReadonlySet<string> = new Set(["sha-256", "sha-384", "sha-512"]);

export type DtlsKeys = { incoming: SrtpMasterKey; outgoing: SrtpMasterKey };

export type DtlsOptions = {
  certificate: DtlsCertificate;
  profiles: readonly SrtpProfile[];
  /** The fingerprints of the offer, one of which must be that of the peer's certificate. */
  fingerprints: readonly Fingerprint[];
  send(data: Buffer): void;
  onConnected(keys: DtlsKeys): void;
  onData(data: Buffer): void;
  onFailed(reason: string): void;
  onClosed(): void;
  /** Called when the handshake has succeeded or failed. */
  onHandshakeEnded(): void;
};

export type Dtls = Pick<DtlsSession, "state" | "receive" | "send" | "close">;

export class DtlsSession {
  #state: "connecting" | "connected" | "failed" | "closed" = "connecting";
  readonly #options: DtlsOptions;
  /** Null once the handshake has ended. */
  #handshake: { readonly engine: DtlsEngine; readonly gate: DtlsGate } | null;
  #established: EstablishedDtls | null = null;

  constructor(options: DtlsOptions) {
    this.#options = options;
    const engine = createDtlsServer(options.certificate, options.profiles, {
      send: (data) => options.send(data),
      onConnect: () => this.#connected(engine, gate),
      onError: (error) => this.#fail(String(error)),
    });
    const gate = new DtlsGate({
      deliver: (record) => engine.deliver(record),
      hasKeys: () => engine.hasKeys,
    });
    this.#handshake = { engine, gate };
  }

  get state(): "connecting" | "connected" | "failed" | "closed" {
    return this.#state;
  }

  receive(datagram: Buffer): void {
    if (this.#handshake) this.#handshake.gate.receive(datagram);
    // Unencrypted records are dropped: a forged plain alert would otherwise end the connection.
    else eachRecord(datagram, (record, epoch) => epoch > 0 && this.#receiveRecord(record));
  }

  #receiveRecord(record: Buffer): void {
    const established = this.#established;
    const content = established && openRecord(record, established.incoming);
    if (!content) return;
    const [type, alert] = content;
    switch (record[0]) {
      case CONTENT_TYPE.applicationData:
        this.#options.onData(content);
        break;
      case CONTENT_TYPE.handshake:
        if (type === FINISHED) for (const datagram of established.lastFlight.repeat()) this.#options.send(datagram);
        break;
      case CONTENT_TYPE.alert:
        if (type !== FATAL && alert !== CLOSE_NOTIFY) break;
        this.close();
        this.#options.onClosed();
    }
  }

  /** Sends application data, which is always SCTP. */
  async send(data: Buffer): Promise<void> {
    this.#sendRecord(CONTENT_TYPE.applicationData, data);
  }

  #sendRecord(contentType: number, content: Buffer): void {
    const established = this.#established;
    if (!established) return;
    const number = ++established.recordNumber;
    this.#options.send(sealRecord(contentType, number, content, established.outgoing));
  }

  /** Tells the client too, which would otherwise send media until its connectivity checks have failed (RFC 7675 §5.2). */
  close(): void {
    this.#sendRecord(CONTENT_TYPE.alert, Buffer.from([WARNING, CLOSE_NOTIFY]));
    this.#end("closed");
  }

  #end(state: "closed" | "failed"): void {
    this.#state = state;
    this.#handshake?.engine.close();
    this.#handshake = null;
    this.#established = null;
  }

  #connected(engine: DtlsEngine, gate: DtlsGate): void {
    if (this.#state !== "connecting") return;
    const keys = engine.srtpKeys();
    const problem = keys ? findImpostor(engine, this.#options.fingerprints) : "no SRTP profile in common";
    if (problem || !keys) {
      this.#fail(problem ?? "no keys");
      return;
    }
    this.#state = "connected";
    this.#established = engine.established();
    engine.close();
    this.#handshake = null;
    this.#options.onConnected(keys);
    this.#options.onHandshakeEnded();
    for (const record of gate.held) this.#receiveRecord(record);
  }

  #fail(reason: string): void {
    if (this.#state !== "connecting") return;
    this.#end("failed");
    this.#options.onFailed(reason);
    this.#options.onHandshakeEnded();
  }
}

const HANDSHAKES_PER_COLLECTION = 4;

/**
 * Returns a function to call after each handshake, which collects the young generation after every fourth. Otherwise the heap grows
 * to twice its size before it is collected, and objects never move: what many connections keep would hold the blocks in which the
 * garbage of their handshakes was.
 */
export function createHandshakeCollector(collectYoung: () => void = edenGC): () => void {
  let handshakes = 0;
  return () => {
    // The handshake that has just ended is on the stack, which keeps its garbage alive.
    if (++handshakes % HANDSHAKES_PER_COLLECTION === 0) setImmediate(collectYoung);
  };
}

/** The engine checks neither signature nor Finished, and only those prove that the peer holds the certificate's key. */
function findImpostor(engine: DtlsEngine, fingerprints: readonly Fingerprint[]): string | null {
  const { remoteCertificate, transcript } = engine;
  if (!remoteCertificate) return "the peer sent no certificate";
  if (!fingerprints.some((fingerprint) => matches(remoteCertificate, fingerprint)))
    return "the certificate is not the offered one";
  if (!isSignatureValid(transcript, remoteCertificate)) return "the certificate's signature is wrong";
  if (!isFinishedValid(transcript, engine.masterSecret)) return "the Finished message is wrong";
  return null;
}

function matches(certificate: Uint8Array, { algorithm, value }: Fingerprint): boolean {
  if (!FINGERPRINT_HASHES.has(algorithm)) return false;
  const digest = createHash(algorithm.replace("-", "")).update(certificate).digest("hex");
  return digest === value.replaceAll(":", "").toLowerCase();
}

function messagesBefore(
  transcript: readonly HandshakeMessage[],
  type: number,
): { message: HandshakeMessage; before: Buffer } | null {
  const index = transcript.findIndex((message) => message.type === type);
  const message = transcript[index];
  if (!message) return null;
  return { message, before: Buffer.concat(transcript.slice(0, index).map((earlier) => earlier.serialized)) };
}

export function isSignatureValid(transcript: readonly HandshakeMessage[], certificate: Uint8Array): boolean {
  const found = messagesBefore(transcript, CERTIFICATE_VERIFY);
  if (!found || found.message.body.length < 4) return false;
  const body = Buffer.from(found.message.body);
  const hash = HASHES[body[0] ?? 0];
  if (!hash) return false;
  const signature = body.subarray(4, 4 + body.readUInt16BE(2));
  try {
    return verify(hash, found.before, new X509Certificate(certificate).publicKey, signature);
  } catch {
    return false;
  }
}

export function isFinishedValid(transcript: readonly HandshakeMessage[], masterSecret: Uint8Array): boolean {
  const found = messagesBefore(transcript, FINISHED);
  if (!found || found.message.body.length !== VERIFY_DATA_BYTES) return false;
  const seed = Buffer.concat([Buffer.from("client finished"), createHash("sha256").update(found.before).digest()]);
  const expected = pseudoRandom(masterSecret, seed).subarray(0, VERIFY_DATA_BYTES);
  return timingSafeEqual(expected, found.message.body);
}

/** The first 32 bytes of P_SHA256 (RFC 5246 §5). */
function pseudoRandom(secret: Uint8Array, seed: Uint8Array): Buffer {
  const a1 = createHmac("sha256", secret).update(seed).digest();
  return createHmac("sha256", secret).update(a1).update(seed).digest();
}

/** The fingerprint of the server's certificate, for its answers (RFC 8122). */
export function fingerprintOf(certificate: DtlsCertificate): { algorithm: string; value: string } {
  const digest = createHash("sha256").update(new X509Certificate(certificate.certPem).raw).digest();
  const value = [...digest].map((byte) => byte.toString(16).padStart(2, "0").toUpperCase()).join(":");
  return { algorithm: "sha-256", value };
}
