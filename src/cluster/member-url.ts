import { networkInterfaces } from "node:os";
import type { Config } from "../kernel/config/index.ts";

/** Where the other members reach this one. */
export function memberUrl({ CLUSTER_URL, HOST }: Config, port: number): string {
  if (CLUSTER_URL !== undefined) return CLUSTER_URL.replace(/\/$/, "");
  const isEverywhere = HOST === "0.0.0.0" || HOST === "::";
  const host = isEverywhere ? (firstAddress() ?? "127.0.0.1") : HOST;
  return `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
}

function firstAddress(): string | undefined {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return all.find(({ family, internal }) => family === "IPv4" && !internal)?.address;
}
