import { ApiError, invalid } from "../../protocol/errors.ts";
import type { Db } from "../db/open.ts";
import { changeEach, pages } from "../db/pages.ts";
import { changing, columnsOf, inserter, reading } from "../db/statements.ts";
import type { Unit, Writer } from "../db/writer.ts";
import { pathOf } from "../log.ts";
import { DAY_MS, type Now } from "../time/clock.ts";
import { rawBody } from "./body.ts";
import type { Caller } from "./callers.ts";
import { idempotencyKeys } from "./idempotency.table.ts";

const MINT_WINDOW_MS = 5 * 60_000;
const CREATE_WINDOW_MS = DAY_MS;

type IdempotentContext = {
  request: Request;
  caller: Caller;
  set: { status?: number | string; headers: Record<string, string | number | string[] | undefined> };
};

type Stored = { bodyHash: string; status: number; body: string; expiresAt: number };

/** For records whose content may be deleted: only a reference is stored, and a replay returns the record's current state. */
type Reference<T> = { of: (result: T) => unknown; follow: (kept: unknown) => T };

export type Idempotency = {
  /** Creates a record: `work` is a unit of work, and its result is stored in the same transaction. Responds with 201. */
  create<T>(context: IdempotentContext, work: (unit: Unit) => T, reference?: Reference<T>): Promise<T>;
  /** Mints a credential: its result is kept in memory only, never written to disk. Responds with 201. */
  mint<T>(context: IdempotentContext, work: () => T | Promise<T>): Promise<T>;
  /** Deletes expired results; called by a recurring job. */
  sweep(): Promise<void>;
};

export function createIdempotency(db: Db, { write }: Writer, now: Now): Idempotency {
  const find = reading<Stored, [string]>(
    db.$client,
    `SELECT ${columnsOf(idempotencyKeys)} FROM idempotency_keys WHERE id = ?`,
  );
  const save = inserter<Stored & { id: string }>(
    db.$client,
    idempotencyKeys,
    `ON CONFLICT (id) DO UPDATE SET
       body_hash = excluded.body_hash, status = excluded.status, body = excluded.body, expires_at = excluded.expires_at`,
  );
  const expire = changing<[number]>(db.$client, "DELETE FROM idempotency_keys WHERE expires_at <= ?");
  const minted = createMintedCache(now);

  function replay<T>({ set }: IdempotentContext, kept: Stored, bodyHash: string): T {
    if (kept.bodyHash !== bodyHash) throw new ApiError("SVC_IDEMPOTENCY_KEY_REUSED");
    set.status = kept.status;
    set.headers["idempotent-replayed"] = "true";
    return JSON.parse(kept.body) as T;
  }

  /** A unit of work may set another status than 201, for example if nothing changed; that status is stored too. */
  const keep = (context: IdempotentContext, bodyHash: string, result: unknown, windowMs: number): Stored => ({
    bodyHash,
    status: typeof context.set.status === "number" ? context.set.status : 201,
    body: JSON.stringify(result),
    expiresAt: now() + windowMs,
  });

  return {
    create<T>(context: IdempotentContext, work: (unit: Unit) => T, reference?: Reference<T>): Promise<T> {
      context.set.status = 201;
      const claim = claimOf(context);
      if (!claim) return write(work as (unit: Unit) => never);
      const { id, bodyHash } = claim;
      return write(((unit: Unit) => {
        const kept = find.get(id);
        if (kept && kept.expiresAt > now()) {
          const replayed = replay<T>(context, kept, bodyHash);
          return reference ? reference.follow(replayed) : replayed;
        }
        const result = work(unit);
        save(unit, { id, ...keep(context, bodyHash, reference ? reference.of(result) : result, CREATE_WINDOW_MS) });
        return result;
      }) as (unit: Unit) => never);
    },

    async mint(context, work) {
      context.set.status = 201;
      const claim = claimOf(context);
      if (!claim) return work();
      const { id, bodyHash } = claim;
      const holder = credentialOf(context.caller);
      const kept = minted.get(holder, id);
      if (kept === "running") throw new ApiError("SVC_IDEMPOTENCY_IN_PROGRESS", undefined, { retryAfterSeconds: 1 });
      if (kept && kept.expiresAt > now()) return replay(context, kept, bodyHash);
      minted.set(holder, id, "running");
      try {
        const result = await work();
        minted.set(holder, id, keep(context, bodyHash, result, MINT_WINDOW_MS));
        return result;
      } catch (error) {
        minted.delete(holder, id);
        throw error;
      }
    },

    async sweep() {
      const at = now();
      minted.sweep();
      await write((unit) => void expire.run(unit, at));
    },
  };
}

/** A client does not retry more requests than this within five minutes. */
const MINTED_PER_CREDENTIAL = 1000;

/** Results by credential and key. A client that sends endless keys evicts only its own results. */
function createMintedCache(now: Now) {
  const byHolder = new Map<string, Map<string, Stored | "running">>();
  const isOver = (kept: Stored | "running") => kept !== "running" && kept.expiresAt <= now();

  function remove(holder: string, id: string): void {
    const own = byHolder.get(holder);
    own?.delete(id);
    if (own?.size === 0) byHolder.delete(holder);
  }

  return {
    get: (holder: string, id: string) => byHolder.get(holder)?.get(id),
    set(holder: string, id: string, kept: Stored | "running"): void {
      const own = byHolder.get(holder) ?? new Map<string, Stored | "running">();
      byHolder.set(holder, own);
      own.set(id, kept);
      if (own.size <= MINTED_PER_CREDENTIAL) return;
      // Running requests are not evicted, because a retry would otherwise run at the same time.
      for (const [oldest, value] of own) {
        if (value === "running") continue;
        own.delete(oldest);
        return;
      }
    },
    delete: remove,
    sweep(): void {
      for (const [holder, own] of byHolder) {
        for (const [id, kept] of own) if (isOver(kept)) remove(holder, id);
      }
    },
  };
}

function claimOf({ request, caller }: IdempotentContext): { id: string; bodyHash: string } | null {
  const key = request.headers.get("idempotency-key");
  if (key === null) return null;
  if (!/^[\x21-\x7e]{1,255}$/.test(key)) {
    throw invalid("Idempotency-Key", "must be 1-255 visible ASCII characters");
  }
  const scope = [credentialOf(caller), request.method, pathOf(request.url), key].join("\n");
  // The query names the environment, so the same body with another query is another request.
  return { id: sha256(scope), bodyHash: sha256(`${new URL(request.url).search}${rawBody(request)}`) };
}

function credentialOf(caller: Caller): string {
  switch (caller.kind) {
    case "apiKey":
      return `key ${caller.keyId}`;
    case "session":
      return `user ${caller.userId}`;
    case "chatToken":
    case "rtcToken":
      return `token ${caller.tokenId}`;
    case "node":
      return "node";
  }
}

function sha256(text: string): string {
  return new Bun.CryptoHasher("sha256").update(text).digest("base64url");
}

/** Each body is parsed, so a page has fewer rows than for other tables. */
const RESPONSES_PER_PAGE = 100;

/** Removes stored responses whose body matches; they have no other reference to a user. */
export async function removeStoredResponses(
  { db: { $client: client }, write }: { db: Db; write: Writer["write"] },
  matches: (body: unknown) => boolean,
): Promise<void> {
  const read = client.prepare<{ id: string; body: string }, [string, number]>(
    "SELECT id, body FROM idempotency_keys WHERE id > ? ORDER BY id LIMIT ?",
  );
  const remove = changing<[string]>(client, "DELETE FROM idempotency_keys WHERE id = ?");
  const matching = pages("", (after) => {
    const rows = read.all(after, RESPONSES_PER_PAGE);
    const last = rows.at(-1);
    return last ? { until: last.id, rows: rows.filter(({ body }) => matches(JSON.parse(body))) } : null;
  });
  await changeEach(write, matching, (unit, { id }) => void remove.run(unit, id));
}
