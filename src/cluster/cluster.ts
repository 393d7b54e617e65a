import { networkInterfaces } from "node:os";
import type { Config } from "../kernel/config/index.ts";
import type { Keyring } from "../kernel/crypto/secrets.ts";
import { hostInUrl } from "../kernel/net/addresses.ts";
import type { Runtime } from "../kernel/runtime.ts";
import type { Fence } from "../kernel/socket/sockets.ts";
import type { Services } from "../services.ts";
import type { MemberAuthentication } from "./member-authentication.ts";
import type { Overview } from "./overview.ts";
import type { Refusals } from "./refusals.ts";

export type ClusterState = {
  role: "leader" | "standby";
  leader: string | null;
  position: number;
  lag: number;
};

/** The cluster as the leader's routes and services see it. */
export type Cluster = {
  state: () => ClusterState;
  /** Increases with every leader. */
  term: number;
  authentication: MemberAuthentication;
  refused: Refusals;
  fence: Fence;
  /** The leader continues to respond while its fence is fresh. */
  isLogUnreachable: () => boolean;
  snapshot: () => Promise<Response>;
  overview: () => Promise<Overview>;
  /** Carries out an operator's command, which has to run where the database is written. */
  operate: (services: Services, runtime: Runtime, request: unknown) => Promise<unknown>;
};

/** Media nodes authenticate with the same secret at every server of one log, because any of them can become leader. */
export function nodeSecret(keyring: Keyring): string {
  const hash = new Bun.CryptoHasher("sha256", keyring.keyAt("media-nodes", 0));
  return hash.update("media nodes of one commit log").digest("hex");
}

/** The server must not start; the message tells the operator what to do. */
export class ClusterRefused extends Error {
  override readonly name = "ClusterRefused";
}

export function memberUrl({ CLUSTER_URL, HOST }: Config, port: number): string {
  if (CLUSTER_URL !== undefined) return CLUSTER_URL.replace(/\/$/, "");
  const isWildcard = HOST === "0.0.0.0" || HOST === "::";
  const host = isWildcard ? (firstExternalAddress() ?? "127.0.0.1") : HOST;
  return `http://${hostInUrl(host)}:${port}`;
}

function firstExternalAddress(): string | undefined {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return all.find(({ family, internal }) => family === "IPv4" && !internal)?.address;
}
