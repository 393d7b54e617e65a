import type { ApiKeyCaller } from "../../kernel/http/callers.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { sameSecret } from "../../kernel/secrets.ts";
import type { Environment } from "../../protocol/enums.ts";
import { ApiError } from "../../protocol/errors.ts";
import type { apiKeyStore } from "./store/api-key.store.ts";

const KEY = /^svk_(dev|prod)_([A-Za-z0-9]{16})\.([A-Za-z0-9_-]{43})$/;
const TOUCH_EVERY_MS = 10_000;
const CACHED_KEYS = 10_000;

export const ENVIRONMENT_IN_KEY: Record<Environment, "dev" | "prod"> = { DEVELOPMENT: "dev", PRODUCTION: "prod" };

type Verified = { caller: ApiKeyCaller; touchedAt: number };

/**
 * Runs on every request of a server, so a key is verified once and then found by its whole text until it or its project
 * changes. A table is searched by hash: unlike a comparison, a wrong guess tells nothing about how near it came.
 */
export function createApiKeyVerifier(
  { bus, keyring, log, now, write }: Runtime,
  store: ReturnType<typeof apiKeyStore>,
): (key: string) => ApiKeyCaller {
  const verified = new Map<string, Verified>();
  const forget = (concerns: (caller: ApiKeyCaller) => boolean) => {
    for (const [key, { caller }] of verified) if (concerns(caller)) verified.delete(key);
  };
  bus.on("apiKeyRevoked", ({ publicId }) => forget((caller) => caller.publicId === publicId));
  bus.on("projectChanged", ({ projectId }) => forget((caller) => caller.projectId === projectId));
  bus.on("changedElsewhere", () => verified.clear());

  function verify(key: string): Verified {
    const [isKey, env = "", publicId = "", secret = ""] = KEY.exec(key) ?? [];
    // What cannot be one is not looked up: that is a quarter of what a guess costs.
    if (isKey === undefined) throw new ApiError("SVC_AUTH_ERROR");
    const digest = keyring.digest("api-key", secret);
    const row = store.findUsable(publicId);
    if (!row || !sameSecret(digest, row.secretDigest) || ENVIRONMENT_IN_KEY[row.environment] !== env) {
      throw new ApiError("SVC_AUTH_ERROR");
    }
    const { projectId, environment } = row;
    if (verified.size >= CACHED_KEYS) verified.clear();
    const entry: Verified = {
      caller: { kind: "apiKey", keyId: row.id, publicId, projectId, environment },
      touchedAt: row.lastUsedAt ?? 0,
    };
    verified.set(key, entry);
    return entry;
  }

  return (key) => {
    const entry = verified.get(key) ?? verify(key);
    const { caller } = entry;
    const at = now();
    if (at - entry.touchedAt >= TOUCH_EVERY_MS) {
      entry.touchedAt = at;
      // Nobody waits for it: a database that cannot be written must not end a request that only reads.
      write((unit) => store.touch(unit, caller.keyId, at)).catch((err) =>
        log.warn({ err }, "the use of a key is not on record"),
      );
    }
    return caller;
  };
}
