import type { EncryptedContent } from "../../../src/protocol/data/data-packet.ts";
import { DataCipher, type DataKeys } from "../../../src/protocol/encryption/data-cipher.ts";
import type { KeyProvider } from "../../../src/protocol/encryption/key-provider.ts";
import { RoomKeys } from "../../../src/protocol/encryption/room-keys.ts";
import type { RemoteTrack } from "../room/remote-participant.ts";
import type { FromWorker, ToWorker, TransformOptions } from "./messages.ts";

/** Encrypts what this participant sends, and decrypts what it receives, in a worker. */
export class Encryption implements DataKeys {
  readonly keys: RoomKeys;
  readonly data = new DataCipher(this);
  readonly #worker: Worker;
  readonly #answers = new Map<number, (result: never) => void>();
  #receivers = 0;
  #questions = 0;

  constructor(provider: KeyProvider) {
    this.#worker = startWorker();
    this.#worker.onmessage = ({ data }: MessageEvent<FromWorker>) => {
      if (data.type === "undecryptable") return this.keys.failed(data.identity);
      this.#answers.get(data.id)?.(data.result as never);
      this.#answers.delete(data.id);
    };
    this.keys = new RoomKeys(provider, (command) => this.#send(command));
  }

  /** Nothing leaves this sender unencrypted from now on. */
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
