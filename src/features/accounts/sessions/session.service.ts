import { randomBytes } from "node:crypto";
import { iso } from "../../../kernel/clock.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { SessionCaller } from "../../../kernel/http/callers.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { ApiError } from "../../../protocol/errors.ts";
import { showUser } from "../user.service.ts";
import type { UserRow } from "../user.table.ts";
import { sessionStore } from "./session.store.ts";
import type { RefreshTokenRow, SessionRow } from "./session.table.ts";

const ACCESS_TOKEN_SECONDS = 3600;
export const REFRESH_TOKEN_SECONDS = 30 * 86_400;
/** Two tabs that wake up together, or an answer that was lost, send one token twice. */
const ROTATION_GRACE_MS = 20_000;
/** A month of renewals every hour; whoever renews in a loop fills nothing. */
const ROTATED_KEPT = 720;

/** Where a sign-in came from, as the owner of the account reads it in the list of sessions. */
export type Client = { ip: string; userAgent: string | null };

/** What a sign-in gives; the refresh token leaves in a cookie alone. */
export type Opened = {
  user: ReturnType<typeof showUser>;
  accessToken: string;
  expiresIn: number;
  refreshToken: string;
};

/** A session with the one refresh token that renews it next. */
export type Started = { session: SessionRow; refreshToken: string };

export type SessionService = ReturnType<typeof sessionService>;

export function sessionService({ db, ids, jwt, keyring, now }: Runtime) {
  const store = sessionStore(db);

  function issueRefreshToken(unit: Unit, sessionId: string): { refreshToken: string; digest: string } {
    const refreshToken = randomBytes(32).toString("base64url");
    const digest = keyring.digest("refresh-token", refreshToken);
    store.insertRefreshToken(unit, { digest, sessionId, rotatedAt: null, successor: null, usedAt: null });
    return { refreshToken, digest };
  }

  /**
   * The token that stands for the one that was sent: itself, or within a moment of its rotation the last of its
   * successors, if nobody has used any of them. Null for one that is in two hands.
   */
  function standingFor(token: RefreshTokenRow, at: number): RefreshTokenRow | null {
    if (token.rotatedAt === null) return token;
    if (at - token.rotatedAt >= ROTATION_GRACE_MS) return null;
    let last = token;
    while (last.successor !== null) {
      const next = store.findRefreshToken(last.successor);
      if (!next || next.usedAt !== null) return null;
      last = next;
    }
    return last.rotatedAt === null ? last : null;
  }

  const accessToken = (session: SessionRow): Promise<string> =>
    jwt.sign("session", ids.uuid(), { sub: session.userId, sid: session.id }, now() + ACCESS_TOKEN_SECONDS * 1000);

  return {
    start(unit: Unit, userId: string, client: Client): Started {
      const at = now();
      store.deleteExpired(unit, at);
      const session: SessionRow = {
        id: ids.uuid(),
        userId,
        ipAddress: client.ip,
        userAgent: client.userAgent,
        createdAt: at,
        refreshedAt: at,
        expiresAt: at + REFRESH_TOKEN_SECONDS * 1000,
      };
      store.insert(unit, session);
      return { session, refreshToken: issueRefreshToken(unit, session.id).refreshToken };
    },

    /**
     * Null for a token that renews nothing. One that was rotated a while ago, or whose successor is in use, is in two
     * hands, so its session ends; that must be committed, hence no throw.
     */
    rotate(unit: Unit, refreshToken: string): (Started & { user: UserRow }) | null {
      const at = now();
      const digest = keyring.digest("refresh-token", refreshToken);
      const token = store.findRefreshToken(digest);
      const found = token && store.find(token.sessionId, at);
      if (!token || !found) return null;
      const standing = standingFor(token, at);
      if (standing === null) {
        store.delete(unit, token.sessionId);
        return null;
      }
      const issued = issueRefreshToken(unit, found.session.id);
      store.markUsed(unit, digest, at);
      store.markRotated(unit, standing.digest, at, issued.digest);
      store.pruneRotated(unit, found.session.id, ROTATED_KEPT);
      store.extend(unit, found.session.id, at, at + REFRESH_TOKEN_SECONDS * 1000);
      return { ...found, refreshToken: issued.refreshToken };
    },

    accessToken,

    open: async (user: UserRow, { session, refreshToken }: Started): Promise<Opened> => ({
      user: showUser(user),
      accessToken: await accessToken(session),
      expiresIn: ACCESS_TOKEN_SECONDS,
      refreshToken,
    }),

    /** The token alone is not enough: the session must still be there, so that ending it takes effect at once. */
    async verify(token: string): Promise<SessionCaller> {
      const { sid } = await jwt.verify("session", token);
      const found = typeof sid === "string" ? store.find(sid, now()) : undefined;
      if (!found) throw new ApiError("SVC_TOKEN_REVOKED");
      const { session, user } = found;
      return {
        kind: "session",
        sessionId: session.id,
        userId: user.id,
        email: user.email,
        isOperator: user.isOperator,
      };
    },

    list: (userId: string, before: string, limit: number) => store.list(userId, now(), before, limit),
    show: (row: SessionRow, currentId: string) => ({
      id: row.id,
      ipAddress: row.ipAddress,
      userAgent: row.userAgent,
      current: row.id === currentId,
      createdAt: iso(row.createdAt),
      refreshedAt: iso(row.refreshedAt),
      expiresAt: iso(row.expiresAt),
    }),

    end: store.delete,
    /** One of the user's own, the current one included. */
    endOf(unit: Unit, userId: string, sessionId: string): void {
      if (store.find(sessionId, now())?.user.id !== userId) throw new ApiError("SVC_SESSION_NOT_FOUND");
      store.delete(unit, sessionId);
    },
    /** By its refresh token; false when that belongs to no session. */
    endByRefreshToken(unit: Unit, refreshToken: string): boolean {
      const token = store.findRefreshToken(keyring.digest("refresh-token", refreshToken));
      if (token) store.delete(unit, token.sessionId);
      return token !== undefined;
    },
    endAllOf: store.deleteOfUser,
  };
}
