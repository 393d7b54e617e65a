/**
 * The short way from the edge to the HTTP server of the same process: a socket of the machine without addresses, which
 * takes neither side half of what a connection of loopback does. Since no address is to be had there, each request says
 * for whom it is, and shows that the edge said so. What that shows is good for that one address and no other: whoever got
 * hold of it could only claim to be who they are.
 */
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";

export type LoopbackTransport = {
  /** Of an abstract socket: no file stays behind, and no two servers have the same. */
  readonly name: string;
  readonly secret: string;
};

const HEADER = "x-stoa-carried-for";
/** So many clients are known without looking twice. */
const MOST_KNOWN = 10_000;

/** Null where the system has no such sockets: connections of loopback do as well. */
export function createLoopbackTransport(): LoopbackTransport | null {
  if (process.platform !== "linux") return null;
  const secret = randomBytes(32).toString("base64url");
  return { name: `\0stoa-${randomBytes(16).toString("hex")}`, secret };
}

/** What stands among the headers of a request that the edge carries. */
export function forwardedForLine({ secret }: LoopbackTransport, address: string): string {
  return `${HEADER}: ${saying(secret, address)}\r\n`;
}

/** Tells for whom a request is; null when nobody says so who may. Given twice, it is nobody's. */
export function createForwardedClient({ secret }: LoopbackTransport): (request: Request) => string | null {
  const known = new Map<string, string>();
  return ({ headers }) => {
    const said = headers.get(HEADER);
    if (said === null) return null;
    const client = known.get(said);
    if (client !== undefined) return client;
    const [address = ""] = said.split(" ", 1);
    const given = Buffer.from(said);
    const right = Buffer.from(saying(secret, address));
    if (given.length !== right.length || !timingSafeEqual(given, right)) return null;
    if (known.size >= MOST_KNOWN) known.clear();
    known.set(said, address);
    return address;
  };
}

function saying(secret: string, address: string): string {
  return `${address} ${createHmac("sha256", secret).update(address).digest("base64url")}`;
}
