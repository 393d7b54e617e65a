import type { NetworkProfile } from "./playground.ts";

/** What the playground's switch calls them. */
export const NETWORK_PROFILES: Record<NetworkProfile, string> = {
  none: "Fine",
  loss: "8 % of packets lost",
  lag: "150 ms late",
  narrow: "300 kbit/s",
  offline: "Cut",
};
