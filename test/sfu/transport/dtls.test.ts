import { describe, expect, spyOn, test } from "bun:test";
import { createHash, verify, X509Certificate } from "node:crypto";
import { DtlsClient, DtlsServer } from "werift";
import {
  createHandshakeCollector,
  type DtlsKeys,
  DtlsSession,
  isFinishedValid,
  isSignatureValid,
} from "../../../src/sfu/transport/dtls.ts";
import {
  createCertificate,
  createDtlsServer,
  type DtlsCertificate,
  type HandshakeMessage,
  SRTP_PROFILE_NUMBERS,
} from "../../../src/sfu/werift/werift-hooks.ts";
import type { SrtpProfile } from "../../../src/sfu/wire/srtp/srtp.ts";

function fingerprintOf({ certPem }: DtlsCertificate, algorithm = "sha-256") {
  const hex = createHash(algorithm.replace("-", "")).update(new X509Certificate(certPem).raw).digest("hex");
  return { algorithm, value: (hex.match(/../g) ?? []).join(":").toUpperCase() };
}

type Result = {
  outcome: "connected" | "failed";
  /** How often the session reported its end. */
  ended(): number;
  reason?: string;
  keys?: DtlsKeys;
  client: DtlsClient;
  session: DtlsSession;
};

/** A handshake over an in-memory wire; `shape` sees every datagram of the client and says what arrives instead. */
async function handshake(options: {
  profile?: SrtpProfile;
  profiles?: SrtpProfile[];
  expected?: { algorithm: string; value: string }[];
  shape?: (data: Buffer, index: number) => Buffer[];
  /** Sees every datagram of the server. */
  onSent?: (data: Buffer) => void;
  /** Whether the datagram reaches the client. */
  reaches?: (data: Buffer) => boolean;
}): Promise<Result> {
  const [serverCertificate, clientCertificate] = await Promise.all([createCertificate(), createCertificate()]);
  const profile = options.profile ?? "AEAD_AES_128_GCM";
  const { promise, resolve } = Promise.withResolvers<Omit<Result, "client" | "session" | "ended">>();
  let sent = 0;
  let ended = 0;
  const transport = {
    type: "memory",
    address: { address: "127.0.0.1", family: "IPv4", port: 0 },
    closed: false,
    onData: (_data: Buffer) => {},
    send: async (data: Buffer) => {
      const arriving = options.shape ? options.shape(Buffer.from(data), sent++) : [data];
      for (const datagram of arriving) setImmediate(() => session.receive(datagram));
    },
    close: async () => {},
  };
  const session = new DtlsSession({
    certificate: serverCertificate,
    profiles: options.profiles ?? ["AEAD_AES_128_GCM", "AES_CM_128_HMAC_SHA1_80"],
    fingerprints: options.expected ?? [fingerprintOf(clientCertificate)],
    send: (data) => {
      options.onSent?.(Buffer.from(data));
      if (options.reaches?.(data) ?? true) setImmediate(() => transport.onData(data));
    },
    onConnected: (keys) => resolve({ outcome: "connected", keys }),
    onData: () => {},
    onFailed: (reason) => resolve({ outcome: "failed", reason }),
    onClosed: () => {},
    onHandshakeEnded: () => void ended++,
  });
  const client = new DtlsClient({
    cert: clientCertificate.certPem,
    key: clientCertificate.keyPem,
    signatureHash: clientCertificate.signatureHash,
    transport,
    srtpProfiles: [SRTP_PROFILE_NUMBERS[profile]],
    extendedMasterSecret: true,
  });
  client.onError.subscribe(() => {});
  client.connect().catch(() => {});
  return { ...(await promise), client, session, ended: () => ended };
}

describe("DTLS", () => {
  test.each(["AEAD_AES_128_GCM", "AES_CM_128_HMAC_SHA1_80"] as const)(
    "%s: both sides hold the same keys",
    async (profile) => {
      const { outcome, keys, client } = await handshake({ profile });
      expect(outcome).toBe("connected");
      const theirs = client.extractSessionKeys(16, profile === "AEAD_AES_128_GCM" ? 12 : 14);
      expect(keys?.incoming).toEqual({ profile, key: theirs.localKey, salt: theirs.localSalt });
      expect(keys?.outgoing).toEqual({ profile, key: theirs.remoteKey, salt: theirs.remoteSalt });
    },
  );

  test("a lost part of a flight is sent again, even for a client that drops messages out of order and repeated record numbers", async () => {
    const had = new Set<number>();
    let next = 0;
    let lost = 0;
    const { outcome } = await handshake({
      reaches(data) {
        const [type, epoch, number] = [data[0], data.readUInt16BE(3), data.readUIntBE(5, 6)];
        if (epoch > 0) return true;
        const message = type === 22 ? data.readUInt16BE(13 + 4) : null;
        // The certificate, the first time.
        if (message === 2 && lost++ === 0) return false;
        if (had.has(number)) return false;
        had.add(number);
        if (message === null) return true;
        if (message !== next) return false;
        next++;
        return true;
      },
    });
    expect(outcome).toBe("connected");
    expect(lost).toBeGreaterThan(1);
  });

  test("no two records of an epoch have the same number, and all data arrives", async () => {
    const numbers: string[] = [];
    const { client, session } = await handshake({
      onSent: (datagram) => {
        for (let at = 0; at + 13 <= datagram.length; at += 13 + datagram.readUInt16BE(at + 11))
          if (datagram.readUInt16BE(at + 3) > 0) numbers.push(datagram.subarray(at + 3, at + 11).toString("hex"));
      },
    });
    const arrived: number[] = [];
    const all = Promise.withResolvers<void>();
    client.onData.subscribe((data) => {
      arrived.push(data.readUInt8(0));
      if (arrived.length === 60) all.resolve();
    });
    for (let i = 0; i < 60; i++) await session.send(Buffer.of(i));
    await all.promise;
    expect(arrived).toEqual(Array.from({ length: 60 }, (_, i) => i));
    // Finished and what followed it.
    expect(numbers.length).toBe(61);
    expect(new Set(numbers).size).toBe(61);
  });

  test("a client that has not received the end of the handshake gets it again", async () => {
    const sent: Buffer[] = [];
    let finished: Buffer | null = null;
    const { session } = await handshake({
      onSent: (data) => sent.push(data),
      shape: (data) => {
        // The client's Finished is its first encrypted record.
        const encrypted = data.indexOf(Buffer.from([22, 254, 253, 0, 1]));
        if (encrypted >= 0) finished ??= data.subarray(encrypted);
        return [data];
      },
    });
    const last = sent.at(-1) as Buffer;
    const before = sent.length;
    session.receive(finished as unknown as Buffer);
    const repeated = sent.slice(before);
    expect(repeated.at(-1)).toEqual(last);
    // A stranger's record gets no answer.
    const forged = Buffer.from(finished as unknown as Buffer);
    forged[forged.length - 1] = (forged.at(-1) ?? 0) ^ 1;
    session.receive(forged);
    expect(sent.length).toBe(before + repeated.length);
  });

  test("the state of a handshake is released when it ends", async () => {
    const created: WeakRef<object>[] = [];
    const server = DtlsServer.prototype as unknown as { setupExtensions(): void };
    const { setupExtensions } = server;
    server.setupExtensions = function () {
      created.push(new WeakRef(this));
      setupExtensions.call(this);
    };
    const { session } = await handshake({});
    server.setupExtensions = setupExtensions;
    expect(created.length).toBe(1);
    // werift waits for timers of its own.
    while (created[0]?.deref()) {
      await Bun.sleep(20);
      Bun.gc(true);
    }
    expect(session.state).toBe("connected");
  });

  test("the young generation is collected once after every fourth handshake, whether it succeeded or failed", async () => {
    const ends = [(await handshake({})).ended(), (await handshake({ expected: [] })).ended()];
    expect(ends).toEqual([1, 1]);
    let collections = 0;
    const ended = createHandshakeCollector(() => void collections++);
    const collected: number[] = [];
    for (let n = 1; n <= 9; n++) {
      ended();
      await new Promise(setImmediate);
      collected.push(collections);
    }
    expect(collected).toEqual([0, 0, 0, 1, 1, 1, 1, 2, 2]);
  });

  test("a certificate other than the offered one fails", async () => {
    const stranger = fingerprintOf(await createCertificate());
    expect(await handshake({ expected: [stranger] })).toMatchObject({
      outcome: "failed",
      reason: "the certificate is not the offered one",
    });
  });

  test("a fingerprint with an insecure hash is ignored", async () => {
    const { outcome } = await handshake({ expected: [{ algorithm: "sha-1", value: "AA" }] });
    expect(outcome).toBe("failed");
  });

  test("a handshake without a common SRTP profile fails", async () => {
    const { outcome } = await handshake({ profile: "AEAD_AES_128_GCM", profiles: ["AES_CM_128_HMAC_SHA1_80"] });
    expect(outcome).toBe("failed");
  });

  test("repeated datagrams and forged unencrypted alerts have no effect", async () => {
    const alert = Buffer.from([21, 254, 253, 0, 0, 0, 0, 0, 0, 0, 9, 0, 2, 2, 40]);
    const { outcome } = await handshake({ shape: (data) => [alert, data, data] });
    expect(outcome).toBe("connected");
  });
});

describe("proof that the peer holds its certificate's key", () => {
  /** The transcript of a true handshake, as the engine recorded it. */
  async function transcriptOf(): Promise<{
    transcript: HandshakeMessage[];
    certificate: Uint8Array;
    masterSecret: Uint8Array;
    serverCertificate: X509Certificate;
  }> {
    const [serverCertificate, clientCertificate] = await Promise.all([createCertificate(), createCertificate()]);
    const { promise, resolve } = Promise.withResolvers<void>();
    const transport = {
      type: "memory",
      address: { address: "127.0.0.1", family: "IPv4", port: 0 },
      closed: false,
      onData: (_data: Buffer) => {},
      send: async (data: Buffer) => void setImmediate(() => engine.deliver(data)),
      close: async () => {},
    };
    const engine = createDtlsServer(serverCertificate, ["AEAD_AES_128_GCM"], {
      send: (data) => setImmediate(() => transport.onData(data)),
      onConnect: resolve,
      onError: () => {},
    });
    const client = new DtlsClient({
      cert: clientCertificate.certPem,
      key: clientCertificate.keyPem,
      signatureHash: clientCertificate.signatureHash,
      transport,
      srtpProfiles: [7],
      extendedMasterSecret: true,
    });
    client.connect().catch(() => {});
    await promise;
    return {
      transcript: engine.transcript,
      certificate: engine.remoteCertificate ?? new Uint8Array(),
      masterSecret: engine.masterSecret,
      serverCertificate: new X509Certificate(serverCertificate.certPem),
    };
  }

  test("the server sends its certificate, and signs its key exchange with the certificate's key", async () => {
    const { transcript, serverCertificate } = await transcriptOf();
    const bodyOf = (type: number) => Buffer.from(transcript.find((message) => message.type === type)?.body ?? []);
    const randomOf = (hello: Buffer) => hello.subarray(2, 34);
    const [clientHello, serverHello, certificate, keyExchange] = [1, 2, 11, 12].map(bodyOf) as [
      Buffer,
      Buffer,
      Buffer,
      Buffer,
    ];
    expect(certificate.includes(serverCertificate.raw)).toBe(true);
    // The curve's type and number, and the length of the public key; after the key, the algorithm and the signature's length.
    const parameters = keyExchange.subarray(0, 4 + (keyExchange[3] ?? 0));
    const signature = keyExchange.subarray(parameters.length + 4);
    const signed = Buffer.concat([randomOf(clientHello), randomOf(serverHello), parameters]);
    expect(verify("sha256", signed, serverCertificate.publicKey, signature)).toBe(true);
  });

  test("a true handshake passes; a changed message, signature, certificate or Finished does not", async () => {
    const { transcript, certificate, masterSecret } = await transcriptOf();
    expect(isSignatureValid(transcript, certificate)).toBe(true);
    expect(isFinishedValid(transcript, masterSecret)).toBe(true);
    const changed = (type: number) =>
      transcript.map((message) => {
        if (message.type !== type) return message;
        const flip = (bytes: Uint8Array) => bytes.map((byte, i) => (i === bytes.length - 1 ? byte ^ 1 : byte));
        return { ...message, body: flip(message.body), serialized: flip(message.serialized) };
      });
    expect(isSignatureValid(changed(15), certificate)).toBe(false);
    expect(isSignatureValid(changed(11), certificate)).toBe(false);
    expect(
      isSignatureValid(
        transcript.filter(({ type }) => type !== 15),
        certificate,
      ),
    ).toBe(false);
    const other = new X509Certificate((await createCertificate()).certPem).raw;
    expect(isSignatureValid(transcript, other)).toBe(false);
    expect(isFinishedValid(changed(20), masterSecret)).toBe(false);
    expect(isFinishedValid(changed(16), masterSecret)).toBe(false);
    expect(
      isFinishedValid(
        transcript,
        masterSecret.map((byte) => byte ^ 1),
      ),
    ).toBe(false);
  });

  describe("records that a stranger sends from the client's address", () => {
    /** Epoch 1, and content that was not encrypted with the keys. */
    const forged = (type: number, content: Buffer) => {
      const header = Buffer.from([type, 254, 253, 0, 1, 0, 0, 0, 0, 0, 9, 0, 0]);
      header.writeUInt16BE(content.length, 11);
      return Buffer.concat([header, content]);
    };

    test("do not end the connection, whatever kind of record they say they are", async () => {
      const { session } = await handshake({});
      const alert = Buffer.concat([Buffer.from([1, 0]), Buffer.alloc(24)]);
      for (const type of [20, 21, 22, 23, 99]) {
        session.receive(forged(type, alert));
        session.receive(forged(type, Buffer.alloc(1)));
      }
      expect(session.state).toBe("connected");
    });

    test("are not written out as text", async () => {
      const { session } = await handshake({});
      const toText = spyOn(Buffer.prototype, "toString");
      for (const type of [21, 22, 23]) session.receive(forged(type, Buffer.alloc(1_200)));
      expect(toText).not.toHaveBeenCalled();
      toText.mockRestore();
    });
  });

  test("fragments of handshake messages that the client encrypts are not kept", async () => {
    const { session, client } = await handshake({});
    const joining = spyOn(
      DtlsServer.prototype as unknown as { handleFragmentHandshake(): [] },
      "handleFragmentHandshake",
    );
    type Record = { recordLayerHeader: object; fragment: Buffer };
    const { cipher } = client as unknown as { cipher: { encryptPacket(record: Record): { fragment: Buffer } } };
    for (let sequence = 100; sequence < 110; sequence++) {
      const fragment = Buffer.concat([Buffer.from([20, 0, 0, 99, 0, 9, 0, 0, 0, 0, 0, 1]), Buffer.alloc(1)]);
      const header = {
        contentType: 22,
        protocolVersion: { major: 254, minor: 253 },
        epoch: 1,
        sequenceNumber: sequence,
      };
      const { fragment: content } = cipher.encryptPacket({ recordLayerHeader: header, fragment });
      const head = Buffer.from([22, 254, 253, 0, 1, 0, 0, 0, 0, 0, sequence, 0, content.length]);
      session.receive(Buffer.concat([head, content]));
    }
    expect(joining).not.toHaveBeenCalled();
    expect(session.state).toBe("connected");
    joining.mockRestore();
  });

  test("a session that is closed tells the client once, with an authentic alert", async () => {
    const alerts: Buffer[] = [];
    const { session, client } = await handshake({ onSent: (data) => data[0] === 21 && alerts.push(data) });
    session.close();
    session.close();
    type Opened = { cipher: { decryptPacket(record: object): Buffer } };
    const { cipher } = client as unknown as Opened;
    const opened = alerts.map((record) =>
      cipher.decryptPacket({
        recordLayerHeader: {
          contentType: 21,
          protocolVersion: { major: 254, minor: 253 },
          epoch: record.readUInt16BE(3),
          sequenceNumber: record.readUIntBE(5, 6),
          contentLen: record.readUInt16BE(11),
        },
        fragment: record.subarray(13),
      }),
    );
    expect(opened.map((content) => [...content])).toEqual([[1, 0]]);
    expect(session.state).toBe("closed");
  });

  test("an alert that the client sends ends the connection", async () => {
    const { session, client } = await handshake({});
    type Record = { recordLayerHeader: object; fragment: Buffer };
    const { cipher } = client as unknown as { cipher: { encryptPacket(record: Record): { fragment: Buffer } } };
    const header = { contentType: 21, protocolVersion: { major: 254, minor: 253 }, epoch: 1, sequenceNumber: 99 };
    const { fragment } = cipher.encryptPacket({ recordLayerHeader: header, fragment: Buffer.from([1, 0]) });
    session.receive(
      Buffer.concat([Buffer.from([21, 254, 253, 0, 1, 0, 0, 0, 0, 0, 99, 0, fragment.length]), fragment]),
    );
    expect(session.state).toBe("closed");
  });
});
