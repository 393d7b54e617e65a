import { createElapsed } from "../kernel/time/elapsed.ts";
import type { MemberAuthentication } from "./member-authentication.ts";

export const ABSTAIN_PATH = "/v1/cluster/abstain";
export const ABSTAIN_MS = 2_000;
const RESPONSE_TIMEOUT_MS = 1_000;

/** A member's response to a leader that cannot reach the log. */
export type AbstainResponse = { role: "leader" | "standby"; abstains: boolean };

/** Whether every other member promised not to lead, and the URL of another leader if there is one. */
export type PeerAbstentions = { all: boolean; otherLeader: string | null };

/** With `peers` null the members are unknown, so no set of promises is complete. */
export async function askPeersToAbstain(
  peers: readonly string[] | null,
  authentication: MemberAuthentication,
): Promise<PeerAbstentions> {
  if (peers === null) return { all: false, otherLeader: null };
  const responses = await Promise.all(peers.map((peer) => askPeer(peer, authentication)));
  const otherLeader = peers.find((_, index) => responses[index]?.role === "leader") ?? null;
  return { all: responses.every((response) => response?.abstains === true), otherLeader };
}

async function askPeer(peer: string, authentication: MemberAuthentication): Promise<AbstainResponse | null> {
  try {
    const signal = AbortSignal.timeout(RESPONSE_TIMEOUT_MS);
    const response = await authentication.fetch(peer, ABSTAIN_PATH, { method: "POST", signal });
    return response.ok ? ((await response.json()) as AbstainResponse) : null;
  } catch {
    return null;
  }
}

/**
 * A standby's promise to a leader that cannot reach the log: not to become leader for a short time, so that the
 * leader's data stays current. A standby that reaches the log gives no promise, because it may become leader.
 */
export class Abstention {
  logIsUnreachable = false;
  readonly #elapsed = createElapsed();
  #attempting = false;
  #until = 0;

  promise(): boolean {
    if (this.#attempting || !this.logIsUnreachable) return false;
    this.#until = this.#elapsed() + ABSTAIN_MS;
    return true;
  }

  /** Null while a promise is in effect. During the attempt no promise is given. */
  async attemptToLead<Result>(attempt: () => Promise<Result>): Promise<Result | null> {
    if (this.#elapsed() < this.#until) return null;
    this.#attempting = true;
    try {
      return await attempt();
    } finally {
      this.#attempting = false;
    }
  }
}
