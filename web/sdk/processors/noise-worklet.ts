/** The audio worklet of the noise suppression: RNNoise, whose time is measured by the module before it. */
import "./noise-budget.ts";
import "@sapphi-red/web-noise-suppressor/rnnoiseWorklet.js";
