import type { EncryptedContent } from "../../../src/protocol/data/data-packet.ts";
import type { RoomData } from "../../../src/protocol/data/room-data.ts";
import { DataCipher, type DataKeys, KEY_TOPIC } from "../../../src/protocol/encryption/data-cipher.ts";
import { KeyAgreement } from "../../../src/protocol/encryption/key-agreement.ts";
import {
  type EncryptionOptions,
  type KeyProvider,
  keyProviderOf,
} from "../../../src/protocol/encryption/key-provider.ts";
import { RoomKeys } from "../../../src/protocol/encryption/room-keys.ts";
import type { JoinAck } from "../../../src/protocol/signaling.ts";
import { StoaError } from "../errors.ts";
import type { RemoteTrack } from "../room/remote-participant.ts";
import type { FromWorker, ToWorker, TransformOptions } from "./messages.ts";

/** The parts of a room that the key agreement uses. */
type Agreeing = {
  safetyNumber: string | null;
  readonly participants: ReadonlyMap<string, { identity: string; attributes: Readonly<Record<string, string>> }>;
  on(event: "participantJoined" | "participantLeft" | "participantUpdated", listener: () => void): unknown;
  emit(event: "safetyNumberChanged", number: string | null): void;
};

/** Encrypts what this participant sends, and decrypts what it receives, in a worker. */
export class Encryption implements DataKeys {
  readonly keys: RoomKeys;
  readonly data = new DataCipher(this);
  readonly #agreement: KeyAgreement | null;
  readonly #worker: Worker;
  readonly #answers = new Map<number, (result: never) => void>();
  /** Called when the worker cannot be loaded, without which nothing is sent or shown. */
  onError: (error: StoaError) => void = () => {};
  #receivers = 0;
  #questions = 0;

  private constructor(provider: KeyProvider, agreement: KeyAgreement | null) {
    this.#agreement = agreement;
    this.#worker = startWorker();
    this.#worker.onerror = () =>
      this.onError(new StoaError("NO_ENCRYPTION", "unsupported", "The encryption worker has failed."));
    this.#worker.onmessage = ({ data }: MessageEvent<FromWorker>) => {
      if (data.type === "undecryptable") return this.keys.failed(data.identity);
      this.#answers.get(data.id)?.(data.result as never);
      this.#answers.delete(data.id);
    };
    this.keys = new RoomKeys(provider, (command) => this.#send(command));
  }

  static async create(options: EncryptionOptions): Promise<Encryption> {
    if (!("agree" in options)) return new Encryption(keyProviderOf(options), null);
    const agreement = await KeyAgreement.create();
    return new Encryption(agreement.provider, agreement);
  }

  /** Present if the participants agree on keys. */
  get publicKey(): string | undefined {
    return this.#agreement?.publicKey;
  }

  /** Lets the participants of the room agree on keys, if they are to. */
  attach(room: Agreeing, data: RoomData): void {
    const agreement = this.#agreement;
    if (!agreement) return;
    agreement.connect({
      send: (to, message) => data.sendData(message, { to, topic: KEY_TOPIC }),
      onSafetyNumber: (number) => {
        room.safetyNumber = number;
        room.emit("safetyNumberChanged", number);
      },
    });
    this.data.onKeyMessage = (from, message) => void agreement.receive(from, message);
    const changed = () => agreement.participantsChanged(room.participants.values());
    for (const event of ["participantJoined", "participantLeft", "participantUpdated"] as const)
      room.on(event, changed);
  }

  /** Called after each join; a `new` session begins without the keys of the one before. */
  joined({ participant: { identity }, permissions }: JoinAck, isNew: boolean): void {
    this.keys.joined(identity);
    if (!this.#agreement || !isNew) return;
    this.#agreement.joined(identity);
    if (permissions.publish && !permissions.publishData)
      throw new StoaError("PERMISSION_DENIED", "not-allowed", "Agreeing on keys needs the permission publishData.");
  }

  /** Called with each offer of this client, before its media begins. */
  described(sdp: string): void {
    const mimeTypes = new Map<number, string>();
    for (const section of sdp.split(/^m=/m).slice(1)) {
      const [kind] = section.split(" ", 1);
      for (const [, payloadType, codec] of section.matchAll(/^a=rtpmap:(\d+) ([^/]+)/gm))
        mimeTypes.set(Number(payloadType), `${kind}/${codec}`);
    }
    this.#send({ type: "codecs", mimeTypes });
  }

  /** From now on nothing leaves this sender unencrypted. */
  encrypt(sender: RTCRtpSender): void {
    sender.transform ??= this.#transform({ direction: "send" });
  }

  /** Lets `assign` decide what happens to the frames of this receiver; returns the receiver's id. */
  prepareReceiver(receiver: RTCRtpReceiver): string {
    const id = String(++this.#receivers);
    receiver.transform = this.#transform({ direction: "receive", receiver: id });
    return id;
  }

  /** Called before media of the track arrives at the receiver. */
  assign(receiver: string, track: RemoteTrack): void {
    this.#send({ type: "assign", receiver, identity: track.encrypted ? track.participant.identity : null });
  }

  encryptData(plain: Uint8Array): Promise<EncryptedContent | null> {
    return this.#ask((id) => ({ type: "encryptData", id, plain }));
  }

  decryptData(identity: string, content: EncryptedContent): Promise<Uint8Array | null> {
    return this.#ask((id) => ({ type: "decryptData", id, identity, content }));
  }

  close(): void {
    this.#agreement?.close();
    this.keys.close();
    this.#worker.terminate();
    for (const answer of this.#answers.values()) answer(null as never);
    this.#answers.clear();
  }

  #ask<T>(question: (id: number) => ToWorker): Promise<T> {
    const id = ++this.#questions;
    return new Promise<T>((resolve) => {
      this.#answers.set(id, resolve);
      this.#send(question(id));
    });
  }

  #send(message: ToWorker): void {
    this.#worker.postMessage(message);
  }

  #transform(options: TransformOptions): RTCRtpScriptTransform {
    return new RTCRtpScriptTransform(this.#worker, options);
  }
}

/**
 * The worker is a file beside the SDK's. A page whose SDK comes from another origin may not start it from there, but a
 * worker of its own may import it.
 */
function startWorker(): Worker {
  const { protocol, origin, href } = new URL(import.meta.url);
  if (!protocol.startsWith("http") || origin === location.origin) {
    // Bundlers find the file by exactly this expression.
    return new Worker(new URL("./encryption-worker.js", import.meta.url), { type: "module" });
  }
  const source = `import ${JSON.stringify(href.replace(/[^/]*$/, "encryption-worker.js"))}`;
  const blob = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  return new Worker(blob, { type: "module" });
}
