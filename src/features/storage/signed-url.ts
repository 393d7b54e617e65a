import type { KeyPurpose, Keyring } from "../../kernel/crypto/secrets.ts";
import { UPLOAD_PATH } from "../../kernel/http/body.ts";
import type { Now } from "../../kernel/time/clock.ts";
import { ApiError } from "../../protocol/errors.ts";

/** The request that a signed URL permits: one method on one declared file, until the URL expires. */
type Grant = { method: "PUT" | "GET"; id: string; size: number; type: string; expiresAt: number };

export type UrlSigner = {
  sign(
    publicUrl: string,
    file: { id: string; size: number; mimeType: string },
    method: Grant["method"],
    ttlSeconds: number,
  ): string;
  /**
   * Returns the signed grant. Throws when a parameter is changed, missing, duplicated or unknown, or when the URL has
   * expired.
   */
  check(method: Grant["method"], id: string, query: URLSearchParams): Grant;
};

const PARAMETERS = ["size", "type", "expires", "signature"] as const;

export function createUrlSigner(keyring: Keyring, now: Now): UrlSigner {
  const textOf = ({ method, id, size, type, expiresAt }: Grant) => JSON.stringify([method, id, size, type, expiresAt]);

  return {
    sign(publicUrl, { id, size, mimeType }, method, ttlSeconds) {
      const grant: Grant = { method, id, size, type: mimeType, expiresAt: now() + ttlSeconds * 1000 };
      const query = new URLSearchParams({
        size: String(size),
        type: mimeType,
        expires: String(grant.expiresAt),
        signature: keyring.digest("storage-url", textOf(grant)),
      });
      return `${publicUrl}${UPLOAD_PATH}${id}?${query}`;
    },

    check(method, id, query) {
      const wellFormed = query.size === PARAMETERS.length && PARAMETERS.every((name) => query.has(name));
      const { size, type, expires } = {
        size: query.get("size"),
        type: query.get("type"),
        expires: query.get("expires"),
      };
      const grant: Grant = { method, id, size: Number(size), type: type ?? "", expiresAt: Number(expires) };
      // Numbers are compared as written: "1e3", "01" and "1.0" were never signed.
      const asSigned = String(grant.size) === size && String(grant.expiresAt) === expires;
      const isSigned = keyring.isDigest("storage-url", textOf(grant), query.get("signature") ?? "");
      requireSigned(wellFormed && asSigned && isSigned, grant.expiresAt, now());
      return grant;
    },
  };
}

/** Signs URLs with which a file can be downloaded until they expire. `prefix` distinguishes its ids from those of other files. */
export function createDownloadSigner(keyring: Keyring, now: Now, purpose: KeyPurpose, prefix: readonly string[] = []) {
  const textOf = (id: string, expiresAt: number) => JSON.stringify([...prefix, id, expiresAt]);
  return {
    query: (id: string, expiresAt: number): URLSearchParams =>
      new URLSearchParams({ expires: String(expiresAt), signature: keyring.digest(purpose, textOf(id, expiresAt)) }),

    /** Returns when the URL expires. Throws when it was changed, or has expired. */
    check(id: string, query: URLSearchParams): number {
      const expiresAt = Number(query.get("expires"));
      const asSigned = String(expiresAt) === query.get("expires") && query.size === 2;
      const isSigned = keyring.isDigest(purpose, textOf(id, expiresAt), query.get("signature") ?? "");
      requireSigned(asSigned && isSigned, expiresAt, now());
      return expiresAt;
    },
  };
}

function requireSigned(isSigned: boolean, expiresAt: number, at: number): void {
  if (!isSigned)
    throw new ApiError("SVC_PERMISSION_DENIED", "The address was changed or was not issued by this server.");
  if (at >= expiresAt) throw new ApiError("SVC_PERMISSION_DENIED", "The address has expired. Ask for another.");
}
