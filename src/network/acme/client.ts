/** The signed requests to a certificate authority (RFC 8555): nonces, accounts and errors. */

import { createHmac, createPrivateKey, type KeyObject } from "node:crypto";
import { calculateJwkThumbprint, FlattenedSign, type JWK } from "jose";
import { messageOf } from "../../kernel/error-message.ts";
import { retryAfterMs } from "../../kernel/http/retry-after.ts";
import { DAY_MS } from "../../kernel/time/clock.ts";

type Directory = {
  newNonce: string;
  newAccount: string;
  newOrder: string;
  renewalInfo?: string;
  meta?: { externalAccountRequired?: boolean };
};

/** `url` is the account's URL at the certificate authority, null until it is registered. */
export type Account = { directory: string; key: JWK; url: string | null };

export type ExternalAccount = { keyId: string; hmac: string };

type AcmeResponse<Body> = { body: Body; location: string; retryAfterMs: number | null };

/** The message is the certificate authority's own. */
export class AcmeError extends Error {
  override readonly name = "AcmeError";
  constructor(
    readonly type: string,
    detail: string,
    readonly retryAfterMs: number | null = null,
  ) {
    super(detail);
  }
}

const REQUEST_TIMEOUT_MS = 30_000;
const MAX_NONCES = 10;
/** The longest limit of a public authority. A larger value would let the certificate expire and is ignored. */
const MAX_RETRY_AFTER_MS = 7 * DAY_MS;

type Options = { directoryUrl: string; account: Account; ca: string | undefined; userAgent: string };

export type Problem = { type?: string; detail?: string; subproblems?: { detail?: string }[] };

export class AcmeClient {
  readonly #key: KeyObject;
  #directory: Directory | null = null;
  #nonce: string | null = null;

  constructor(private readonly options: Options) {
    this.#key = createPrivateKey({ key: options.account.key as never, format: "jwk" });
  }

  async directory(): Promise<Directory> {
    this.#directory ??= await this.#readDirectory();
    return this.#directory;
  }

  async #readDirectory(): Promise<Directory> {
    const { directoryUrl } = this.options;
    const { body } = await this.get(directoryUrl).catch((error) => {
      throw error instanceof AcmeError ? error : notADirectory(directoryUrl);
    });
    const found = body as Partial<Record<string, unknown>> | null;
    if (!["newNonce", "newAccount", "newOrder"].every((name) => URL.canParse(String(found?.[name])))) {
      throw notADirectory(directoryUrl);
    }
    return body as Directory;
  }

  /** An unsigned request, as for the directory and renewal times. */
  async get(url: string): Promise<AcmeResponse<unknown>> {
    const response = await this.#fetch(url, { headers: { accept: "application/json" } });
    if (!response.ok) throw await refusal(response);
    return { body: await response.json(), location: "", retryAfterMs: retryAfter(response) };
  }

  async register(email: string | undefined, external: ExternalAccount | undefined): Promise<Account> {
    const { newAccount, meta } = await this.directory();
    if (meta?.externalAccountRequired === true && !external) {
      throw new AcmeError("externalAccountRequired", "The authority requires ACME_EAB_KEY_ID and ACME_EAB_HMAC.");
    }
    const contact = email === undefined ? {} : { contact: [`mailto:${email}`] };
    const binding = external ? { externalAccountBinding: await this.#bind(external, newAccount) } : {};
    const { location } = await this.post(newAccount, { termsOfServiceAgreed: true, ...contact, ...binding });
    this.options.account.url = location;
    return this.options.account;
  }

  /** Without a payload the request is a POST-as-GET. */
  async post<Body>(url: string, payload?: object): Promise<AcmeResponse<Body>> {
    const response = await this.#signed(url, payload, "application/json");
    return {
      body: (await response.json().catch(() => ({}))) as Body,
      location: response.headers.get("location") ?? "",
      retryAfterMs: retryAfter(response),
    };
  }

  async download(url: string): Promise<string> {
    return (await this.#signed(url, undefined, "application/pem-certificate-chain")).text();
  }

  /** The key authorization, which proves at the domain that this account requested the certificate. */
  async keyAuthorization(token: string): Promise<string> {
    return `${token}.${await calculateJwkThumbprint(publicPart(this.options.account.key))}`;
  }

  async #signed(url: string, payload: object | undefined, accept: string): Promise<Response> {
    for (let attempt = 1; ; attempt++) {
      const response = await this.#fetch(url, {
        method: "POST",
        headers: { "content-type": "application/jose+json", accept },
        body: JSON.stringify(await this.#sign(url, payload)),
      });
      this.#nonce = response.headers.get("replay-nonce");
      if (response.ok) return response;
      const error = await refusal(response);
      // The error response contains a fresh nonce.
      if (error.type !== "badNonce" || attempt >= MAX_NONCES) throw error;
    }
  }

  async #sign(url: string, payload: object | undefined): Promise<object> {
    const { account } = this.options;
    const identity = account.url === null ? { jwk: publicPart(account.key) } : { kid: account.url };
    const nonce = this.#nonce ?? (await this.#newNonce());
    this.#nonce = null;
    const bytes = new TextEncoder().encode(payload === undefined ? "" : JSON.stringify(payload));
    return new FlattenedSign(bytes).setProtectedHeader({ alg: "ES256", nonce, url, ...identity }).sign(this.#key);
  }

  async #bind({ keyId, hmac }: ExternalAccount, url: string): Promise<object> {
    const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
    const header = encode({ alg: "HS256", kid: keyId, url });
    const payload = encode(publicPart(this.options.account.key));
    const mac = createHmac("sha256", Buffer.from(hmac, "base64url")).update(`${header}.${payload}`).digest("base64url");
    return { protected: header, payload, signature: mac };
  }

  async #newNonce(): Promise<string> {
    const response = await this.#fetch((await this.directory()).newNonce, { method: "HEAD" });
    const nonce = response.headers.get("replay-nonce");
    if (nonce === null) throw new AcmeError("serverInternal", "The authority gives no nonce.");
    return nonce;
  }

  async #fetch(url: string, init: RequestInit): Promise<Response> {
    const { ca, userAgent } = this.options;
    const headers = { ...(init.headers as Record<string, string> | undefined), "user-agent": userAgent };
    const tls = ca === undefined ? {} : { tls: { ca } };
    const signal = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
    try {
      return await fetch(url, { ...init, ...tls, headers, signal } as RequestInit);
    } catch (error) {
      const reason = messageOf(error);
      throw new AcmeError("unreachable", `The authority cannot be reached at ${new URL(url).host}: ${reason}`);
    }
  }
}

function notADirectory(url: string): AcmeError {
  return new AcmeError("notADirectory", `${url} is no directory of an ACME authority. Correct ACME_DIRECTORY.`);
}

function publicPart({ kty, crv, x, y }: JWK): JWK {
  return { kty, crv, x, y } as JWK;
}

const retryAfter = (response: Response): number | null => retryAfterMs(response, Date.now(), MAX_RETRY_AFTER_MS);

async function refusal(response: Response): Promise<AcmeError> {
  const problem = (await response.json().catch(() => ({}))) as Problem;
  return acmeError(problem, retryAfter(response), `The authority answers ${response.status}.`);
}

export function acmeError(
  problem: Problem,
  retryAfterMs: number | null = null,
  otherwise = "It gives no reason.",
): AcmeError {
  const type = problem.type?.split(":").at(-1) ?? "unknown";
  const details = [problem.detail, ...(problem.subproblems ?? []).map(({ detail }) => detail)];
  const text = details.filter((detail) => detail !== undefined && detail !== "").join(" ");
  return new AcmeError(type, text === "" ? otherwise : text, retryAfterMs);
}
