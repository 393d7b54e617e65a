import { afterEach, describe, expect, test } from "bun:test";
import { createECDH } from "node:crypto";
import type { Frame } from "../../../src/protocol/encryption/frame-cipher.ts";
import { KeyAgreement, PUBLIC_KEY_ATTRIBUTE } from "../../../src/protocol/encryption/key-agreement.ts";
import { KeyStore } from "../../../src/protocol/encryption/key-store.ts";
import { RoomKeys } from "../../../src/protocol/encryption/room-keys.ts";

const FRAME: Frame = { codec: "VP9", bytes: crypto.getRandomValues(new Uint8Array(200)), isKeyframe: true };
const hex = (bytes: unknown) => (bytes instanceof Uint8Array ? Buffer.from(bytes).toString("hex") : bytes);

type Member = { agreement: KeyAgreement; store: KeyStore; number: string | null; received: [string, string][] };
type Pause = { ms: number; end: () => void };

/** A server that passes messages and public keys on, and may change them. */
class Hub {
  readonly members = new Map<string, Member>();
  /** Pauses that are longer than a jitter end when the test says so. */
  readonly pauses: Pause[] = [];
  passes: (from: string, to: string, message: string) => boolean = () => true;
  publicKeyOf = (_viewer: string, identity: string) => this.members.get(identity)?.agreement.publicKey ?? "";

  async join(identity: string): Promise<Member> {
    const agreement = await KeyAgreement.create(undefined, (ms) =>
      ms <= 200 ? Promise.resolve() : new Promise((end) => this.pauses.push({ ms, end })),
    );
    const store = new KeyStore();
    new RoomKeys(agreement.provider, (command) => void store.apply(command)).joined(identity);
    const member: Member = { agreement, store, number: null, received: [] };
    agreement.connect({
      send: async (to, message) => {
        for (const one of to) {
          if (!this.passes(identity, one, message)) continue;
          const receiver = this.members.get(one);
          receiver?.received.push([identity, message]);
          void receiver?.agreement.receive(identity, message);
        }
      },
      onSafetyNumber: (number) => {
        member.number = number;
      },
    });
    this.members.set(identity, member);
    agreement.joined(identity);
    this.#announce();
    return member;
  }

  leave(identity: string): Member | undefined {
    const member = this.members.get(identity);
    this.members.delete(identity);
    this.#announce();
    return member;
  }

  #announce(): void {
    for (const [viewer, { agreement }] of this.members) {
      const others = [...this.members.keys()].filter((identity) => identity !== viewer);
      agreement.participantsChanged(
        others.map((identity) => ({
          identity,
          attributes: { [PUBLIC_KEY_ATTRIBUTE]: this.publicKeyOf(viewer, identity) },
        })),
      );
    }
  }

  /** Whether the viewer decrypts what the sender encrypts now. */
  async sees(viewer: KeyStore, sender: string): Promise<boolean> {
    const encrypted = await this.members.get(sender)?.store.encrypt(FRAME);
    if (!encrypted) return false;
    return hex(await viewer.decrypt(sender, { ...FRAME, bytes: encrypted })) === hex(FRAME.bytes);
  }

  async allSee(): Promise<boolean> {
    for (const [viewer, { store }] of this.members)
      for (const sender of this.members.keys())
        if (viewer !== sender && !(await this.sees(store, sender))) return false;
    return true;
  }

  indexOf = (identity: string) => this.members.get(identity)?.agreement.provider.activeKeyOf(identity)?.index;
}

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 10_000;
  while (!(await holds())) {
    if (Date.now() > deadline) throw new Error(`not fulfilled: ${holds}`);
    await new Promise(setImmediate);
  }
}

let hub = new Hub();
afterEach(() => {
  for (const { agreement } of hub.members.values()) agreement.close();
  hub = new Hub();
});

describe("[encryption] participants who agree on keys", () => {
  test("all decrypt each other and have the same safety number, which is another one with each participant", async () => {
    const numbers = new Set<string | null>();
    for (const identity of ["ada", "ben", "eve"]) {
      await hub.join(identity);
      await until(() => hub.allSee());
      await until(() => new Set([...hub.members.values()].map(({ number }) => number)).size === 1);
      numbers.add(hub.members.get("ada")?.number ?? null);
    }
    expect(numbers.size).toBe(3);
    expect(hub.members.get("eve")?.number).toMatch(/^\d{5}( \d{5}){5}$/);
  });

  test("a participant that joins later cannot decrypt earlier frames, and the others keep their keys", async () => {
    const ada = await hub.join("ada");
    await hub.join("ben");
    await until(() => hub.allSee());
    const before = await ada.store.encrypt(FRAME);
    const index = hub.indexOf("ada");
    const eve = await hub.join("eve");
    await until(() => hub.allSee());
    expect(await eve.store.decrypt("ada", { ...FRAME, bytes: before ?? FRAME.bytes })).toBe("wrong-key");
    expect(hub.indexOf("ada")).toBe(index);
  });

  test("many who join one after another decrypt each other", async () => {
    for (let at = 0; at < 12; at++) await hub.join(`p${at}`);
    await until(() => hub.allSee());
  });

  test("a participant that has left cannot decrypt later frames, while all others can", async () => {
    for (const identity of ["ada", "ben", "eve", "max"]) await hub.join(identity);
    await until(() => hub.allSee());
    const before = ["ada", "ben", "max"].map(hub.indexOf);
    const eve = hub.leave("eve");
    await until(() => ["ada", "ben", "max"].every((identity, at) => hub.indexOf(identity) !== before[at]));
    // A key is imported before it is used.
    const seen = () => Promise.all(["ada", "ben", "max"].map((sender) => hub.sees(eve?.store as KeyStore, sender)));
    await until(async () => (await seen()).every((sees) => !sees));
    expect(await hub.allSee()).toBe(true);
    // Former keys are kept for what is under way, and forgotten then.
    const kept = () => hub.members.get("ada")?.agreement.provider.keys.filter(({ identity }) => identity !== "ada");
    expect(kept()?.length).toBeGreaterThan(2);
    await until(() => hub.pauses.filter(({ ms }) => ms === 5_000).length > 0);
    for (const { end } of hub.pauses) end();
    await until(() => kept()?.length === 2);
  });

  test("a new key is used when everyone has it, or after a while", async () => {
    for (const identity of ["ada", "ben", "eve", "max"]) await hub.join(identity);
    await until(() => hub.allSee());
    const before = hub.indexOf("ada");
    hub.passes = (from, to) => !(from === "max" && to === "ada");
    hub.leave("eve");
    const answers = () => hub.members.get("ada")?.received.filter(([from]) => from === "ben").length ?? 0;
    const had = answers();
    await until(() => answers() > had && hub.pauses.some(({ ms }) => ms === 750));
    expect(hub.indexOf("ada")).toBe(before);
    for (const { ms, end } of hub.pauses) if (ms === 750) end();
    await until(() => hub.indexOf("ada") !== before);
  });

  test("if the server replaces a public key, the safety number of the deceived participant changes", async () => {
    const mallory = await KeyAgreement.create();
    hub.publicKeyOf = (viewer, identity) =>
      viewer === "ada" && identity === "ben"
        ? mallory.publicKey
        : (hub.members.get(identity)?.agreement.publicKey ?? "");
    const [ada, ben] = [await hub.join("ada"), await hub.join("ben")];
    await until(() => ada.number !== null && ben.number !== null);
    expect(ada.number).not.toBe(ben.number);
  });

  test("a key that was sent before, or to someone else, is refused", async () => {
    const ada = await hub.join("ada");
    const ben = await hub.join("ben");
    await hub.join("eve");
    await until(() => hub.allSee());
    const keyOfAda = () => {
      const { keys } = ben.agreement.provider;
      return keys
        .filter(({ identity }) => identity === "ada")
        .map(({ index, material }) => `${index} ${hex(material)}`);
    };
    const old = ben.received.filter(([from, message]) => from === "ada" && message.includes("keys"));
    hub.leave("eve");
    await until(async () => hub.indexOf("ada") === 1 && (await hub.allSee()));
    const known = keyOfAda();
    for (const [from, message] of old) await ben.agreement.receive(from, message);
    const [, last = ""] = ben.received.findLast(([from, message]) => from === "ada" && message.includes("keys")) ?? [];
    const { epoch, keys } = JSON.parse(last);
    for (const hostile of [
      last.replace(`"epoch":${epoch}`, `"epoch":${epoch + 1}`),
      last.replace(/"ben":"../, '"ben":"AA'),
      JSON.stringify({ v: 1, epoch: "9", keys }),
      JSON.stringify({ v: 1, epoch: 1e300, keys }),
      JSON.stringify({ v: 1, epoch: 9, keys: { ben: "" } }),
      "null",
      "{",
    ])
      await ben.agreement.receive("ada", hostile);
    expect(keyOfAda()).toEqual(known);
    expect(await hub.sees(ben.store, "ada")).toBe(true);
    expect(ada.number).toBe(ben.number);
  });

  test("a participant whose public key is invalid gets no key, and the others agree", async () => {
    hub.publicKeyOf = (_, identity) =>
      identity === "eve" ? "A".repeat(87) : (hub.members.get(identity)?.agreement.publicKey ?? "");
    const [ada, ben, eve] = [await hub.join("ada"), await hub.join("ben"), await hub.join("eve")];
    await until(async () => (await hub.sees(ben.store, "ada")) && (await hub.sees(ada.store, "ben")));
    expect(eve.received).toEqual([]);
  });

  test("the guide's vectors: a public key, a wrapped key and a safety number", async () => {
    const [ada, ben] = await Promise.all([1, 2].map(async (byte) => KeyAgreement.create(await pairOf(byte))));
    expect([ada?.publicKey, ben?.publicKey]).toEqual([
      "BG_wO5SSQc4drdQ1GeaWDgqFtBppoFwygQOqK84VlMoWPE91OlW_AdxT9sCwx-7ni0DG_30lqW4igrmJzvccFEo",
      "BFUPRxAD89-Xw99QaseX9nIfsaH7e49vg9IkSYplyI4kE2CT1wEuUJpzcVy9CwCjzA_0tcAbP_oZarH7MnA2uOY",
    ]);
    const numbered = new Promise((onSafetyNumber) => ben?.connect({ send: async () => {}, onSafetyNumber }));
    ben?.joined("ben");
    ben?.participantsChanged([{ identity: "ada", attributes: { [PUBLIC_KEY_ATTRIBUTE]: ada?.publicKey ?? "" } }]);
    const wrapped = "AQIDBAUGBwgJCgsMmhh7YFV2qKljn6gzI3fDTAMQptD61_RyOLHuTlrsvFirDkLJZpTS7Uutko2zl4N9";
    await ben?.receive("ada", JSON.stringify({ v: 1, epoch: 0, keys: { ben: wrapped } }));
    const key = ben?.provider.keys.find(({ identity }) => identity === "ada");
    expect([key?.index, hex(key?.material)]).toEqual([0, "01".repeat(32)]);
    expect(await numbered).toBe("65399 38467 26409 31591 29364 83901");
    ben?.close();
  });
});

/** The pair whose private key has 32 of these bytes. */
async function pairOf(byte: number): Promise<CryptoKeyPair> {
  const ecdh = createECDH("prime256v1");
  ecdh.setPrivateKey(Buffer.alloc(32, byte));
  const point = ecdh.getPublicKey();
  const [x, y] = [point.subarray(1, 33).toString("base64url"), point.subarray(33).toString("base64url")];
  const curve = { name: "ECDH", namedCurve: "P-256" };
  const publicJwk = { kty: "EC", crv: "P-256", x, y };
  const privateJwk = { ...publicJwk, d: Buffer.alloc(32, byte).toString("base64url") };
  return {
    publicKey: await crypto.subtle.importKey("jwk", publicJwk, curve, true, []),
    privateKey: await crypto.subtle.importKey("jwk", privateJwk, curve, false, ["deriveBits"]),
  };
}
