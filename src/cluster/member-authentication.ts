import { randomBytes } from "node:crypto";
import { type Keyring, sameSecret } from "../kernel/crypto/secrets.ts";

export const CHALLENGE_PATH = "/v1/cluster/challenge";
const SCHEME = "Stoa-Member";
const CHALLENGE_TIMEOUT_MS = 1_000;
/** A server's nonce has to be answered within this time. */
const NONCE_VALID_MS = 30_000;

const OWN_NONCE = /^[0-9a-f]{32}$/;
const SERVER_NONCE = /^([0-9a-f]{12})([0-9a-f]{32})([0-9a-f]{64})$/;
const AUTHORIZATION = new RegExp(`^${SCHEME} ([0-9a-f]{32})\\.([0-9a-f]{108})\\.([0-9a-f]{64})$`);

/** The headers that a client sends to a member that has authenticated itself. */
export type Authorization = {
  headers: { authorization: string };
  /** Authenticates further requests of the same connection; both sides derive it. */
  linkToken: string;
};

/** The URL does not belong to a member with this STOA_SECRET. */
export class MemberRefused extends Error {
  override readonly name = "MemberRefused";
  constructor(url: string) {
    super(`${url} does not prove that it is a server of this cluster`);
  }
}

/**
 * The members of one log authenticate each other with a key that is derived from STOA_SECRET and never sent. Every
 * proof covers the URL of the requested server, so that a server at another URL can neither create nor forward it.
 */
export class MemberAuthentication {
  readonly #keyring: Keyring;
  readonly #url: () => string;
  readonly #nonceKey = randomBytes(32);
  /** Nonces that were answered correctly, with their expiry; only members add to them. */
  readonly #used = new Map<string, number>();
  readonly #links = new Set<string>();

  /** `url` is the URL under which the other members know this server; servers without listeners have none. */
  constructor(keyring: Keyring, url: () => string = () => "") {
    this.#keyring = keyring;
    this.#url = url;
  }

  /** Lets a server authenticate itself; throws MemberRefused when it cannot. */
  async authorize(member: string, method: string, path: string): Promise<Authorization> {
    const own = randomBytes(16).toString("hex");
    const response = await fetch(`${member}${CHALLENGE_PATH}?nonce=${own}`, {
      signal: AbortSignal.timeout(CHALLENGE_TIMEOUT_MS),
      redirect: "manual",
      keepalive: false,
    });
    const answer = response.ok ? await response.json().catch(() => null) : null;
    const { nonce, proof } = (answer ?? {}) as { nonce?: unknown; proof?: unknown };
    if (typeof nonce !== "string" || !sameSecret(String(proof), this.#mac("server", member, own, nonce))) {
      throw new MemberRefused(member);
    }
    const mac = this.#mac("client", member, method, path, own, nonce);
    return {
      headers: { authorization: `${SCHEME} ${own}.${nonce}.${mac}` },
      linkToken: this.#mac("link", member, own, nonce),
    };
  }

  async fetch(member: string, path: string, init: RequestInit & { signal: AbortSignal }): Promise<Response> {
    const { headers } = await this.authorize(member, init.method ?? "GET", path);
    return fetch(`${member}${path}`, {
      ...init,
      headers: { ...(init.headers as Record<string, string> | undefined), ...headers },
      redirect: "manual",
      keepalive: false,
    });
  }

  /** Returns this server's proof and its own nonce to any caller; null for a malformed nonce. */
  respond(request: Request): Response | null {
    const theirs = new URL(request.url).searchParams.get("nonce") ?? "";
    if (!OWN_NONCE.test(theirs)) return null;
    const nonce = this.#nonce(Date.now().toString(16).padStart(12, "0"), randomBytes(16).toString("hex"));
    return Response.json({ nonce, proof: this.#mac("server", this.#url(), theirs, nonce) });
  }

  /** The link token of a member's request; null for any other request. Each nonce is valid once. */
  verify(request: Request): string | null {
    const [, theirs = "", nonce = "", mac = ""] = AUTHORIZATION.exec(request.headers.get("authorization") ?? "") ?? [];
    const [, time = "", random = ""] = SERVER_NONCE.exec(nonce) ?? [];
    if (time === "" || !sameSecret(nonce, this.#nonce(time, random))) return null;
    const now = Date.now();
    const until = Number.parseInt(time, 16) + NONCE_VALID_MS;
    for (const [used, usedUntil] of this.#used) if (usedUntil < now) this.#used.delete(used);
    if (until < now || this.#used.has(nonce)) return null;
    const url = this.#url();
    const { pathname } = new URL(request.url);
    if (!sameSecret(mac, this.#mac("client", url, request.method, pathname, theirs, nonce))) return null;
    this.#used.set(nonce, until);
    return this.#mac("link", url, theirs, nonce);
  }

  openLink(token: string): void {
    this.#links.add(token);
  }

  closeLink(token: string): void {
    this.#links.delete(token);
  }

  /** Whether a request was forwarded by an edge that is connected now. */
  isLinked(token: string): boolean {
    return this.#links.has(token);
  }

  #nonce(time: string, random: string): string {
    const mac = new Bun.CryptoHasher("sha256", this.#nonceKey).update(`${time}${random}`).digest("hex");
    return `${time}${random}${mac}`;
  }

  #mac(...parts: string[]): string {
    return this.#keyring.digest("cluster", parts.join("\n"));
  }
}
