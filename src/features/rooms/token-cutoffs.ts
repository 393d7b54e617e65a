import { tokensValidFrom } from "../../kernel/data-directory/installation.ts";
import { changing, reading } from "../../kernel/db/statements.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import { DAY_MS } from "../../kernel/time/clock.ts";

/** The longest lifetime of a token that a backend signs itself, so that a cut-off need not be kept longer. */
export const SIGNED_TOKEN_MAX_MS = 30 * DAY_MS;
const KEPT_MS = SIGNED_TOKEN_MAX_MS + DAY_MS;

/** A participant in one room, by the room's name, or in all rooms. */
type CutOff = Tenant & { roomName: string | null; identity: string };

/**
 * Revokes tokens that a backend signed itself by their time of signing, because the server does not know them before
 * their first use.
 */
export function createTokenCutoffs({ db, keyring, now }: Pick<Runtime, "db" | "keyring" | "now">) {
  const { $client: client } = db;
  const validFrom = tokensValidFrom(db);
  const byDigest = reading<{ signedBefore: number }, [string]>(
    client,
    "SELECT signed_before AS signedBefore FROM token_cutoffs WHERE digest = ?",
  );
  const save = changing<[string, number]>(
    client,
    `INSERT INTO token_cutoffs (digest, signed_before) VALUES (?, ?)
       ON CONFLICT (digest) DO UPDATE SET signed_before = max(signed_before, excluded.signed_before)`,
  );
  const expire = changing<[number]>(client, "DELETE FROM token_cutoffs WHERE signed_before < ?");

  const digestsOf = ({ projectId, environment, roomName, identity }: CutOff) =>
    keyring.acceptedDigests("token-cutoff", JSON.stringify([projectId, environment, roomName, identity]));

  return {
    /**
     * Tokens have whole seconds, so tokens of the current second are revoked as well. Returns the time from which new
     * tokens are valid.
     */
    cutOff(unit: Unit, of: CutOff): number {
      const signedBefore = (Math.floor(now() / 1000) + 1) * 1000;
      const [digest = ""] = digestsOf(of);
      save.run(unit, digest, signedBefore);
      return signedBefore;
    },

    /** `signedAt` is null for a token without a time of signing. */
    isVoid(of: Tenant & { roomName: string; identity: string }, signedAt: number | null): boolean {
      // The token is older than a restored backup, which does not contain later removals.
      if (validFrom > 0 && (signedAt === null || signedAt + 1000 <= validFrom)) return true;
      const digests = [of, { ...of, roomName: null }].flatMap(digestsOf);
      const cutoffs = digests.flatMap((digest) => byDigest.get(digest)?.signedBefore ?? []);
      return cutoffs.some((signedBefore) => signedAt === null || signedAt < signedBefore);
    },

    sweep: (unit: Unit) => void expire.run(unit, now() - KEPT_MS),
  };
}
