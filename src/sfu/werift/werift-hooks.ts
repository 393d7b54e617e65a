/**
 * All uses of werift, public or not: its DTLS server and its SCTP association. SDP, ICE, SRTP and media are our own. The version is
 * pinned, and `test/sfu/transport/werift-hooks.test.ts` checks what is assumed here.
 */
import "./reflect.ts";
import { CipherContext, DtlsServer, Event, RTCSctpTransport } from "werift";
import { MASTER_KEY_BYTES, masterSaltBytes, type SrtpMasterKey, type SrtpProfile } from "../wire/srtp/srtp-cipher.ts";
import { isSoundSctp, type SctpProgress } from "./sctp-gate.ts";
import { type InboundAssociation, type LossyAssociation, patchAbandonment, patchReassembly } from "./sctp-patches.ts";

export type DtlsCertificate = Awaited<ReturnType<typeof CipherContext.createSelfSignedCertificateWithKey>>;

/** ECDSA with SHA-256 on P-256, which every browser accepts. */
export async function createCertificate(): Promise<DtlsCertificate> {
  return CipherContext.createSelfSignedCertificateWithKey({ hash: 4, signature: 3 }, 23);
}

export const SRTP_PROFILE_NUMBERS = {
  AEAD_AES_128_GCM: 0x0007,
  AES_CM_128_HMAC_SHA1_80: 0x0001,
} as const satisfies Record<SrtpProfile, number>;

/** A message of the handshake as both sides hashed it. */
export type HandshakeMessage = { type: number; body: Uint8Array; serialized: Uint8Array };

export type DtlsEngine = {
  /** Takes complete, ordered records only, because werift joins fragments without checks. */
  deliver(records: Buffer): void;
  send(data: Buffer): Promise<void>;
  /** Is true once the client's key exchange was read, so that encrypted records can be decrypted. */
  readonly hasKeys: boolean;
  readonly remoteCertificate: Uint8Array | null;
  readonly transcript: HandshakeMessage[];
  readonly masterSecret: Uint8Array;
  srtpKeys(): { incoming: SrtpMasterKey; outgoing: SrtpMasterKey } | null;
  close(): void;
};

type DtlsEngineEvents = {
  send(data: Buffer): void;
  onConnect(): void;
  onData(data: Buffer): void;
  onError(error: unknown): void;
  onClose(): void;
};

/** Members that werift's type declarations do not have, or have with narrower types. */
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
    srtpProfiles: profiles.map((profile) => SRTP_PROFILE_NUMBERS[profile]),
    extendedMasterSecret: true,
    certificateRequest: true,
  });
  const internals = server as unknown as Internals;
  keepRecordNumbersIncreasing(internals.dtls);
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
      const profile = profiles.find((name) => SRTP_PROFILE_NUMBERS[name] === server.srtp.srtpProfile);
      if (!profile) return null;
      const keys = server.extractSessionKeys(MASTER_KEY_BYTES, masterSaltBytes(profile));
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
 * werift repeats a flight unchanged, but a repeated record needs a new number (RFC 6347 §4.2.4): Firefox drops messages that come
 * too early, and would drop their repetitions as replays.
 */
function createRenumbering(): (datagram: Buffer) => Buffer {
  let next = 0;
  return (made) => {
    // The datagram may still be in the send queue.
    const datagram = Buffer.from(made);
    for (let at = 0; at + RECORD_HEADER_BYTES <= datagram.length; ) {
      // In later epochs the number is part of the encryption, and no record that is in order is dropped.
      if (datagram.readUInt16BE(at + 3) === 0) datagram.writeUIntBE(next++, at + 5, 6);
      at += RECORD_HEADER_BYTES + datagram.readUInt16BE(at + 11);
    }
    return datagram;
  };
}

/**
 * werift resets the record number to 0 after Finished, which had a higher one in the same epoch: a later record would repeat its
 * number, hence its nonce under the same key, and the peer would drop it as a replay.
 */
function keepRecordNumbersIncreasing(dtls: Internals["dtls"]): void {
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
  /** Bytes that were handed over and not yet sent. */
  readonly bufferedAmount: number;
  send(data: string | Buffer): void;
  close(): void;
};

type SctpEvents = {
  send(data: Buffer): Promise<void>;
  onChannel(channel: DataChannel): void;
  onMessage(channel: DataChannel, data: string | Buffer): void;
  onClosed(channel: DataChannel): void;
};

export type SctpEngine = { deliver(data: Buffer): void; close(): void };

export type SctpInternals = LossyAssociation & InboundAssociation;

export function patchSctp(association: SctpInternals): void {
  patchAbandonment(association);
  patchReassembly(association);
}

/** Creates the association of one peer; the client opens it and its channels. */
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
  patchSctp(association);
  sctp.start(remotePort).catch(() => {});
  return {
    deliver(data) {
      if (!isSoundSctp(data, association)) return;
      // A malformed packet would otherwise end the process as an unhandled rejection.
      association.handleData(data).catch(() => {});
    },
    close() {
      sctp.stop().catch(() => {});
      onStateChange.execute("closed");
    },
  };
}
