import { sameSecret } from "../../kernel/crypto/secrets.ts";
import type { ApiKeyCaller } from "../../kernel/http/callers.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Environment } from "../../protocol/enums.ts";
import { ApiError } from "../../protocol/errors.ts";
import type { ApiKeyStore } from "./api-key.store.ts";

const KEY = /^svk_(dev|prod)_([A-Za-z0-9]{16})\.([A-Za-z0-9_-]{43})$/;
const TOUCH_INTERVAL_MS = 10_000;
const MAX_CACHED_KEYS = 10_000;

export const ENVIRONMENT_IN_KEY: Record<Environment, "dev" | "prod"> = { DEVELOPMENT: "dev", PRODUCTION: "prod" };

type Verified = { caller: ApiKeyCaller; touchedAt: number };

/** The same error for all invalid keys, so that it tells nothing about the keys that exist. */
const invalidKey = () =>
  new ApiError(
    "SVC_AUTH_ERROR",
    "The API key is unknown here, was revoked, or was not copied whole: svk_…, as shown when it was created.",
  );

/**
 * Runs on every request of a backend, so a verified key is cached until the key or its project changes. The cache is a
 * hash table with the whole key as its key: unlike a comparison, the timing of a lookup does not reveal how close a
 * guess is.
 */
export function createApiKeyVerifier(
  { bus, keyring, log, now, write }: Runtime,
  store: ApiKeyStore,
): (key: string) => ApiKeyCaller {
  const verified = new Map<string, Verified>();
  const forget = (matches: (caller: ApiKeyCaller) => boolean) => {
    for (const [key, { caller }] of verified) if (matches(caller)) verified.delete(key);
  };
  bus.on("apiKeyRevoked", ({ publicId }) => forget((caller) => caller.publicId === publicId));
  bus.on("projectChanged", ({ projectId }) => forget((caller) => caller.projectId === projectId));
  bus.on("changedElsewhere", () => verified.clear());

  function verify(key: string): Verified {
    const [isKey, env = "", publicId = "", secret = ""] = KEY.exec(key) ?? [];
    // Refusing malformed keys before the lookup makes handling a guess four times cheaper.
    if (isKey === undefined) throw invalidKey();
    const [digest = "", previous] = keyring.acceptedDigests("api-key", secret);
    const row = store.findUsable(publicId);
    const isOfPrevious = row !== undefined && previous !== undefined && sameSecret(previous, row.secretDigest);
    if (
      !row ||
      !(isOfPrevious || sameSecret(digest, row.secretDigest)) ||
      ENVIRONMENT_IN_KEY[row.environment] !== env
    ) {
      throw invalidKey();
    }
    // The key stays valid when STOA_SECRET_PREVIOUS is removed.
    if (isOfPrevious) {
      write((unit) => store.setDigest(unit, row.id, digest)).catch((err) =>
        log.warn({ err }, "api key: digest not renewed with the new STOA_SECRET"),
      );
    }
    const { projectId, environment, name } = row;
    if (verified.size >= MAX_CACHED_KEYS) verified.clear();
    const entry: Verified = {
      caller: { kind: "apiKey", keyId: row.id, publicId, name, projectId, environment },
      touchedAt: row.lastUsedAt ?? 0,
    };
    verified.set(key, entry);
    return entry;
  }

  return (key) => {
    const entry = verified.get(key) ?? verify(key);
    const { caller } = entry;
    const at = now();
    if (at - entry.touchedAt >= TOUCH_INTERVAL_MS) {
      entry.touchedAt = at;
      // The request does not wait: if the database is not writable, requests that only read must still succeed.
      write((unit) => store.touch(unit, caller.keyId, at)).catch((err) =>
        log.warn({ err }, "api key: last use not saved"),
      );
    }
    return caller;
  };
}
