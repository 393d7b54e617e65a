/** What the page and the worklet of the noise suppression agree on. */
export const PROCESSOR_NAME = "stoa-noise-suppression";

export type NoiseOptions = { wasmBinary: ArrayBuffer; maxShare: number };

/** The worklet has used more than its share of a core for a while. */
export type NoiseMessage = "tooSlow";
