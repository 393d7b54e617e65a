/** Encrypts and decrypts the frames of all tracks away from the page's thread. The SDK starts it; nothing imports it. */
import type { Frame } from "../../../src/protocol/encryption/frame-cipher.ts";
import { frameCodecOf } from "../../../src/protocol/encryption/frame-format.ts";
import { KeyStore } from "../../../src/protocol/encryption/key-store.ts";
import { MAX_FAILED_FRAMES } from "../../../src/protocol/encryption/room-keys.ts";
import type { FromWorker, ToWorker, TransformOptions } from "./messages.ts";

/** Firefox has no `mimeType`. */
type Metadata = { mimeType?: string; payloadType?: number };
/** The part of RTCEncodedVideoFrame and RTCEncodedAudioFrame that is needed; TypeScript has it for pages only. */
type EncodedFrame = { data: ArrayBuffer; type?: "key" | "delta" | "empty"; getMetadata(): Metadata };
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

const scope = globalThis as unknown as WorkerScope;
const keys = new KeyStore();
const receivers = new Map<string, Receiver>();
/** The MIME types of codecs by payload type. */
let mimeTypes: ReadonlyMap<number, string> = new Map();

/** Decrypts the frames of one receiver, which gets the tracks of several participants one after another. */
class Receiver {
  /** Undefined until a track is assigned, null for a track that is not encrypted. */
  #identity: string | null | undefined;
  #requestKeyframe: () => void = () => {};
  #failures = 0;

  assign(identity: string | null): void {
    this.#identity = identity;
    this.#failures = 0;
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
    const plain = await keys.decrypt(identity, frame);
    if (identity !== this.#identity) return;
    if (typeof plain === "string") {
      if (++this.#failures === MAX_FAILED_FRAMES) scope.postMessage({ type: "undecryptable", identity });
      return;
    }
    // A decoder that lacks the dropped frames cannot continue before the next keyframe.
    if (this.#failures > 0 && encoded.type === "delta") this.#requestKeyframe();
    this.#failures = 0;
    encoded.data = plain.buffer;
    output.enqueue(encoded);
  }
}

function receiverOf(id: string): Receiver {
  let receiver = receivers.get(id);
  if (!receiver) {
    receiver = new Receiver();
    receivers.set(id, receiver);
  }
  return receiver;
}

async function send(encoded: EncodedFrame, output: Output): Promise<void> {
  const frame = describe(encoded);
  const bytes = frame && (await keys.encrypt(frame));
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
  const { mimeType, payloadType = -1 } = encoded.getMetadata();
  const codec = frameCodecOf(mimeType ?? mimeTypes.get(payloadType));
  return codec && { codec, bytes: new Uint8Array(encoded.data), isKeyframe: encoded.type === "key" };
}

scope.onmessage = async ({ data }) => {
  switch (data.type) {
    case "assign":
      return receiverOf(data.receiver).assign(data.identity);
    case "codecs":
      mimeTypes = data.mimeTypes;
      return;
    case "encryptData":
      return scope.postMessage({ type: "data", id: data.id, result: await keys.encryptData(data.plain) });
    case "decryptData": {
      const result = await keys.decryptData(data.identity, data.content);
      return scope.postMessage({ type: "data", id: data.id, result });
    }
    default:
      return keys.apply(data);
  }
};

scope.onrtctransform = ({ transformer }) => {
  const { options } = transformer;
  if (options.direction === "receive") receiverOf(options.receiver).start(transformer);
  else transformAll(transformer, send);
};
