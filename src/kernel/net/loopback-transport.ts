/**
 * The connection from the TLS thread to the HTTP server of the same process: a Unix socket, which costs both sides less than half
 * of a TCP connection over loopback. A Unix socket has no client address, so each request carries the client's IP address in a
 * header, with a proof that the TLS thread wrote it. A proof is valid for one IP address only, so a client that learned its own
 * could only claim to be itself.
 */
import { createHmac, randomBytes } from "node:crypto";
import { sameSecret } from "../crypto/secrets.ts";

export type LoopbackTransport = {
  /** The name of an abstract socket, which leaves no file behind and is different for every server. */
  readonly name: string;
  readonly secret: string;
};

const HEADER = "x-stoa-carried-for";
/** How many verified header values are cached. */
const MAX_CACHED = 10_000;

/** Null if the system has no abstract sockets: TCP connections over loopback are used instead. */
export function createLoopbackTransport(): LoopbackTransport | null {
  if (process.platform !== "linux") return null;
  const secret = randomBytes(32).toString("base64url");
  return { name: `\0stoa-${randomBytes(16).toString("hex")}`, secret };
}

/** The header that the TLS thread adds to a request, or an older process that hands over its requests. */
export function forwardedForHeader({ secret }: LoopbackTransport, address: string): [name: string, value: string] {
  return [HEADER, headerValue(secret, address)];
}

export const forwardedForLine = (transport: LoopbackTransport, address: string): string =>
  `${forwardedForHeader(transport, address).join(": ")}\r\n`;

/**
 * Returns a function that returns the client's IP address of a request; null without a valid header. A repeated header
 * is invalid.
 */
export function createForwardedClient({ secret }: LoopbackTransport): (request: Request) => string | null {
  const verified = new Map<string, string>();
  return ({ headers }) => {
    const value = headers.get(HEADER);
    if (value === null) return null;
    const client = verified.get(value);
    if (client !== undefined) return client;
    const [address = ""] = value.split(" ", 1);
    if (!sameSecret(value, headerValue(secret, address))) return null;
    if (verified.size >= MAX_CACHED) verified.clear();
    verified.set(value, address);
    return address;
  };
}

function headerValue(secret: string, address: string): string {
  return `${address} ${createHmac("sha256", secret).update(address).digest("base64url")}`;
}
