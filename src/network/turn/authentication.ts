import type { Now } from "../../kernel/time/clock.ts";
import { isNonceFresh, makeNonce, passwordOf, readUsername } from "./credentials.ts";
import { ATTRIBUTE, type Attribute, hasIntegrity, longTermKey, type TurnMessage, textOf } from "./message.ts";
import { Refusal } from "./refusal.ts";
import type { ClientTransport } from "./transports.ts";

export type TurnUser = { id: string; username: string; key: Buffer };

/** Verifies long-term credentials (RFC 8489 §9.2), which the server does not store. */
export class TurnAuthenticator {
  readonly #revoked = new RevokedIds();

  constructor(private readonly options: { secret: string; realm: string; now: Now }) {}

  /** A session keeps its allocation when its credentials expire, because a call may last longer. */
  authenticate(message: TurnMessage, client: ClientTransport, holder: TurnUser | undefined): TurnUser | Refusal {
    if (message.integrityAt < 0) return new Refusal(401);
    const username = textOf(message, ATTRIBUTE.username);
    const nonce = textOf(message, ATTRIBUTE.nonce);
    if (username === undefined || nonce === undefined || !message.attributes.has(ATTRIBUTE.realm)) {
      return new Refusal(400);
    }
    const { secret, now } = this.options;
    if (!isNonceFresh(nonce, secret, client, now())) return new Refusal(438);
    const user = holder?.username === username ? holder : this.#userNamed(username);
    if (!user || this.#revoked.has(user.id) || !hasIntegrity(message, user.key)) return new Refusal(401);
    return user;
  }

  #userNamed(username: string): TurnUser | undefined {
    const { secret, realm, now } = this.options;
    const named = readUsername(username);
    if (!named || named.expiresAtMs <= now()) return undefined;
    return { id: named.id, username, key: longTermKey(username, realm, passwordOf(secret, username)) };
  }

  challenge(client: ClientTransport): Attribute[] {
    const { secret, realm, now } = this.options;
    return [
      [ATTRIBUTE.realm, Buffer.from(realm)],
      [ATTRIBUTE.nonce, Buffer.from(makeNonce(secret, client, now()))],
    ];
  }

  revoke(id: string, untilMs: number): void {
    this.#revoked.add(id, untilMs);
  }

  prune(nowMs: number): void {
    this.#revoked.prune(nowMs);
  }
}

/**
 * Ids whose credentials are rejected until they would have expired. Every participant that leaves stays in this list
 * for hours, so pruning only checks the oldest entries.
 */
export class RevokedIds {
  readonly #untilMs = new Map<string, number>();

  has(id: string): boolean {
    return this.#untilMs.has(id);
  }

  add(id: string, untilMs: number): void {
    this.#untilMs.delete(id);
    this.#untilMs.set(id, untilMs);
  }

  prune(nowMs: number): void {
    for (const [id, untilMs] of this.#untilMs) {
      if (untilMs > nowMs) return;
      this.#untilMs.delete(id);
    }
  }

  [Symbol.iterator](): IterableIterator<[string, number]> {
    return this.#untilMs.entries();
  }
}
