/**
 * A secret for one media node, beside the one that all may share. It opens the registration of that name alone, and is
 * what the server shows when it calls the node: one that turns rogue learns nothing with which it could pass for others.
 */
import { iso } from "../../kernel/time/clock.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { NodeKey } from "../../kernel/http/callers.ts";
import { randomBase62 } from "../../kernel/crypto/ids.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { sameSecret } from "../../kernel/crypto/secrets.ts";
import { ApiError, invalid } from "../../protocol/errors.ts";
import { SERVER_NAME_PATTERN } from "../../protocol/ids.ts";
import { nodeKeyStore } from "./node-key.store.ts";
import type { NodeKeyRow } from "./node-key.table.ts";

export type NodeKeys = ReturnType<typeof createNodeKeys>;

const SECRET = /^svn_([A-Za-z0-9]{16})\.[A-Za-z0-9_-]{43}$/;
const TOUCH_EVERY_MS = 10_000;

export function createNodeKeys({ db, keyring, now }: Pick<Runtime, "db" | "keyring" | "now">) {
  const store = nodeKeyStore(db);

  /** Made anew whenever it is asked for: the database holds nothing that could be stolen. */
  function secretOf({ publicId, name }: NodeKeyRow): string {
    const made = new Bun.CryptoHasher("sha256", keyring.key("node-key")).update(`${publicId} ${name}`);
    return `svn_${publicId}.${made.digest("base64url")}`;
  }

  return {
    /** The only time that the secret is shown. */
    create(unit: Unit, name: string) {
      if (!new RegExp(SERVER_NAME_PATTERN).test(name)) throw invalid("name", "is no name of a media node");
      const row = { publicId: randomBase62(16), name, createdAt: now(), lastUsedAt: null, revokedAt: null };
      store.insert(unit, row);
      return { ...show(row), secret: secretOf(row) };
    },

    list: () => store.all().map(show),

    /** True when it could still be used; the server hangs up on the node within seconds. */
    revoke(unit: Unit, publicId: string): boolean {
      const row = store.find(publicId);
      if (!row) throw new ApiError("SVC_API_KEY_NOT_FOUND", "There is no such secret of a media node.");
      if (row.revokedAt === null) store.revoke(unit, publicId, now());
      return row.revokedAt === null;
    },

    verify(secret: string): NodeKey {
      const [, publicId = ""] = SECRET.exec(secret) ?? [];
      const row = store.find(publicId);
      if (!row || row.revokedAt !== null || !sameSecret(secret, secretOf(row))) throw new ApiError("SVC_AUTH_ERROR");
      return { publicId, name: row.name };
    },

    /** Whoever comes for this name came with the right secret: its own, or the shared one while it has none. */
    admit(unit: Unit, name: string, key: NodeKey | null): void {
      if (key === null) {
        if (store.usedBy(name).length === 0) return;
        throw new ApiError(
          "SVC_PERMISSION_DENIED",
          `The media node ${name} has a secret of its own: it takes no other.`,
        );
      }
      if (key.name !== name) {
        throw new ApiError("SVC_PERMISSION_DENIED", `This is the secret of the media node ${key.name} alone.`);
      }
      const { lastUsedAt = null } = store.find(key.publicId) ?? {};
      if (lastUsedAt === null || now() - lastUsedAt >= TOUCH_EVERY_MS) store.touch(unit, key.publicId, now());
    },

    /** What to show the node of that name; null when its own was revoked, and it is called no more. */
    secretFor(name: string, shared: string): string | null {
      const used = store.usedBy(name);
      if (used.length === 0) return shared;
      const [current] = used.filter(({ revokedAt }) => revokedAt === null);
      return current ? secretOf(current) : null;
    },
  };
}

function show({ publicId, name, createdAt, lastUsedAt, revokedAt }: NodeKeyRow) {
  return {
    ...{ publicId, name, status: revokedAt === null ? ("ACTIVE" as const) : ("REVOKED" as const) },
    ...{ createdAt: iso(createdAt), lastUsedAt: iso(lastUsedAt), revokedAt: iso(revokedAt) },
  };
}
