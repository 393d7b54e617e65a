import type { StoaError } from "./errors.ts";

/** As the server's connection records name them. */
export type ConnectionState = "CONNECTING" | "CONNECTED" | "RECONNECTING" | "DISCONNECTED" | "FAILED";

/** Told when the first connection has to wait, because too many were opened; a line in the console unless given. */
export type WaitingListener = (error: StoaError, seconds: number) => void;

export function warnOfWaiting({ message }: StoaError, seconds: number): void {
  console.warn(`Stoa: ${message} Trying again in ${seconds} s.`);
}

/** Asks your backend for a fresh token; called whenever the one in use has expired or is about to. */
export type TokenProvider = () => string | Promise<string>;
