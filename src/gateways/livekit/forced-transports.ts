/** How clients have asked to be connected next, to try what they do in networks without UDP: `simulateScenario("force-tcp")`. */
import { CandidateProtocol, ICEServer, type SignalResponse } from "@livekit/protocol";
import type { Now } from "../../kernel/time/clock.ts";

export type ForcedTransport = "tcp" | "tls";
type Message = SignalResponse["message"];

const TRANSPORTS: Partial<Record<CandidateProtocol, ForcedTransport>> = {
  [CandidateProtocol.TCP]: "tcp",
  [CandidateProtocol.TLS]: "tls",
};
/** A client joins again right after it has asked. */
const JOINS_WITHIN_MS = 60_000;
const MAX_ASKED = 1_000;

export class ForcedTransports {
  readonly #asked = new Map<string, { transport: ForcedTransport; untilMs: number }>();
  readonly #now: Now;

  constructor(now: Now) {
    this.#now = now;
  }

  ask(roomId: string, identity: string, protocol: CandidateProtocol): void {
    const key = keyOf(roomId, identity);
    this.#asked.delete(key);
    const transport = TRANSPORTS[protocol];
    if (!transport) return;
    const [oldest] = this.#asked.keys();
    if (oldest !== undefined && this.#asked.size >= MAX_ASKED) this.#asked.delete(oldest);
    this.#asked.set(key, { transport, untilMs: this.#now() + JOINS_WITHIN_MS });
  }

  /** Returns what the participant has asked for its next session, once. */
  take(roomId: string, identity: string): ForcedTransport | null {
    const key = keyOf(roomId, identity);
    const asked = this.#asked.get(key);
    this.#asked.delete(key);
    return asked && asked.untilMs > this.#now() ? asked.transport : null;
  }
}

const keyOf = (roomId: string, identity: string) => `${roomId} ${identity}`;

/** The TURN servers that are reached over TLS. */
export function overTls(servers: readonly ICEServer[]): ICEServer[] {
  return servers.flatMap((server) => {
    const urls = server.urls.filter((url) => url.startsWith("turns:"));
    return urls.length > 0 ? [new ICEServer({ ...server, urls })] : [];
  });
}

const UDP_CANDIDATE = /^a=candidate:\S+ \d+ udp .*\r\n/gim;
const TCP_CANDIDATE = /^a=candidate:\S+ \d+ tcp /im;

/** Leaves out the UDP addresses of the server in an offer or answer, if it has TCP addresses too. */
export function withoutUdp(message: Message): Message {
  if ((message.case !== "offer" && message.case !== "answer") || !TCP_CANDIDATE.test(message.value.sdp)) return message;
  const value = message.value.clone();
  value.sdp = value.sdp.replaceAll(UDP_CANDIDATE, "");
  return { case: message.case, value };
}
