import type { StoaError } from "./errors.ts";

export type { ConnectionState } from "../../src/protocol/observability.ts";

/**
 * Called when the first connection has to wait because too many were opened. By default the SDK logs a warning to the
 * console.
 */
export type WaitingListener = (error: StoaError, seconds: number) => void;

export function warnAboutWaiting({ message }: StoaError, seconds: number): void {
  console.warn(`Stoa: ${message} Retrying in ${seconds} s.`);
}

/** Requests a new token from your backend; called when the current one has expired or is about to. */
export type TokenProvider = () => string | Promise<string>;
