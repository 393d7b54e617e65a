/**
 * Measures the time that an audio processor takes. Its library registers it on being loaded, after this module; it is
 * registered here, under a name of our own.
 */
import { type NoiseMessage, type NoiseOptions, PROCESSOR_NAME } from "./noise-messages.ts";

type Processor = {
  readonly port: MessagePort;
  process(inputs: Float32Array[][], outputs: Float32Array[][], parameters: Record<string, Float32Array>): boolean;
};
type ProcessorClass = new (options: { processorOptions: NoiseOptions }) => Processor;
type WorkletScope = {
  registerProcessor(name: string, processor: ProcessorClass): void;
  sampleRate: number;
  currentFrame: number;
};

const scope = globalThis as unknown as WorkletScope;
const MEASURED_SECONDS = 5;
const register = scope.registerProcessor.bind(scope);

scope.registerProcessor = (_name, Suppressor) => {
  class MeasuredSuppressor extends Suppressor {
    readonly #maxShare: number;
    #spentMs = 0;
    #measuredFrom = scope.currentFrame;

    constructor(options: { processorOptions: NoiseOptions }) {
      super(options);
      this.#maxShare = options.processorOptions.maxShare;
    }

    override process(...block: Parameters<Processor["process"]>): boolean {
      // The clock of a worklet counts whole milliseconds, which are right on average over seconds.
      const began = Date.now();
      const goesOn = super.process(...block);
      this.#spentMs += Date.now() - began;
      const seconds = (scope.currentFrame - this.#measuredFrom) / scope.sampleRate;
      if (seconds >= MEASURED_SECONDS) {
        if (this.#spentMs / 1_000 / seconds > this.#maxShare) this.port.postMessage("tooSlow" satisfies NoiseMessage);
        this.#spentMs = 0;
        this.#measuredFrom = scope.currentFrame;
      }
      return goesOn;
    }
  }
  register(PROCESSOR_NAME, MeasuredSuppressor);
};
