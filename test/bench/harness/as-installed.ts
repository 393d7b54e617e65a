/** How a server is started by `bin/stoa`, by the unit that `install.sh` writes and in a container: benches start theirs alike. */

/** Bun asks for them once, when the process begins: what is set later changes nothing. */
export const AS_INSTALLED = {
  BUN_GC_TIMER_INTERVAL: "30000",
  BUN_JSC_forceCodeBlockLiveness: "1",
  BUN_JSC_useFTLJIT: "0",
};
