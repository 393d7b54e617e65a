/**
 * Everything of werift that Stoa touches, public or not, in one place: its DTLS server and its SCTP association. SDP, ICE,
 * SRTP and media are ours. `test/sfu/transport/werift-hooks.test.ts` holds werift to what is assumed here; the version is pinned.
 */
import "./reflect.ts";
import { CipherContext, DtlsServer, Event, RTCSctpTransport } from "werift";
import type { SrtpMasterKey, SrtpProfile } from "../wire/srtp/srtp.ts";
import { isSoundSctp, type SctpProgress } from "./sctp-gate.ts";
import {
  giveUpLossyMessages,
  type InboundAssociation,
  joinMessagesWhole,
  type LossyAssociation,
} from "./sctp-inbound.ts";

export type DtlsCertificate = Awaited<ReturnType<typeof CipherContext.createSelfSignedCertificateWithKey>>;

/** ECDSA with SHA-256 on P-256: what every browser accepts. */
export async function createCertificate(): Promise<DtlsCertificate> {
  return CipherContext.createSelfSignedCertificateWithKey({ hash: 4, signature: 3 }, 23);
}

const PROFILES = { AEAD_AES_128_GCM: 0x0007, AES_CM_128_HMAC_SHA1_80: 0x0001 } as const satisfies Record<
  SrtpProfile,
  number
>;

/** One message of the handshake as both sides hashed it. */
export type HandshakeMessage = { type: number; body: Uint8Array; serialized: Uint8Array };

export type DtlsEngine = {
  /** Whole, ordered records only: werift joins fragments blindly. */
  deliver(records: Buffer): void;
  send(data: Buffer): Promise<void>;
  /** True once the client's key exchange was read: from here on encrypted records can be opened. */
  readonly hasKeys: boolean;
  readonly remoteCertificate: Uint8Array | null;
  readonly transcript: HandshakeMessage[];
  readonly masterSecret: Uint8Array;
  srtpKeys(): { incoming: SrtpMasterKey; outgoing: SrtpMasterKey } | null;
  close(): void;
};

export type DtlsEngineEvents = {
  send(data: Buffer): void;
  onConnect(): void;
  onData(data: Buffer): void;
  onError(error: unknown): void;
  onClose(): void;
};

/** Members the type declarations do not show, or show more narrowly. */
type Internals = {
  cipher: { cipher?: unknown; masterSecret: Buffer; remoteCertificate?: Buffer };
  dtls: {
    recordSequenceNumber: number;
    sortedHandshakeCache: { msg_type: number; fragment: Buffer; serialize(): Buffer }[];
  };
};

export function createDtlsServer(
  certificate: DtlsCertificate,
  profiles: readonly SrtpProfile[],
  events: DtlsEngineEvents,
): DtlsEngine {
  const renumber = createRenumbering();
  const transport = {
    type: "stoa",
    address: { address: "0.0.0.0", family: "IPv4", port: 0 },
    closed: false,
    onData: (_data: Buffer) => {},
    send: async (data: Buffer) => events.send(renumber(data)),
    close: async () => {},
  };
  const server = new DtlsServer({
    cert: certificate.certPem,
    key: certificate.keyPem,
    signatureHash: certificate.signatureHash,
    transport,
    srtpProfiles: profiles.map((profile) => PROFILES[profile]),
    extendedMasterSecret: true,
    certificateRequest: true,
  });
  const internals = server as unknown as Internals;
  neverCountAgain(internals.dtls);
  server.onConnect.subscribe(events.onConnect);
  server.onData.subscribe((data) => events.onData(data));
  server.onError.subscribe(events.onError);
  server.onClose.subscribe(events.onClose);
  return {
    deliver: (records) => transport.onData(records),
    send: (data) => server.send(data),
    get hasKeys() {
      return internals.cipher.cipher !== undefined;
    },
    get remoteCertificate() {
      return internals.cipher.remoteCertificate ?? null;
    },
    get transcript() {
      return internals.dtls.sortedHandshakeCache.map((message) => ({
        type: message.msg_type,
        body: message.fragment,
        serialized: message.serialize(),
      }));
    },
    get masterSecret() {
      return internals.cipher.masterSecret;
    },
    srtpKeys() {
      const profile = profiles.find((name) => PROFILES[name] === server.srtp.srtpProfile);
      if (!profile) return null;
      const keys = server.extractSessionKeys(16, profile === "AEAD_AES_128_GCM" ? 12 : 14);
      return {
        incoming: { profile, key: keys.remoteKey, salt: keys.remoteSalt },
        outgoing: { profile, key: keys.localKey, salt: keys.localSalt },
      };
    },
    close() {
      for (const event of [server.onConnect, server.onData, server.onError, server.onClose]) event.allUnsubscribe();
    },
  };
}

const RECORD_HEADER_BYTES = 13;

/**
 * werift sends a flight again as it was. A record that is sent again needs a number of its own (RFC 6347 §4.2.4): Firefox
 * drops messages that come before their turn, and with the same number would drop them again, as a replay, for ever.
 */
function createRenumbering(): (datagram: Buffer) => Buffer {
  let next = 0;
  return (made) => {
    // The same one may still be on its way out.
    const datagram = Buffer.from(made);
    for (let at = 0; at + RECORD_HEADER_BYTES <= datagram.length; ) {
      // Later epochs have the number under their encryption, and of those nothing is dropped that was in order.
      if (datagram.readUInt16BE(at + 3) === 0) datagram.writeUIntBE(next++, at + 5, 6);
      at += RECORD_HEADER_BYTES + datagram.readUInt16BE(at + 11);
    }
    return datagram;
  };
}

/**
 * werift sets the number of records back to 0 behind Finished, which had a higher one of the same epoch: a later record would
 * have its number, hence its nonce under the same key, and the peer would drop it as a replay.
 */
function neverCountAgain(dtls: Internals["dtls"]): void {
  let last = dtls.recordSequenceNumber;
  Object.defineProperty(dtls, "recordSequenceNumber", {
    get: () => last,
    set: (next: number) => {
      last = Math.max(last, next);
    },
  });
}

export type DataChannel = {
  readonly label: string;
  readonly protocol: string;
  readonly isOpen: boolean;
  /** Bytes handed over and not yet on the wire. */
  readonly bufferedAmount: number;
  send(data: string | Buffer): void;
  close(): void;
};

export type SctpEvents = {
  send(data: Buffer): Promise<void>;
  onChannel(channel: DataChannel): void;
  onMessage(channel: DataChannel, data: string | Buffer): void;
  onClosed(channel: DataChannel): void;
};

export type SctpEngine = { deliver(data: Buffer): void; close(): void };

export type SctpInternals = LossyAssociation & InboundAssociation;

/** Where werift's association does not do what the protocol says. */
export function mendSctp(association: SctpInternals): void {
  giveUpLossyMessages(association);
  joinMessagesWhole(association);
}

/** The association of one peer; the client opens it and its channels. */
export function createSctp(maxMessageSize: number, remotePort: number, events: SctpEvents): SctpEngine {
  const onStateChange = new Event<[string]>();
  const sctp = new RTCSctpTransport(5000, maxMessageSize);
  const dtlsTransport = {
    id: sctp.id,
    iceTransport: { role: "controlled" },
    onStateChange,
    sendData: events.send,
    dataReceiver: (_data: Buffer) => {},
  };
  sctp.setDtlsTransport(dtlsTransport as unknown as Parameters<RTCSctpTransport["setDtlsTransport"]>[0]);
  sctp.setRemoteMaxMessageSize(maxMessageSize);
  sctp.onDataChannel.subscribe((opened) => {
    const channel: DataChannel = {
      label: opened.label,
      protocol: opened.protocol,
      get isOpen() {
        return opened.readyState === "open";
      },
      get bufferedAmount() {
        return opened.bufferedAmount;
      },
      send: (data) => opened.send(data),
      close: () => opened.close(),
    };
    opened.onMessage.subscribe((data) => events.onMessage(channel, data));
    opened.stateChange.subscribe((state) => {
      if (state === "closed") events.onClosed(channel);
    });
    events.onChannel(channel);
  });
  const association = sctp.sctp as unknown as SctpProgress &
    SctpInternals & { handleData(data: Buffer): Promise<void> };
  mendSctp(association);
  sctp.start(remotePort).catch(() => {});
  return {
    deliver(data) {
      if (!isSoundSctp(data, association)) return;
      // werift drops the promise; a malformed packet would end the process as an unhandled rejection.
      association.handleData(data).catch(() => {});
    },
    close() {
      sctp.stop().catch(() => {});
      onStateChange.execute("closed");
    },
  };
}
