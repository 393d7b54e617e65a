/**
 * Proof that a client can be reached where its checks come from: it answers one of ours. The request alone proves only who
 * sent it, for its source address can be made up, and media that followed it would hit a bystander.
 */
import { randomBytes } from "node:crypto";

import { hasIntegrity, type IceCredentials, type StunMessage, writeBindingRequest } from "../../wire/stun/stun.ts";

/** Twice as long after each, as a lost check or its answer is asked for again; the client's next check starts anew. */
const FIRST_WAIT_MS = 100;
const MAX_TRIES = 5;
/** Any number will do for a peer that only answers. */
const PRIORITY = 1;

/** The two halves of a user name are what both sides called themselves when the client last offered. */
export type ProofCredentials = { ours: string; theirs: IceCredentials };

export class PathProof {
  isGiven: boolean;
  #asked: { transactionId: Uint8Array; credentials: ProofCredentials; tries: number; dueAtMs: number } | null = null;

  constructor(isGiven: boolean) {
    this.isGiven = isGiven;
  }

  /**
   * Asks, unless the same question is still open. While the answer to an ICE restart is on its way to it, a client checks from a
   * new address under our old name; from then on it refuses whoever asks by that.
   */
  ask(credentials: ProofCredentials, nowMs: number): void {
    if (this.isGiven) return;
    const before = this.#asked;
    const isOpen = before && (before.tries < MAX_TRIES || nowMs < before.dueAtMs);
    if (isOpen && userName(before.credentials) === userName(credentials)) return;
    this.#asked = { transactionId: randomBytes(12), credentials, tries: 0, dueAtMs: nowMs };
  }

  /** Writes the check that is due to `out`; 0: none is. */
  write(out: Uint8Array, nowMs: number): number {
    const asked = this.#asked;
    if (!asked || asked.tries >= MAX_TRIES || nowMs < asked.dueAtMs) return 0;
    asked.dueAtMs = nowMs + FIRST_WAIT_MS * 2 ** asked.tries++;
    return writeBindingRequest(out, {
      transactionId: asked.transactionId,
      username: userName(asked.credentials),
      password: asked.credentials.theirs.pwd,
      priority: PRIORITY,
      useCandidate: false,
      iceControlled: 0n,
    });
  }

  /** True when `answer` is what was asked for. */
  take(answer: StunMessage): boolean {
    const asked = this.#asked;
    if (!asked || Buffer.compare(asked.transactionId, answer.transactionId) !== 0) return false;
    if (!hasIntegrity(answer, asked.credentials.theirs.pwd)) return false;
    this.isGiven = true;
    this.#asked = null;
    return true;
  }
}

function userName({ ours, theirs }: ProofCredentials): string {
  return `${theirs.ufrag}:${ours}`;
}
