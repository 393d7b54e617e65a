/**
 * Everything that uses werift, by public and internal members: its DTLS server and its SCTP association. SDP, ICE, SRTP and media
 * are our own code. werift's version is pinned, and `test/sfu/transport/werift-hooks.test.ts` checks what is assumed here.
 */
import "./reflect.ts";
import { createPrivateKey, type KeyObject, sign, X509Certificate } from "node:crypto";
import { CipherContext, DtlsServer, Event, RTCDataChannel, RTCDataChannelParameters, RTCSctpTransport } from "werift";
import { eachRecord, openRecord, type RecordKey } from "../wire/dtls/records.ts";
import { MASTER_KEY_BYTES, masterSaltBytes, type SrtpMasterKey, type SrtpProfile } from "../wire/srtp/srtp-cipher.ts";
import { RECEIVE_WINDOW_BYTES } from "./sctp-inbound.ts";
import { type LossyAssociation, patchAbandonment } from "./sctp-patches.ts";
import { type ReceivingAssociation, SctpReceiver } from "./sctp-receiver.ts";

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
  /** Takes one complete record in order, because werift joins fragments without checks. */
  deliver(record: Buffer): void;
  /** Is true once the client's key exchange was read, so that encrypted records can be decrypted. */
  readonly hasKeys: boolean;
  readonly remoteCertificate: Uint8Array | null;
  readonly transcript: HandshakeMessage[];
  readonly masterSecret: Uint8Array;
  srtpKeys(): { incoming: SrtpMasterKey; outgoing: SrtpMasterKey } | null;
  /** What is needed after the handshake. It does not refer to the engine, whose state takes tens of kilobytes. */
  established(): EstablishedDtls;
  close(): void;
};

export type EstablishedDtls = {
  incoming: RecordKey;
  outgoing: RecordKey;
  /** The number of the last protected record that was sent. */
  recordNumber: number;
  lastFlight: LastFlight;
};

type DtlsEngineEvents = {
  send(data: Buffer): void;
  onConnect(): void;
  onError(error: unknown): void;
};

/** Members that werift's type declarations do not have, or have with narrower types. */
type Internals = {
  cipher: {
    cipher?: RecordCipher;
    masterSecret: Buffer;
    remoteCertificate?: Buffer;
    localCert: Buffer;
    localPrivateKey: { sign(data: Buffer, hash: string): Buffer };
    signatureHashAlgorithm: DtlsCertificate["signatureHash"];
  };
  handleFragmentHandshake(messages: HandshakeFragment[]): HandshakeFragment[];
  dtls: {
    recordSequenceNumber: number;
    sortedHandshakeCache: { msg_type: number; fragment: Buffer; serialize(): Buffer }[];
  };
};

type HandshakeFragment = { fragment_length: number; length: number };

/** AES-128-GCM in all cipher suites that werift's server accepts. A nonce begins with the salt. */
type RecordCipher = { clientWriteKey: Buffer; clientNonce: Buffer; serverWriteKey: Buffer; serverNonce: Buffer };

const SALT_BYTES = 4;
const recordKey = (key: Buffer, nonce: Buffer): RecordKey => ({
  key: Uint8Array.from(key),
  salt: Uint8Array.from(nonce.subarray(0, SALT_BYTES)),
});

const parsedCertificates = new WeakMap<DtlsCertificate, { der: Buffer; key: KeyObject }>();

/** werift would parse the certificate and its key in JavaScript, and the key once more to sign, for every handshake. */
function parsed(certificate: DtlsCertificate): { der: Buffer; key: KeyObject } {
  const known = parsedCertificates.get(certificate);
  if (known) return known;
  const made = { der: new X509Certificate(certificate.certPem).raw, key: createPrivateKey(certificate.keyPem) };
  parsedCertificates.set(certificate, made);
  return made;
}

export function createDtlsServer(
  certificate: DtlsCertificate,
  profiles: readonly SrtpProfile[],
  events: DtlsEngineEvents,
): DtlsEngine {
  const lastFlight = new LastFlight();
  const transport = {
    type: "stoa",
    address: { address: "0.0.0.0", family: "IPv4", port: 0 },
    closed: false,
    onData: (_data: Buffer) => {},
    send: async (data: Buffer) => events.send(lastFlight.sent(data)),
    close: async () => {},
  };
  const server = new DtlsServer({
    transport,
    srtpProfiles: profiles.map((profile) => SRTP_PROFILE_NUMBERS[profile]),
    extendedMasterSecret: true,
    certificateRequest: true,
  });
  const internals = server as unknown as Internals;
  const { der, key } = parsed(certificate);
  internals.cipher.localCert = der;
  internals.cipher.localPrivateKey = { sign: (data, hash) => sign(hash, data, key) };
  internals.cipher.signatureHashAlgorithm = certificate.signatureHash;
  keepRecordNumbersIncreasing(internals.dtls);
  // werift keeps fragments without a limit; the gate has joined all that come before encryption, and Finished needs none.
  internals.handleFragmentHandshake = (messages) =>
    messages.filter((message) => message.fragment_length === message.length);
  server.onConnect.subscribe(events.onConnect);
  server.onError.subscribe(events.onError);
  return {
    deliver(record) {
      if (record.readUInt16BE(3) > 0) {
        const { cipher } = internals.cipher;
        // werift writes out every record that it cannot decrypt.
        if (!cipher || !openRecord(record, recordKey(cipher.clientWriteKey, cipher.clientNonce))) return;
        lastFlight.begin();
      }
      transport.onData(record);
    },
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
    established() {
      const { cipher } = internals.cipher;
      if (!cipher) throw new Error("the handshake has not ended");
      return {
        incoming: recordKey(cipher.clientWriteKey, cipher.clientNonce),
        outgoing: recordKey(cipher.serverWriteKey, cipher.serverNonce),
        recordNumber: internals.dtls.recordSequenceNumber,
        lastFlight,
      };
    },
    close() {
      for (const event of [server.onConnect, server.onError]) event.allUnsubscribe();
    },
  };
}

/**
 * The datagrams by which the server ends the handshake, and the record numbers of the handshake. werift repeats a flight unchanged, but a repeated
 * record needs a new number (RFC 6347 §4.2.4): Firefox drops messages that come too early, and would drop their repetitions as replays.
 */
class LastFlight {
  #hasBegun = false;
  #datagrams: Buffer[] = [];
  #next = 0;

  /** Called with the client's Finished message. */
  begin(): void {
    this.#hasBegun = true;
    this.#datagrams = [];
  }

  sent(made: Buffer): Buffer {
    if (this.#hasBegun) this.#datagrams.push(made);
    return this.#renumbered(made);
  }

  /** Returns all datagrams again, for a client that has not received them. */
  repeat(): Buffer[] {
    return this.#datagrams.map((datagram) => this.#renumbered(datagram));
  }

  #renumbered(made: Buffer): Buffer {
    // The datagram may still be in the send queue.
    const datagram = Buffer.from(made);
    eachRecord(datagram, (record, epoch) => {
      // In later epochs the number is part of the encryption. No record is dropped there as long as records stay in order.
      if (epoch === 0) record.writeUIntBE(this.#next++, 5, 6);
    });
    return datagram;
  }
}

/**
 * werift resets the record number to 0 after Finished, which had a higher one in the same epoch: a later record would repeat its
 * number, hence its nonce under the same key, and the peer would drop it as a replay.
 */
export function keepRecordNumbersIncreasing(dtls: Pick<Internals["dtls"], "recordSequenceNumber">): void {
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
  /** The number of bytes that were handed over and not yet sent. */
  readonly bufferedAmount: number;
  /** Called when little is left of what was handed over. */
  onLow?: () => void;
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

export type SctpInternals = LossyAssociation & ReceivingAssociation & { handleData(packet: Buffer): Promise<void> };

export function patchSctp(association: SctpInternals): SctpReceiver {
  patchAbandonment(association);
  const receiver = new SctpReceiver(association);
  association.advertisedRwnd = RECEIVE_WINDOW_BYTES;
  association.handleData = async (packet) => receiver.receive(packet);
  return receiver;
}

type ChannelInternals = {
  readonly dataChannels: Record<number, unknown>;
  datachannelReceive(streamId: number, protocol: number, data: Buffer): Promise<void>;
};

const DCEP = 50;
const CHANNEL_OPEN = 3;
/** The limit for a label and a protocol together, in bytes. */
const MAX_OPEN_BYTES = 1_024;
/** Our SDK opens two channels, LiveKit's three. */
const MAX_CHANNELS = 16;
/** `onLow` is called at this many bytes, so that the next messages arrive before the channel is idle. */
const LOW_BYTES = 32_768;
/** The limit of channels whose acknowledgement the client has not received. */
const MAX_OPENING = 16;

/**
 * werift acknowledges every request to open a channel, and keeps all acknowledgements until the client takes them. A message on
 * an unknown channel or in an unknown format makes it reject a promise without a handler, which ends the process.
 */
function limitChannels(sctp: RTCSctpTransport, association: SctpInternals): void {
  const transport = sctp as unknown as ChannelInternals;
  let opening = 0;
  association.receive = (streamId, protocol, data) => {
    const receive = () => transport.datachannelReceive(streamId, protocol, data).catch(() => {});
    if (protocol !== DCEP || data[0] !== CHANNEL_OPEN) {
      receive();
      return;
    }
    const isFull = Object.keys(transport.dataChannels).length >= MAX_CHANNELS || opening >= MAX_OPENING;
    if (isFull || data.length > MAX_OPEN_BYTES || transport.dataChannels[streamId]) return;
    opening++;
    receive().finally(() => opening--);
  };
}

const SCTP_PORT = 5000;

function associate(maxMessageSize: number, role: "controlled" | "controlling", send: SctpEvents["send"]) {
  const onStateChange = new Event<[string]>();
  const sctp = new RTCSctpTransport(SCTP_PORT, maxMessageSize);
  const dtlsTransport = {
    id: sctp.id,
    iceTransport: { role },
    onStateChange,
    sendData: send,
    dataReceiver: (_data: Buffer) => {},
  };
  sctp.setDtlsTransport(dtlsTransport as unknown as Parameters<RTCSctpTransport["setDtlsTransport"]>[0]);
  sctp.setRemoteMaxMessageSize(maxMessageSize);
  const association = sctp.sctp as unknown as SctpInternals;
  const receiver = patchSctp(association);
  const engine: SctpEngine = {
    deliver: (packet) => receiver.receive(packet),
    close() {
      sctp.stop().catch(() => {});
      onStateChange.execute("closed");
    },
  };
  return { sctp, association, engine };
}

export type SctpClient = SctpEngine & { open(label: string, options: RTCDataChannelInit): RTCDataChannel };

/** Creates the association of a client, which opens it and its channels. */
export function createSctpClient(maxMessageSize: number, send: SctpEvents["send"]): SctpClient {
  const { sctp, engine } = associate(maxMessageSize, "controlling", send);
  sctp.start(SCTP_PORT).catch(() => {});
  return {
    ...engine,
    open: (label, { ordered = true, maxRetransmits, protocol = "" }) =>
      new RTCDataChannel(
        sctp,
        new RTCDataChannelParameters({ label, ordered, maxRetransmits, protocol, negotiated: false }),
      ),
  };
}

/** Creates the association of one peer; the client opens it and its channels. */
export function createSctp(maxMessageSize: number, remotePort: number, events: SctpEvents): SctpEngine {
  const { sctp, association, engine } = associate(maxMessageSize, "controlled", events.send);
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
    opened.bufferedAmountLowThreshold = LOW_BYTES;
    opened.bufferedAmountLow.subscribe(() => channel.onLow?.());
    opened.onMessage.subscribe((data) => events.onMessage(channel, data));
    opened.stateChange.subscribe((state) => {
      if (state === "closed") events.onClosed(channel);
    });
    events.onChannel(channel);
  });
  limitChannels(sctp, association);
  sctp.start(remotePort).catch(() => {});
  return engine;
}
