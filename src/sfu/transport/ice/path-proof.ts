/**
 * Proof that a client is at the address from which its checks come: it responds to a check of the server. The source address of a
 * request can be forged, and media sent there would hit a bystander.
 */
import { randomBytes } from "node:crypto";

import { hasIntegrity, type IceCredentials, type StunMessage, writeBindingRequest } from "../../wire/stun/stun.ts";

/** The wait doubles after each unanswered check. The next check of the client starts over. */
const FIRST_WAIT_MS = 100;
const MAX_TRIES = 5;
/** A peer that only responds ignores the priority. */
const PRIORITY = 1;

/** The username consists of the fragments of both sides at the last offer of the client. */
type ProofCredentials = { localUfrag: string; remote: IceCredentials };

export class PathProof {
  isGiven: boolean;
  #pending: { transactionId: Uint8Array; credentials: ProofCredentials; tries: number; dueAtMs: number } | null = null;

  constructor(isGiven: boolean) {
    this.isGiven = isGiven;
  }

  /**
   * Prepares a check unless the same one is pending. A client that has not received the answer to an ICE restart still uses the
   * previous username, and refuses that one afterwards.
   */
  request(credentials: ProofCredentials, nowMs: number): void {
    if (this.isGiven) return;
    const before = this.#pending;
    const isOpen = before && (before.tries < MAX_TRIES || nowMs < before.dueAtMs);
    if (isOpen && userName(before.credentials) === userName(credentials)) return;
    this.#pending = { transactionId: randomBytes(12), credentials, tries: 0, dueAtMs: nowMs };
  }

  /** Writes the check that is due to `out`. Returns its length, or 0 when none is due. */
  write(out: Uint8Array, nowMs: number): number {
    const pending = this.#pending;
    if (!pending || pending.tries >= MAX_TRIES || nowMs < pending.dueAtMs) return 0;
    pending.dueAtMs = nowMs + FIRST_WAIT_MS * 2 ** pending.tries++;
    return writeBindingRequest(out, {
      transactionId: pending.transactionId,
      username: userName(pending.credentials),
      password: pending.credentials.remote.pwd,
      priority: PRIORITY,
      useCandidate: false,
      iceControlled: 0n,
    });
  }

  /** Returns whether this is the response to the pending check. */
  accept(response: StunMessage): boolean {
    const pending = this.#pending;
    if (!pending || Buffer.compare(pending.transactionId, response.transactionId) !== 0) return false;
    if (!hasIntegrity(response, pending.credentials.remote.pwd)) return false;
    this.isGiven = true;
    this.#pending = null;
    return true;
  }
}

function userName({ localUfrag, remote }: ProofCredentials): string {
  return `${remote.ufrag}:${localUfrag}`;
}
