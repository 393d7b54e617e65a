/** The settings of the JavaScript engine that src/main.ts sets for itself. Benches start other programs, and set them, too. */
export const AS_INSTALLED = { BUN_GC_TIMER_INTERVAL: "30000" };
