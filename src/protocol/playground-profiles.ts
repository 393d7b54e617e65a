import type { NetworkProfile } from "./playground.ts";

/** The labels of the playground's network switch. */
export const NETWORK_PROFILES: Record<NetworkProfile, string> = {
  none: "Fine",
  loss: "8 % of packets lost",
  lag: "150 ms late",
  narrow: "300 kbit/s",
  offline: "Cut",
};
