import type { Fence } from "../kernel/db/fence.ts";
import type { Runtime } from "../kernel/runtime.ts";
import type { Keyring } from "../kernel/secrets.ts";
import type { Services } from "../services.ts";
import type { Overview } from "./show.ts";

/** Where a server of several stands. */
export type ClusterState = {
  role: "leader" | "standby";
  /** The address of the server that leads; null when none is known. */
  leader: string | null;
  /** The last position of the log that the local file holds. */
  position: number;
  /** How many records the log has beyond it. */
  lag: number;
};

/** What the server that leads knows of the others. */
export type Cluster = {
  state: () => ClusterState;
  /** Counts the servers that have led. */
  term: number;
  credential: string;
  fence: Fence;
  /** The log does not answer. What is known here stays true meanwhile, and is shown. */
  isLogAway: () => boolean;
  snapshot: () => Promise<Response>;
  /** Every member, for people to look at. */
  overview: () => Promise<Overview>;
  /** Does what a command asks for, which has to happen where writing does. */
  operate: (services: Services, runtime: Runtime, request: unknown) => Promise<unknown>;
};

/** What servers of one log show each other; whoever has STOA_SECRET can make it. */
export function clusterCredential(keyring: Keyring): string {
  return keyring.digest("cluster", "members of one commit log");
}

/** With one log the nodes have one secret, whichever server leads. */
export function nodeSecret(keyring: Keyring): string {
  return keyring.digest("media-nodes", "media nodes of one commit log");
}

/** A start that must not go on; the message tells the operator what to do. */
export class ClusterRefused extends Error {
  override readonly name = "ClusterRefused";
}
