import { describe, expect, test } from "bun:test";
import { DtlsServer, RTCSctpTransport } from "werift";
import packageJson from "../../../package.json";
import { createCertificate, createDtlsServer, createSctp } from "../../../src/sfu/werift/werift-hooks.ts";

describe("werift behaves as Stoa assumes", () => {
  test("the version is pinned", () => {
    expect(packageJson.dependencies.werift).toMatch(/^\d+\.\d+\.\d+$/);
  });

  test("DtlsServer has the members that are read, before and after a handshake", async () => {
    const { certPem: cert, keyPem: key, signatureHash } = await createCertificate();
    const transport = {
      type: "x",
      address: { address: "", family: "IPv4", port: 0 },
      closed: false,
      onData: () => {},
      send: async () => {},
      close: async () => {},
    };
    const server = new DtlsServer({
      cert,
      key,
      signatureHash,
      transport,
      srtpProfiles: [7, 1],
      extendedMasterSecret: true,
      certificateRequest: true,
    });
    const internals = server as unknown as { cipher: object; dtls: { sortedHandshakeCache: unknown[] }; srtp: object };
    expect(internals.cipher).toHaveProperty("cipher", undefined);
    expect(internals.cipher).toHaveProperty("masterSecret");
    expect(internals.cipher).toHaveProperty("remoteCertificate");
    expect(internals.dtls.sortedHandshakeCache).toEqual([]);
    expect(internals.srtp).toHaveProperty("srtpProfile");
    expect(typeof server.extractSessionKeys).toBe("function");
    for (const event of [server.onConnect, server.onData, server.onError, server.onClose]) {
      expect(typeof event.subscribe).toBe("function");
      expect(typeof event.allUnsubscribe).toBe("function");
    }
  });

  test("a datagram that is no DTLS reports nothing and throws nothing past the engine", async () => {
    const errors: unknown[] = [];
    const engine = createDtlsServer(await createCertificate(), ["AEAD_AES_128_GCM"], {
      send: () => {},
      onConnect: () => {},
      onError: (error) => void errors.push(error),
    });
    for (let i = 0; i < 200; i++) {
      const record = Buffer.alloc(13 + 30, i);
      record[0] = 22;
      record.writeUInt16BE(0, 3);
      record.writeUInt16BE(30, 11);
      expect(() => engine.deliver(record)).not.toThrow();
    }
    expect(engine.hasKeys).toBe(false);
    engine.close();
  });

  test("RTCSctpTransport hands its packets to `handleData` and takes a transport of ours", () => {
    const sctp = new RTCSctpTransport(5000, 70_000);
    expect(typeof sctp.setDtlsTransport).toBe("function");
    expect(typeof sctp.onDataChannel.subscribe).toBe("function");
    expect(sctp.dataChannels).toEqual({});
  });

  test("malformed SCTP causes no unhandled rejection", async () => {
    const rejections: unknown[] = [];
    const note = (reason: unknown) => void rejections.push(reason);
    process.on("unhandledRejection", note);
    const sctp = createSctp(70_000, 5000, {
      send: async () => {},
      onChannel: () => {},
      onMessage: () => {},
      onClosed: () => {},
    });
    for (let i = 0; i < 300; i++)
      sctp.deliver(Buffer.from(Array.from({ length: i }, (_, k) => (i * 31 + k * 7) & 255)));
    await Bun.sleep(20);
    sctp.close();
    process.off("unhandledRejection", note);
    expect(rejections).toEqual([]);
  });
});
