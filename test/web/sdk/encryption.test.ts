import { describe, expect, spyOn, test } from "bun:test";
import { DataCipher } from "../../../src/protocol/encryption/data-cipher.ts";
import { decryptFrame, encryptFrame, type Frame } from "../../../src/protocol/encryption/frame-cipher.ts";
import {
  escapeStartCodes,
  type FrameCodec,
  frameCodecOf,
  joinEncryptedFrame,
  splitEncryptedFrame,
  unescapeStartCodes,
} from "../../../src/protocol/encryption/frame-format.ts";
import { KeyProvider } from "../../../src/protocol/encryption/key-provider.ts";
import {
  deriveFrameKey,
  importMaterial,
  KeyRing,
  nextMaterial,
  ratchet,
} from "../../../src/protocol/encryption/key-ring.ts";
import { KeyStore } from "../../../src/protocol/encryption/key-store.ts";

const hex = (bytes: Uint8Array | ArrayBuffer) => Buffer.from(bytes as Uint8Array).toString("hex");
const bytes = (text: string) => new Uint8Array(Buffer.from(text, "hex"));
const exported = async (key: CryptoKey) => hex(await crypto.subtle.exportKey("raw", key));

async function ringWith(material: string | Uint8Array<ArrayBuffer>, index = 0): Promise<KeyRing> {
  const ring = new KeyRing();
  await ring.set(index, await importMaterial(material));
  ring.current = index;
  return ring;
}

const random = (length: number) => crypto.getRandomValues(new Uint8Array(length));
const secret = random(300);
secret.set([0, 0, 1, 0, 0, 0, 3, 0, 0], 100);
const FRAMES: Record<FrameCodec, { bytes: Uint8Array<ArrayBuffer>; isKeyframe: boolean; clear: number }> = {
  opus: { bytes: random(60), isKeyframe: true, clear: 1 },
  VP8: { bytes: random(300), isKeyframe: true, clear: 10 },
  VP9: { bytes: random(300), isKeyframe: false, clear: 0 },
  // A parameter set (7), then a slice (5) with one more clear byte.
  H264: {
    bytes: bytes(`0000000167424000000001 65 88 ${hex(secret)}`.replaceAll(" ", "")),
    isKeyframe: true,
    clear: 13,
  },
  // A sequence header (type 1) of two bytes, then a frame (type 6) without a size.
  AV1: { bytes: bytes(`0a02beef30${hex(secret)}`), isKeyframe: true, clear: 4 },
};

describe("[encryption] keys are those of LiveKit's clients", () => {
  test("a passphrase gives LiveKit's key, and its first ratchet LiveKit's next one", async () => {
    const material = await importMaterial("ours");
    expect(await exported(await deriveFrameKey(material, true))).toBe("dcbfc74da450c85584b6bc0f3e3515cc");
    expect(await exported(await deriveFrameKey(await ratchet(material), true))).toBe(
      "92c35063c1ed32f70b777112da778aa6",
    );
  });

  test("random bytes give LiveKit's key", async () => {
    const material = await importMaterial(new Uint8Array(32).fill(1));
    expect(await exported(await deriveFrameKey(material, true))).toBe("a39c6222ab110265a5d9ed5d005333d2");
  });
});

describe("[encryption] frames", () => {
  test("an Opus frame of LiveKit's clients is decrypted", async () => {
    const frame = bytes("9d44e4b9103861ab2afb7b94570ade5a6772f8e19816706b680102030405060708090a0b0c0c00");
    const plain = await decryptFrame(await ringWith("ours"), { codec: "opus", bytes: frame, isKeyframe: true }, 0);
    expect(hex(plain as Uint8Array)).toBe("9d0102030405060708");
  });

  test.each(Object.keys(FRAMES) as FrameCodec[])(
    "%s survives encryption, with its clear bytes readable",
    async (codec) => {
      const { bytes: plain, isKeyframe, clear } = FRAMES[codec];
      const ring = await ringWith("a passphrase", 3);
      const sealed = await encryptFrame(ring, { codec, bytes: plain, isKeyframe });
      if (!sealed) throw new Error("not encrypted");
      expect(hex(sealed.slice(0, clear))).toBe(hex(plain.slice(0, clear)));
      expect(hex(sealed)).not.toContain(hex(plain.slice(clear, clear + 16)));
      expect(sealed.at(-1)).toBe(3);
      const opened = await decryptFrame(ring, { codec, bytes: sealed, isKeyframe }, 0);
      // A unit without a size ends with its frame, and so does the one that is written for it.
      expect(hex(opened as Uint8Array)).toBe(hex(plain));
    },
  );

  test("the temporal delimiter of AV1 is left out, because packetizers drop it", async () => {
    const { bytes: plain } = FRAMES.AV1;
    const ring = await ringWith("a passphrase");
    const frame: Frame = { codec: "AV1", bytes: new Uint8Array([0x12, 0x00, ...plain]), isKeyframe: true };
    const sealed = await encryptFrame(ring, frame);
    const opened = await decryptFrame(ring, { ...frame, bytes: sealed ?? frame.bytes }, 0);
    expect(hex(opened as Uint8Array)).toBe(hex(plain));
  });

  test("no start code appears in the encrypted part of H.264", async () => {
    const ring = await ringWith("a passphrase");
    for (let round = 0; round < 200; round++) {
      const sealed = await encryptFrame(ring, { codec: "H264", bytes: FRAMES.H264.bytes, isKeyframe: true });
      expect(hex(sealed?.slice(13) ?? new Uint8Array())).not.toMatch(/^(?:..)*?00000[012]/);
    }
  });

  test("escaping start codes is undone byte for byte", () => {
    for (const text of ["000000", "00000300000000", "000001000002", "00000304", "ffff", ""]) {
      expect(hex(unescapeStartCodes(escapeStartCodes(bytes(text))))).toBe(text);
    }
    for (let round = 0; round < 500; round++) {
      const some = random(40).map((byte) => byte % 5);
      expect(hex(unescapeStartCodes(escapeStartCodes(some)))).toBe(hex(some));
    }
  });

  test("an empty frame passes, and without a key no other frame is sent", async () => {
    const empty: Frame = { codec: "opus", bytes: new Uint8Array(), isKeyframe: true };
    expect(await encryptFrame(new KeyRing(), empty)).toHaveLength(0);
    expect(await encryptFrame(new KeyRing(), { codec: "opus", ...FRAMES.opus })).toBeNull();
    // A frame without image data has no part that could be encrypted.
    const parameters: Frame = { codec: "H264", bytes: bytes("000000016742400a"), isKeyframe: true };
    expect(await encryptFrame(await ringWith("x"), parameters)).toBeNull();
  });

  test("failures are distinguished: an unencrypted frame, an unknown key, a wrong key, a changed clear byte", async () => {
    const { bytes: plain, isKeyframe } = FRAMES.VP8;
    const sealed = await encryptFrame(await ringWith("right", 1), { codec: "VP8", bytes: plain, isKeyframe });
    if (!sealed) throw new Error("not encrypted");
    const open = (ring: KeyRing, changed = sealed) =>
      decryptFrame(ring, { codec: "VP8", bytes: changed, isKeyframe }, 0);
    expect(await open(await ringWith("right", 1), plain.slice(0, 12))).toBe("not-encrypted");
    expect(await open(await ringWith("right", 2))).toBe("unknown-key");
    expect(await open(await ringWith("wrong", 1))).toBe("wrong-key");
    const changed = sealed.slice();
    changed[5] = (changed[5] ?? 0) ^ 1;
    expect(await open(await ringWith("right", 1), changed)).toBe("wrong-key");
  });

  test("a sender that ratcheted its key is followed, up to the window", async () => {
    let material = await importMaterial(random(32));
    const [receiver, narrow] = [new KeyRing(), new KeyRing()];
    for (const ring of [receiver, narrow]) await ring.set(0, material);
    for (let step = 0; step < 3; step++) material = await ratchet(material);
    const sender = new KeyRing();
    await sender.set(0, material);
    const { bytes: plain, isKeyframe } = FRAMES.VP9;
    const sealed = await encryptFrame(sender, { codec: "VP9", bytes: plain, isKeyframe });
    const frame: Frame = { codec: "VP9", bytes: sealed ?? plain, isKeyframe };
    expect(await decryptFrame(narrow, frame, 2)).toBe("wrong-key");
    expect(hex((await decryptFrame(receiver, frame, 3)) as Uint8Array)).toBe(hex(plain));
    // The ratcheted key has replaced the former one.
    expect(hex((await decryptFrame(receiver, frame, 0)) as Uint8Array)).toBe(hex(plain));
  });

  test("frames under a wrong key do not each cause a search of ratcheted keys, and a new key is used at once", async () => {
    const right = random(32);
    const [sender, receiver] = [new KeyRing(), new KeyRing()];
    await sender.set(0, await importMaterial(right));
    await receiver.set(0, await importMaterial(random(32)));
    const { bytes: plain, isKeyframe } = FRAMES.VP8;
    const sealed = await encryptFrame(sender, { codec: "VP8", bytes: plain, isKeyframe });
    const frame: Frame = { codec: "VP8", bytes: sealed ?? plain, isKeyframe };
    const ratchets = spyOn(crypto.subtle, "deriveBits");
    const now = spyOn(performance, "now").mockReturnValue(1_000);
    try {
      for (let n = 0; n < 20; n++) expect(await decryptFrame(receiver, frame, 8)).toBe("wrong-key");
      expect(ratchets.mock.calls.length).toBe(8);
      now.mockReturnValue(1_100);
      expect(await decryptFrame(receiver, frame, 8)).toBe("wrong-key");
      expect(ratchets.mock.calls.length).toBe(16);
    } finally {
      ratchets.mockRestore();
      now.mockRestore();
    }
    await receiver.set(0, await importMaterial(right));
    expect(hex((await decryptFrame(receiver, frame, 8)) as Uint8Array)).toBe(hex(plain));
  });

  test("no IV is used twice under a key", async () => {
    const ring = await ringWith("a passphrase");
    const ivs = new Set<string>();
    for (let n = 0; n < 1_000; n++) ivs.add(hex(ring.get(0)?.nextIv() ?? new Uint8Array()));
    expect(ivs.size).toBe(1_000);
  });

  test("hostile frames of every codec are refused without an exception", async () => {
    const ring = await ringWith("a passphrase");
    for (const codec of Object.keys(FRAMES) as FrameCodec[]) {
      for (let round = 0; round < 300; round++) {
        const frame = random(round % 64);
        if (round % 3 === 0) frame.fill(0);
        expect(await decryptFrame(ring, { codec, bytes: frame, isKeyframe: round % 2 === 0 }, 0)).not.toBeNull();
        await encryptFrame(ring, { codec, bytes: frame, isKeyframe: round % 2 === 0 });
      }
    }
  });

  test("parts are joined and split without loss", () => {
    const parts = { clear: bytes("0a02beef"), body: random(40), iv: random(12), keyIndex: 7 };
    const split = splitEncryptedFrame("AV1", joinEncryptedFrame("AV1", parts), true);
    expect(split && { ...split, clear: hex(split.clear), body: hex(split.body), iv: hex(split.iv) }).toEqual({
      clear: "0a02beef",
      body: hex(parts.body),
      iv: hex(parts.iv),
      keyIndex: 7,
    });
  });

  test("codecs are known by their MIME types", () => {
    expect(["audio/opus", "video/VP8", "video/H264", "video/AV1", "audio/red", undefined].map(frameCodecOf)).toEqual([
      ...(["opus", "VP8", "H264", "AV1", null, null] as const),
    ]);
  });
});

describe("[encryption] a key provider", () => {
  test("the first key is active at once, a later one when it is activated", () => {
    const provider = new KeyProvider();
    expect([provider.activeKeyOf("ada"), provider.hasKeyOf("bob")]).toEqual([null, false]);
    provider.setKey(null, "shared");
    provider.setKey(null, "next", 1);
    expect(provider.activeKeyOf("ada")).toEqual({ identity: null, index: 0 });
    provider.activate(null, 1);
    expect(provider.activeKeyOf("ada")).toEqual({ identity: null, index: 1 });
    provider.setKey("ada", random(32), 4);
    expect(provider.activeKeyOf("ada")).toEqual({ identity: "ada", index: 4 });
    expect(provider.hasKeyOf("bob")).toBe(true);
  });

  test.each([
    [null, "", 0],
    [null, new Uint8Array(15), 0],
    [null, "good", 16],
    [null, "good", -1],
    [null, "good", 0.5],
  ])("refuses %p %p %p", (identity, material, index) => {
    expect(() => new KeyProvider().setKey(identity, material, index)).toThrow();
  });
});

describe("[encryption] a key store", () => {
  const frame = (bytes: Uint8Array<ArrayBuffer>): Frame => ({ codec: "VP8", bytes, isKeyframe: true });
  const storeWith = async (identity: string | null, material: string | Uint8Array<ArrayBuffer>, index = 0) => {
    const store = new KeyStore();
    await store.apply({ type: "key", identity, material, index });
    await store.apply({ type: "encryptWith", identity, index });
    return store;
  };

  test("frames that come before their key are held, decrypted when it comes, and not held again if it does not", async () => {
    const sender = await storeWith("ada", random(32));
    const key = random(32);
    await sender.apply({ type: "key", identity: "ada", material: key, index: 1 });
    await sender.apply({ type: "encryptWith", identity: "ada", index: 1 });
    const sealed = await sender.encrypt(frame(FRAMES.VP8.bytes));
    if (!sealed) throw new Error("not encrypted");
    const receiver = new KeyStore();
    const held = receiver.decrypt("ada", frame(sealed));
    await receiver.apply({ type: "key", identity: "ada", material: key, index: 1 });
    expect(hex((await held) as Uint8Array)).toBe(hex(FRAMES.VP8.bytes));
    // Another participant's key never comes: the first frame waits for a second, the next not at all.
    const startedAt = performance.now();
    expect(await receiver.decrypt("bob", frame(sealed))).toBe("unknown-key");
    expect(performance.now() - startedAt).toBeGreaterThan(900);
    const again = performance.now();
    expect(await receiver.decrypt("bob", frame(sealed))).toBe("unknown-key");
    expect(performance.now() - again).toBeLessThan(500);
  });

  test("a frame waits for a key that is being imported in place of a wrong one", async () => {
    const sealed = (await (await storeWith(null, "right")).encrypt(frame(FRAMES.VP8.bytes))) ?? FRAMES.VP8.bytes;
    const receiver = await storeWith(null, "wrong");
    expect(await receiver.decrypt("ada", frame(sealed))).toBe("wrong-key");
    void receiver.apply({ type: "key", identity: null, index: 0, material: "right" });
    expect(hex((await receiver.decrypt("ada", frame(sealed))) as Uint8Array)).toBe(hex(FRAMES.VP8.bytes));
  });

  test("a frame waits for its first key while that is being imported, however long it takes", async () => {
    const sealed = (await (await storeWith(null, "right")).encrypt(frame(FRAMES.VP8.bytes))) ?? FRAMES.VP8.bytes;
    const importKey = crypto.subtle.importKey.bind(crypto.subtle);
    // Longer than a frame waits for a key that was not announced.
    const slow = spyOn(crypto.subtle, "importKey").mockImplementation((async (
      ...args: Parameters<typeof importKey>
    ) => {
      await Bun.sleep(1_200);
      return importKey(...args);
    }) as typeof importKey);
    try {
      const receiver = new KeyStore();
      void receiver.apply({ type: "key", identity: null, index: 0, material: "right" });
      const outcomes = await Promise.all([1, 2].map(() => receiver.decrypt("ada", frame(sealed))));
      expect(outcomes.map((plain) => hex(plain as Uint8Array))).toEqual([1, 2].map(() => hex(FRAMES.VP8.bytes)));
    } finally {
      slow.mockRestore();
    }
  });

  test("frames under the key before a ratchet can still be decrypted, and keys that were removed cannot", async () => {
    const first = random(32);
    const [sender, receiver] = [await storeWith("ada", first), await storeWith("ada", first)];
    const before = await sender.encrypt(frame(FRAMES.VP8.bytes));
    const next = await nextMaterial(await importMaterial(first));
    await sender.apply({ type: "key", identity: "ada", material: next, index: 0 });
    const after = await sender.encrypt(frame(FRAMES.VP8.bytes));
    for (const sealed of [after, before, after]) {
      expect(hex((await receiver.decrypt("ada", frame(sealed ?? random(60)))) as Uint8Array)).toBe(
        hex(FRAMES.VP8.bytes),
      );
    }
    await receiver.apply({ type: "removeKey", identity: "ada", index: 0 });
    expect(await receiver.decrypt("ada", frame(after ?? random(60)))).toBe("unknown-key");
  });

  test("data is decrypted by those with the key, and by nobody else", async () => {
    const [sender, receiver, other] = [
      await storeWith(null, "a"),
      await storeWith(null, "a"),
      await storeWith(null, "b"),
    ];
    const sealed = await sender.encryptData(new TextEncoder().encode("for us"));
    if (!sealed) throw new Error("not encrypted");
    expect(sealed).toMatchObject({ type: 1, keyIndex: 0 });
    expect(new TextDecoder().decode((await receiver.decryptData("ada", sealed)) ?? random(1))).toBe("for us");
    expect(await other.decryptData("ada", sealed)).toBeNull();
    expect(await receiver.decryptData("ada", { ...sealed, iv: random(3) })).toBeNull();
    expect(await new KeyStore().encryptData(random(3))).toBeNull();
  });
});

test("[encryption] the data of one participant does not wait for the key of another", async () => {
  const delivered: string[] = [];
  const cipher = new DataCipher({
    encryptData: async () => null,
    decryptData: (identity) => (identity === "mallory" ? new Promise(() => {}) : Promise.resolve(new Uint8Array())),
  });
  for (const from of ["mallory", "ann"])
    cipher.open({ from, encrypted: {} }, (packet) => delivered.push(packet.from ?? ""));
  for (let turn = 0; turn < 10; turn++) await Promise.resolve();
  expect(delivered).toEqual(["ann"]);
});
