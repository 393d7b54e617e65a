import type { Now } from "../../kernel/clock.ts";
import { isNonceFresh, makeNonce, passwordOf, readUsername } from "./credentials.ts";
import { EndedIds } from "./ended-ids.ts";
import type { TurnLine } from "./line.ts";
import { ATTRIBUTE, type Attribute, hasIntegrity, longTermKey, type TurnMessage, textOf } from "./message.ts";
import { Refusal } from "./refusal.ts";

export type Caller = { id: string; username: string; key: Buffer };

type GateOptions = { secret: string; realm: string; now: Now };

/** Who is asking: long-term credentials (RFC 8489 §9.2), of which the server keeps none. */
export class TurnGate {
  readonly #options: GateOptions;
  readonly #ended = new EndedIds();

  constructor(options: GateOptions) {
    this.#options = options;
  }

  /** A session that has its relay keeps it past the end of its credentials: a call may last longer than they do. */
  identify(message: TurnMessage, line: TurnLine, holder: Caller | undefined): Caller | Refusal {
    if (message.integrityAt < 0) return new Refusal(401);
    const username = textOf(message, ATTRIBUTE.username);
    const nonce = textOf(message, ATTRIBUTE.nonce);
    if (username === undefined || nonce === undefined || !message.attributes.has(ATTRIBUTE.realm)) {
      return new Refusal(400);
    }
    const { secret, now } = this.#options;
    if (!isNonceFresh(nonce, secret, line, now())) return new Refusal(438);
    const caller = holder?.username === username ? holder : this.#callerOf(username);
    if (!caller || this.#ended.has(caller.id) || !hasIntegrity(message, caller.key)) return new Refusal(401);
    return caller;
  }

  #callerOf(username: string): Caller | undefined {
    const { secret, realm, now } = this.#options;
    const named = readUsername(username);
    if (!named || named.expiresAtMs <= now()) return undefined;
    return { id: named.id, username, key: longTermKey(username, realm, passwordOf(secret, username)) };
  }

  challenge(line: TurnLine): Attribute[] {
    const { secret, realm, now } = this.#options;
    return [
      [ATTRIBUTE.realm, Buffer.from(realm)],
      [ATTRIBUTE.nonce, Buffer.from(makeNonce(secret, line, now()))],
    ];
  }

  end(id: string, untilMs: number): void {
    this.#ended.add(id, untilMs);
  }

  prune(nowMs: number): void {
    this.#ended.prune(nowMs);
  }
}
