import type { ApiKeyCaller } from "../kernel/http/callers.ts";
import { sameSecret } from "../kernel/secrets.ts";
import type { Environment } from "../protocol/enums.ts";
import { ApiError } from "../protocol/errors.ts";
import type { Runtime } from "../runtime.ts";
import type { apiKeyStore } from "./api-key.store.ts";
import type { ApiKeyRow } from "./api-key.table.ts";

const KEY = /^svk_(dev|prod)_([A-Za-z0-9]{16})\.([A-Za-z0-9_-]{43})$/;
const TOUCH_EVERY_MS = 10_000;
const CACHED_KEYS = 10_000;

export const ENVIRONMENT_IN_KEY: Record<Environment, "dev" | "prod"> = { DEVELOPMENT: "dev", PRODUCTION: "prod" };

/** Runs on every request of a server: the row stays in memory until the key or its project changes. */
export function createApiKeyVerifier(
  { bus, keyring, now, write }: Runtime,
  store: ReturnType<typeof apiKeyStore>,
): (key: string) => ApiKeyCaller {
  const rows = new Map<string, { row: ApiKeyRow; touchedAt: number }>();
  bus.on("apiKeyRevoked", ({ publicId }) => void rows.delete(publicId));
  bus.on("changedElsewhere", () => rows.clear());
  bus.on("projectChanged", ({ projectId }) => {
    for (const [publicId, { row }] of rows) if (row.projectId === projectId) rows.delete(publicId);
  });

  function lookUp(publicId: string) {
    const known = rows.get(publicId);
    if (known) return known;
    const row = store.findUsable(publicId);
    if (!row) return null;
    if (rows.size >= CACHED_KEYS) rows.clear();
    const entry = { row, touchedAt: row.lastUsedAt ?? 0 };
    rows.set(publicId, entry);
    return entry;
  }

  return (key) => {
    const [, env = "", publicId = "", secret = ""] = KEY.exec(key) ?? [];
    const digest = keyring.digest("api-key", secret);
    const entry = lookUp(publicId);
    if (!entry || !sameSecret(digest, entry.row.secretDigest) || ENVIRONMENT_IN_KEY[entry.row.environment] !== env) {
      throw new ApiError("SVC_AUTH_ERROR");
    }
    const { row } = entry;
    const at = now();
    if (at - entry.touchedAt >= TOUCH_EVERY_MS) {
      entry.touchedAt = at;
      void write(() => store.touch(row.id, at));
    }
    return {
      kind: "apiKey",
      keyId: row.id,
      publicId: row.publicId,
      projectId: row.projectId,
      environment: row.environment,
    };
  };
}
