/**
 * The audio worklet of the noise suppression: RNNoise, and a measurement of the time that it takes. It uses the WebAssembly of its
 * package without the package's worklet, which lets samples wait 1.3 ms longer than they must.
 */
import { type NoiseMessage, type NoiseOptions, PROCESSOR_NAME } from "./noise-messages.ts";

declare const AudioWorkletProcessor: new () => { readonly port: MessagePort };
declare const registerProcessor: (name: string, processor: typeof NoiseSuppressor) => void;
declare const sampleRate: number;
declare const currentFrame: number;

type Rnnoise = {
  memory: WebAssembly.Memory;
  emscripten_stack_init(): void;
  __wasm_call_ctors(): void;
  malloc(bytes: number): number;
  rnnoise_create(model: number): number;
  rnnoise_process_frame(state: number, output: number, input: number): number;
};

/** The number of samples that RNNoise processes at a time. */
const FRAME = 480;
/**
 * At most this many samples of a frame have arrived before the block of 128 that completes it, because both lengths are multiples
 * of 32.
 */
const WAITING = FRAME - 32;
/** RNNoise works with samples of 16 bits. */
const SCALE = 0x7fff;
const MEASURED_SECONDS = 5;

class NoiseSuppressor extends AudioWorkletProcessor {
  readonly #maxShare: number;
  readonly #processFrame: () => void;
  readonly #frame: Float32Array;
  #filled = 0;
  /** A ring of what is to be heard. */
  readonly #clean = new Float32Array(2 * FRAME);
  #written = WAITING;
  #heard = 0;
  #spentMs = 0;
  #measuredFrom = currentFrame;

  constructor({ processorOptions }: { processorOptions: NoiseOptions }) {
    super();
    const rnnoise = instantiate(processorOptions.wasmBinary);
    const state = rnnoise.rnnoise_create(0);
    const at = rnnoise.malloc(FRAME * Float32Array.BYTES_PER_ELEMENT);
    this.#maxShare = processorOptions.maxShare;
    this.#processFrame = () => void rnnoise.rnnoise_process_frame(state, at, at);
    this.#frame = new Float32Array(rnnoise.memory.buffer, at, FRAME);
  }

  process([input]: Float32Array[][], [output]: Float32Array[][]): boolean {
    // The clock of a worklet counts whole milliseconds, which are right on average over seconds.
    const began = Date.now();
    const [samples, heard] = [input?.[0], output?.[0]];
    if (samples && heard) this.#suppress(samples, heard);
    this.#spentMs += Date.now() - began;
    const seconds = (currentFrame - this.#measuredFrom) / sampleRate;
    if (seconds >= MEASURED_SECONDS) {
      if (this.#spentMs / 1_000 / seconds > this.#maxShare) this.port.postMessage("tooSlow" satisfies NoiseMessage);
      this.#spentMs = 0;
      this.#measuredFrom = currentFrame;
    }
    return true;
  }

  #suppress(samples: Float32Array, heard: Float32Array): void {
    for (const sample of samples) {
      this.#frame[this.#filled++] = sample * SCALE;
      if (this.#filled < FRAME) continue;
      this.#filled = 0;
      this.#processFrame();
      for (const clean of this.#frame) {
        this.#clean[this.#written] = clean / SCALE;
        this.#written = (this.#written + 1) % this.#clean.length;
      }
    }
    for (let at = 0; at < heard.length; at++) {
      heard[at] = this.#clean[this.#heard] ?? 0;
      this.#heard = (this.#heard + 1) % this.#clean.length;
    }
  }
}

function instantiate(binary: ArrayBuffer): Rnnoise {
  let bytes = new Uint8Array();
  const env = {
    emscripten_memcpy_big: (to: number, from: number, count: number) => void bytes.copyWithin(to, from, from + count),
    emscripten_resize_heap: () => 0,
    __assert_fail() {
      throw new Error("RNNoise failed");
    },
  };
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(binary), { env });
  const rnnoise = exports as unknown as Rnnoise;
  bytes = new Uint8Array(rnnoise.memory.buffer);
  rnnoise.emscripten_stack_init();
  rnnoise.__wasm_call_ctors();
  return rnnoise;
}

registerProcessor(PROCESSOR_NAME, NoiseSuppressor);
