/** Encrypts and decrypts the frames of all tracks away from the page's thread. The SDK starts it; nothing imports it. */
import { deferred } from "../deferred.ts";
import { decryptFrame, encryptFrame, type Frame } from "./frame-cipher.ts";
import { frameCodecOf } from "./frame-format.ts";
import { importMaterial, KeyRing } from "./key-ring.ts";
import type { FromWorker, ToWorker, TransformOptions } from "./messages.ts";

/** The part of RTCEncodedVideoFrame and RTCEncodedAudioFrame that is needed; TypeScript has it for pages only. */
type EncodedFrame = { data: ArrayBuffer; type?: "key" | "delta" | "empty"; getMetadata(): { mimeType?: string } };
type Transformer = {
  readable: ReadableStream<EncodedFrame>;
  writable: WritableStream<EncodedFrame>;
  options: TransformOptions;
  sendKeyFrameRequest(): Promise<unknown>;
};
type WorkerScope = {
  onmessage: (event: { data: ToWorker }) => void;
  onrtctransform: (event: { transformer: Transformer }) => void;
  postMessage(message: FromWorker): void;
};
type Output = TransformStreamDefaultController<EncodedFrame>;

/** How long a receiver holds frames for a key that is under way. */
const KEY_WAIT_MS = 1_000;
/** So many frames in a row that cannot be decrypted mean that the key is missing, not that a frame was damaged. */
const FAILURES = 10;
/** A participant may have ratcheted its own key so often; a key shared by all is never ratcheted. */
const RATCHETS = 8;

const scope = globalThis as unknown as WorkerScope;
const rings = new Map<string | null, KeyRing>();
const receivers = new Map<string, Receiver>();
/** The participant whose keys this page encrypts with; null while that is the key shared by all. */
let ownIdentity: string | null = null;
let keyArrived = deferred<void>();
/** Messages are applied one after another, although keys are imported asynchronously. */
let applied: Promise<void> = Promise.resolve();

function ringOf(identity: string | null): KeyRing {
  let ring = rings.get(identity);
  if (!ring) {
    ring = new KeyRing();
    rings.set(identity, ring);
  }
  return ring;
}

/** Decrypts the frames of one receiver, which gets the tracks of several participants one after another. */
class Receiver {
  readonly #id: string;
  /** Undefined until a track is assigned, null for a track that is not encrypted. */
  #identity: string | null | undefined;
  #requestKeyframe: () => void = () => {};
  #failures = 0;
  #hasWaited = false;

  constructor(id: string) {
    this.#id = id;
  }

  assign(identity: string | null): void {
    this.#identity = identity;
    this.#failures = 0;
    this.#hasWaited = false;
  }

  start(transformer: Transformer): void {
    this.#requestKeyframe = () => void transformer.sendKeyFrameRequest().catch(() => {});
    transformAll(transformer, (frame, output) => this.#receive(frame, output));
  }

  async #receive(encoded: EncodedFrame, output: Output): Promise<void> {
    const identity = this.#identity;
    if (identity === undefined) return;
    if (identity === null) return output.enqueue(encoded);
    const frame = describe(encoded);
    if (!frame) return;
    const ring = () => rings.get(identity) ?? ringOf(null);
    const decrypt = () => decryptFrame(ring(), frame, rings.has(identity) ? RATCHETS : 0);
    let plain = await decrypt();
    if (plain === "unknown-key" && !this.#hasWaited) {
      this.#hasWaited = true;
      await Promise.race([keyArrived.promise, new Promise((resolve) => setTimeout(resolve, KEY_WAIT_MS))]);
      plain = await decrypt();
    }
    if (typeof plain === "string") {
      if (++this.#failures === FAILURES) scope.postMessage({ type: "undecryptable", receiver: this.#id, identity });
      return;
    }
    // What was dropped is missing to the decoder, so it cannot go on before the next keyframe.
    if (this.#failures > 0 && encoded.type === "delta") this.#requestKeyframe();
    this.#failures = 0;
    this.#hasWaited = false;
    encoded.data = plain.buffer;
    output.enqueue(encoded);
  }
}

function receiverOf(id: string): Receiver {
  let receiver = receivers.get(id);
  if (!receiver) {
    receiver = new Receiver(id);
    receivers.set(id, receiver);
  }
  return receiver;
}

async function send(encoded: EncodedFrame, output: Output): Promise<void> {
  const frame = describe(encoded);
  const bytes = frame && (await encryptFrame(ringOf(ownIdentity), frame));
  if (!bytes) return;
  encoded.data = bytes.buffer;
  output.enqueue(encoded);
}

/** The streams end with an error when the connection is closed. */
function transformAll(
  { readable, writable }: Transformer,
  transform: (frame: EncodedFrame, output: Output) => unknown,
) {
  readable
    .pipeThrough(
      new TransformStream({ transform: (frame, output) => Promise.resolve(transform(frame, output)).then(() => {}) }),
    )
    .pipeTo(writable)
    .catch(() => {});
}

function describe(encoded: EncodedFrame): Frame | null {
  const codec = frameCodecOf(encoded.getMetadata().mimeType);
  return codec && { codec, bytes: new Uint8Array(encoded.data), isKeyframe: encoded.type === "key" };
}

async function apply(message: ToWorker): Promise<void> {
  switch (message.type) {
    case "key":
      await ringOf(message.identity).set(message.index, await importMaterial(message.material));
      keyArrived.resolve();
      keyArrived = deferred();
      return;
    case "encryptWith":
      ownIdentity = message.identity;
      ringOf(message.identity).current = message.index;
      return;
    case "assign":
      return receiverOf(message.receiver).assign(message.identity);
  }
}

scope.onmessage = ({ data }) => {
  applied = applied.then(() => apply(data)).catch((error) => console.error("encryption: message failed", error));
};

scope.onrtctransform = ({ transformer }) => {
  const { options } = transformer;
  if (options.direction === "receive") receiverOf(options.receiver).start(transformer);
  else transformAll(transformer, send);
};
