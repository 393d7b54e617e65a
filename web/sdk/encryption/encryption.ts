import type { RemoteTrack } from "../room/remote-participant.ts";
import type { KeyProvider } from "./key-provider.ts";
import type { FromWorker, ToWorker, TransformOptions } from "./messages.ts";

/** Encrypts what this participant sends, and decrypts what it receives, frame by frame in a worker. */
export class Encryption {
  readonly #provider: KeyProvider;
  readonly #worker: Worker;
  readonly #stop: (() => void)[];
  /** Identities whose frames failed to decrypt; each is cleared by a new key. */
  readonly #failed = new Set<string>();
  #receivers = 0;
  #identity = "";

  /** Called when `canDecrypt` may have changed for some participant. */
  onKeysChanged: () => void = () => {};

  constructor(provider: KeyProvider) {
    this.#provider = provider;
    this.#worker = startWorker();
    this.#worker.onmessage = ({ data }: MessageEvent<FromWorker>) => {
      this.#failed.add(data.identity);
      this.onKeysChanged();
    };
    const send = (message: ToWorker) => this.#worker.postMessage(message);
    for (const key of provider.keys) send({ type: "key", ...key });
    this.#stop = [
      provider.on("keySet", (key) => {
        send({ type: "key", ...key });
        if (key.identity === null) this.#failed.clear();
        else this.#failed.delete(key.identity);
        this.onKeysChanged();
      }),
      provider.on("activated", () => this.#chooseOwnKey()),
    ];
  }

  /** Called with the local participant's identity when the room is joined. */
  joined(identity: string): void {
    this.#identity = identity;
    this.#chooseOwnKey();
    this.onKeysChanged();
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
    const identity = track.encrypted ? track.participant.identity : null;
    this.#worker.postMessage({ type: "assign", receiver, identity } satisfies ToWorker);
  }

  canDecrypt(identity: string): boolean {
    return this.#provider.hasKeyOf(identity) && !this.#failed.has(identity);
  }

  close(): void {
    for (const stop of this.#stop) stop();
    this.#worker.terminate();
  }

  #chooseOwnKey(): void {
    const key = this.#provider.activeKeyOf(this.#identity);
    if (key) this.#worker.postMessage({ type: "encryptWith", ...key } satisfies ToWorker);
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
