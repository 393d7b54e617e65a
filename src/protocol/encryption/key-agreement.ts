/**
 * Keys on which the participants of a room agree among themselves. Each participant has an ECDH key pair, whose public half the
 * server passes on. Each makes its own frame keys, and sends them to every other participant, encrypted with the secret that only
 * those two share.
 */
import { KEY_RING_SIZE, KeyProvider } from "./key-provider.ts";
import { importMaterial, nextMaterial } from "./key-ring.ts";

/** The attribute of a participant's public key, which the server sets from `room.join`. */
export const PUBLIC_KEY_ATTRIBUTE = "stoa.key";
/**
 * A random delay, so that participants do not all change their keys at the same moment and changes close to each other need only
 * one key.
 */
const JITTER_MS = 200;
/** A new key is used once all others have it, or after this time at the latest. */
const ANSWERS_WITHIN_MS = 750;
/** How long frames encrypted with a former key may still be under way. */
const FORMER_KEY_MS = 5_000;
/** Receivers follow at most eight ratchets, so a key that was ratcheted this often is replaced. */
const MAX_RATCHETS = 6;
/** The number of keys that fit into one message. */
const RECEIVERS_PER_MESSAGE = 100;
const MAX_EARLY_MESSAGES = 100;
const KEY_BYTES = 32;
const IV_BYTES = 12;

/** A participant with whom keys are exchanged. */
type Peer = {
  publicKey: string;
  /** Encrypts frame keys between the two; null if the public key is invalid. */
  wrapping: Promise<CryptoKey | null>;
  /** The epoch of the last key that the participant sent. */
  epoch: number;
};

type KeyMessage = { v: 1; epoch: number; keys: Record<string, string> };
type Answer = { v: 1; have: number };

type Member = { identity: string; attributes: Readonly<Record<string, string>> };

type AgreementChannel = {
  send(to: string[], message: string): Promise<void>;
  /** The safety number of everyone who is present; null while this participant is alone. */
  onSafetyNumber(number: string | null): void;
};

const wait = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

export class KeyAgreement {
  readonly provider = new KeyProvider();
  /** What others need to send keys to this participant. */
  readonly publicKey: string;
  readonly #privateKey: CryptoKey;
  readonly #wait: typeof wait;
  readonly #peers = new Map<string, Peer>();
  /** The last message of each participant whose public key has not arrived yet. */
  readonly #early = new Map<string, string>();
  /** The keys that are held of others, by identity and index. A former key will be removed. */
  readonly #held = new Map<string, Map<number, { isFormer: boolean }>>();
  #channel: AgreementChannel | null = null;
  #identity = "";
  #epoch = -1;
  #secret = new Uint8Array(KEY_BYTES);
  #ratchets = 0;
  /** Someone who knows the key has left. */
  #isStale = true;
  #newcomers = new Set<string>();
  #isRunning = false;
  #unanswered = new Set<string>();
  #onAnswered: () => void = () => {};
  /** The end of the queue: messages are handled one after another. */
  #handled: Promise<void> = Promise.resolve();
  #members = "";

  private constructor(pair: CryptoKeyPair, publicKey: string, waiting: typeof wait) {
    this.#privateKey = pair.privateKey;
    this.publicKey = publicKey;
    this.#wait = waiting;
  }

  /** Uses the given key pair, for test vectors, or creates one. */
  static async create(pair?: CryptoKeyPair, waiting = wait): Promise<KeyAgreement> {
    const own = pair ?? (await crypto.subtle.generateKey(CURVE, false, ["deriveBits"]));
    const raw = await crypto.subtle.exportKey("raw", own.publicKey);
    return new KeyAgreement(own, toBase64Url(new Uint8Array(raw)), waiting);
  }

  /** Called before the first join. */
  connect(channel: AgreementChannel): void {
    this.#channel = channel;
  }

  /**
   * Called for each new session, before its participants are known. The others saw this participant leave, so they need a key
   * again.
   */
  joined(identity: string): void {
    this.#identity = identity;
    this.#isStale = true;
    this.#schedule();
  }

  /** Called with all other participants whenever they change. */
  participantsChanged(members: Iterable<Member>): void {
    const present = new Map<string, string>();
    for (const { identity, attributes } of members) {
      const publicKey = attributes[PUBLIC_KEY_ATTRIBUTE];
      if (publicKey && identity !== this.#identity) present.set(identity, publicKey);
    }
    for (const [identity, { publicKey }] of this.#peers)
      if (present.get(identity) !== publicKey) this.#removePeer(identity);
    for (const [identity, publicKey] of present) if (!this.#peers.has(identity)) this.#addPeer(identity, publicKey);
    this.#updateSafetyNumber(present);
    this.#schedule();
  }

  /** Takes a message of another participant. */
  receive(from: string, text: string): Promise<void> {
    this.#handled = this.#handled.then(() => this.#receive(from, text)).catch(() => {});
    return this.#handled;
  }

  close(): void {
    this.#channel = null;
    this.#onAnswered();
  }

  #addPeer(identity: string, publicKey: string): void {
    this.#peers.set(identity, { publicKey, wrapping: this.#wrappingKey(publicKey).catch(() => null), epoch: -1 });
    this.#newcomers.add(identity);
    const early = this.#early.get(identity);
    this.#early.delete(identity);
    if (early !== undefined) void this.receive(identity, early);
  }

  #removePeer(identity: string): void {
    this.#peers.delete(identity);
    this.#newcomers.delete(identity);
    this.#unanswered.delete(identity);
    if (this.#unanswered.size === 0) this.#onAnswered();
    for (const [index, key] of this.#held.get(identity) ?? []) this.#expire(identity, index, key);
    this.#isStale = true;
  }

  #schedule(): void {
    if (this.#isRunning || this.#identity === "") return;
    this.#isRunning = true;
    void this.#run().finally(() => {
      this.#isRunning = false;
    });
  }

  async #run(): Promise<void> {
    while (this.#channel && (this.#isStale || this.#newcomers.size > 0)) {
      await this.#wait(this.#epoch < 0 ? 0 : Math.random() * JITTER_MS);
      if (this.#isStale || this.#ratchets >= MAX_RATCHETS) await this.#replaceKey();
      else await this.#ratchetKey();
    }
  }

  async #replaceKey(): Promise<void> {
    this.#isStale = false;
    this.#newcomers.clear();
    this.#epoch += 1;
    this.#ratchets = 0;
    this.#secret = crypto.getRandomValues(new Uint8Array(KEY_BYTES));
    const index = this.#epoch % KEY_RING_SIZE;
    this.provider.setKey(this.#identity, this.#secret, index);
    this.#unanswered = new Set(this.#peers.keys());
    const answered = new Promise<void>((resolve) => {
      this.#onAnswered = resolve;
    });
    if (this.#unanswered.size > 0) {
      void this.#distribute([...this.#unanswered]);
      await Promise.race([answered, this.#wait(ANSWERS_WITHIN_MS)]);
    }
    this.provider.activate(this.#identity, index);
  }

  /** Newcomers cannot read what was sent before they joined; all others compute the ratcheted key themselves. */
  async #ratchetKey(): Promise<void> {
    const newcomers = [...this.#newcomers];
    this.#newcomers.clear();
    this.#ratchets += 1;
    this.#secret = await nextMaterial(await importMaterial(this.#secret));
    this.provider.setKey(this.#identity, this.#secret, this.#epoch % KEY_RING_SIZE);
    await this.#distribute(newcomers);
  }

  async #distribute(receivers: string[]): Promise<void> {
    const [epoch, secret] = [this.#epoch, this.#secret];
    for (let at = 0; at < receivers.length; at += RECEIVERS_PER_MESSAGE) {
      const keys: Record<string, string> = {};
      for (const to of receivers.slice(at, at + RECEIVERS_PER_MESSAGE)) {
        const wrapping = await this.#peers.get(to)?.wrapping;
        if (wrapping) keys[to] = await wrapKey(wrapping, secret, context(this.#identity, to, epoch));
      }
      await this.#send(Object.keys(keys), { v: 1, epoch, keys });
    }
  }

  async #send(to: string[], message: KeyMessage | Answer): Promise<void> {
    // If the session ends meanwhile, a new key is distributed after the next join.
    if (to.length > 0) await this.#channel?.send(to, JSON.stringify(message)).catch(() => {});
  }

  async #receive(from: string, text: string): Promise<void> {
    const peer = this.#peers.get(from);
    if (!peer) {
      if (this.#early.size < MAX_EARLY_MESSAGES) this.#early.set(from, text);
      return;
    }
    const { epoch, keys, have } = JSON.parse(text) as Partial<KeyMessage & Answer>;
    if (have === this.#epoch) {
      this.#unanswered.delete(from);
      if (this.#unanswered.size === 0) this.#onAnswered();
    }
    const wrapped = keys?.[this.#identity];
    // Someone who has left may know a key of an earlier epoch.
    if (wrapped === undefined || !Number.isSafeInteger(epoch) || epoch === undefined || epoch < peer.epoch) return;
    const wrapping = await peer.wrapping;
    if (!wrapping) return;
    const key = await unwrapKey(wrapping, wrapped, context(from, this.#identity, epoch));
    if (this.#peers.get(from) !== peer) return;
    peer.epoch = epoch;
    this.#hold(from, epoch % KEY_RING_SIZE, key);
    await this.#send([from], { v: 1, have: epoch });
  }

  #hold(identity: string, index: number, key: Uint8Array<ArrayBuffer>): void {
    this.provider.setKey(identity, key, index);
    const held = this.#held.get(identity) ?? new Map();
    this.#held.set(identity, held.set(index, { isFormer: false }));
    for (const [other, state] of held) if (other !== index && !state.isFormer) this.#expire(identity, other, state);
  }

  #expire(identity: string, index: number, key: { isFormer: boolean }): void {
    key.isFormer = true;
    void this.#wait(FORMER_KEY_MS).then(() => {
      const held = this.#held.get(identity);
      if (held?.get(index) !== key) return;
      held.delete(index);
      if (held.size === 0) this.#held.delete(identity);
      this.provider.removeKey(identity, index);
    });
  }

  #updateSafetyNumber(others: ReadonlyMap<string, string>): void {
    const members = listed([[this.#identity, this.publicKey], ...others]);
    if (members === this.#members) return;
    this.#members = members;
    const numbered = others.size === 0 ? Promise.resolve(null) : safetyNumberOf(members);
    void numbered.then((number) => members === this.#members && this.#channel?.onSafetyNumber(number));
  }

  async #wrappingKey(publicKey: string): Promise<CryptoKey> {
    const other = await crypto.subtle.importKey("raw", fromBase64(publicKey), CURVE, false, []);
    const shared = await crypto.subtle.deriveBits({ name: "ECDH", public: other }, this.#privateKey, 256);
    const material = await crypto.subtle.importKey("raw", shared, "HKDF", false, ["deriveKey"]);
    const derivation = { name: "HKDF", hash: "SHA-256", salt: new Uint8Array(), info: INFO };
    return crypto.subtle.deriveKey(derivation, material, { name: "AES-GCM", length: 256 }, false, [
      "encrypt",
      "decrypt",
    ]);
  }
}

const CURVE = { name: "ECDH", namedCurve: "P-256" };
const utf8 = (text: string) => new TextEncoder().encode(text);
const INFO = utf8("stoa.e2ee 1");

/** A wrapped key is valid only for this sender, this receiver and this epoch. */
const context = (from: string, to: string, epoch: number) => utf8(JSON.stringify([from, to, epoch]));

const listed = (members: [identity: string, publicKey: string][]) =>
  JSON.stringify(members.sort(([a], [b]) => (a < b ? -1 : 1)));

const GROUPS = 6;
const GROUP_BYTES = 5;

/** Six groups of five digits that participants compare by voice. The digits differ if someone was given a false public key. */
async function safetyNumberOf(members: string): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", utf8(members)));
  return Array.from({ length: GROUPS }, (_, group) => {
    const bytes = digest.subarray(group * GROUP_BYTES, (group + 1) * GROUP_BYTES);
    return String(bytes.reduce((value, byte) => value * 256 + byte, 0) % 100_000).padStart(5, "0");
  }).join(" ");
}

async function wrapKey(
  wrapping: CryptoKey,
  secret: Uint8Array<ArrayBuffer>,
  additionalData: Uint8Array<ArrayBuffer>,
): Promise<string> {
  const iv = crypto.getRandomValues(new Uint8Array(IV_BYTES));
  const sealed = await crypto.subtle.encrypt({ name: "AES-GCM", iv, additionalData }, wrapping, secret);
  return toBase64Url(new Uint8Array([...iv, ...new Uint8Array(sealed)]));
}

async function unwrapKey(
  wrapping: CryptoKey,
  wrapped: string,
  additionalData: Uint8Array<ArrayBuffer>,
): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = fromBase64(wrapped);
  const algorithm = { name: "AES-GCM", iv: bytes.slice(0, IV_BYTES), additionalData };
  return new Uint8Array(await crypto.subtle.decrypt(algorithm, wrapping, bytes.slice(IV_BYTES)));
}

function toBase64Url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes))
    .replace(/\+/g, "-")
    .replace(/\//g, "_")
    .replace(/=/g, "");
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const binary = atob(text.replace(/-/g, "+").replace(/_/g, "/"));
  return Uint8Array.from(binary, (character) => character.charCodeAt(0));
}
