/** What the page and the noise suppression's worklet agree on. */
export const PROCESSOR_NAME = "stoa-noise-suppression";

export type NoiseOptions = { wasmBinary: ArrayBuffer; maxShare: number };

/** The worklet has used more than its share of a core for a while. */
export type NoiseMessage = "tooSlow";
