/** Processors for local tracks. What they need is loaded from the server of the room when they start. */
export type { ProcessorContext, TrackProcessor } from "../room/track-processor.ts";
export { type BackgroundOptions, backgroundBlur, backgroundImage } from "./background.ts";
export { type NoiseSuppressionOptions, noiseSuppression } from "./noise-suppression.ts";
