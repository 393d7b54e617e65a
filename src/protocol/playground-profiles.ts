import type { NetworkProfile } from "./playground.ts";

/** What the playground's switch calls them. */
export const NETWORK_PROFILES: Record<NetworkProfile, string> = {
  none: "Network: fine",
  loss: "Network: 8 % loss",
  lag: "Network: 150 ms late",
  narrow: "Network: 300 kbit/s",
  offline: "Network: cut",
};
