import { randomBytes } from "node:crypto";
import type { Unit } from "../../kernel/db/writer.ts";
import type { SessionCaller } from "../../kernel/http/callers.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { iso } from "../../kernel/time/clock.ts";
import { ApiError } from "../../protocol/errors.ts";
import { type RefreshTokenRow, type SessionRow, sessionStore } from "./session.store.ts";
import { presentUser, type UserService } from "./user.service.ts";
import type { UserRow } from "./user.store.ts";

const ACCESS_TOKEN_SECONDS = 3600;
export const REFRESH_TOKEN_SECONDS = 30 * 86_400;
/** Two tabs that wake up together, or a client whose response was lost, send the same token twice. */
const ROTATION_GRACE_MS = 20_000;
/** One for every hour of a month; it bounds what a client that renews in a loop can store. */
const MAX_ROTATED_KEPT = 720;

/** Where a sign-in came from, as the owner of the account reads it in the list of sessions. */
export type Client = { ip: string; userAgent: string | null };

/** The response to a sign-in, except that the refresh token is sent in a cookie alone. */
export type SignIn = {
  user: ReturnType<typeof presentUser>;
  accessToken: string;
  expiresIn: number;
  refreshToken: string;
};

/** A session with the refresh token that renews it next. */
export type StartedSession = { session: SessionRow; refreshToken: string };

export type SessionService = ReturnType<typeof sessionService>;

export function sessionService({ db, ids, jwt, keyring, now }: Runtime, users: UserService) {
  const store = sessionStore(db);
  const digestOf = (refreshToken: string) => keyring.digest("refresh-token", refreshToken);

  function issueRefreshToken(unit: Unit, sessionId: string): { refreshToken: string; digest: string } {
    const refreshToken = randomBytes(32).toString("base64url");
    const digest = digestOf(refreshToken);
    store.insertRefreshToken(unit, { digest, sessionId, rotatedAt: null, successor: null, usedAt: null });
    return { refreshToken, digest };
  }

  /**
   * The token to rotate for the one that was sent: that token itself or, shortly after its rotation, the last of its
   * successors if none of them was used. Null means that two clients hold the token.
   */
  function rotatable(token: RefreshTokenRow, at: number): RefreshTokenRow | null {
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

  return {
    start(unit: Unit, userId: string, client: Client): StartedSession {
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
     * Null for an invalid token. A token that two clients hold was stolen, so its session ends; that must be committed,
     * therefore this does not throw.
     */
    rotate(unit: Unit, refreshToken: string): (StartedSession & { user: UserRow }) | null {
      const at = now();
      const digest = digestOf(refreshToken);
      const token = store.findRefreshToken(digest);
      const session = token && store.findUnexpired(token.sessionId, at);
      if (!token || !session) return null;
      const current = rotatable(token, at);
      if (current === null) {
        store.delete(unit, session.id);
        return null;
      }
      const issued = issueRefreshToken(unit, session.id);
      store.markUsed(unit, digest, at);
      store.markRotated(unit, current.digest, at, issued.digest);
      store.pruneRotated(unit, session.id, MAX_ROTATED_KEPT);
      store.extend(unit, session.id, at, at + REFRESH_TOKEN_SECONDS * 1000);
      return { session, user: users.get(session.userId), refreshToken: issued.refreshToken };
    },

    async signIn(user: UserRow, { session, refreshToken }: StartedSession): Promise<SignIn> {
      const claims = { sub: user.id, sid: session.id };
      const accessToken = await jwt.sign("session", ids.uuid(), claims, now() + ACCESS_TOKEN_SECONDS * 1000);
      return { user: presentUser(user), accessToken, expiresIn: ACCESS_TOKEN_SECONDS, refreshToken };
    },

    /** Looks the session up as well as verifying the token, so that ending a session takes effect at once. */
    async verify(token: string): Promise<SessionCaller> {
      const { sid } = await jwt.verify("session", token);
      const session = typeof sid === "string" ? store.findUnexpired(sid, now()) : undefined;
      if (!session) throw new ApiError("SVC_TOKEN_REVOKED");
      const { id: userId, email, isOperator } = users.get(session.userId);
      return { kind: "session", sessionId: session.id, userId, email, isOperator };
    },

    list: (userId: string, before: string, limit: number) => store.list(userId, now(), before, limit),
    present: (row: SessionRow, currentId: string) => ({
      id: row.id,
      ipAddress: row.ipAddress,
      userAgent: row.userAgent,
      current: row.id === currentId,
      createdAt: iso(row.createdAt),
      refreshedAt: iso(row.refreshedAt),
      expiresAt: iso(row.expiresAt),
    }),

    end: store.delete,
    /** Ends one of the user's own sessions, which may be the current one. */
    endOwn(unit: Unit, userId: string, sessionId: string): void {
      if (store.findUnexpired(sessionId, now())?.userId !== userId) throw new ApiError("SVC_SESSION_NOT_FOUND");
      store.delete(unit, sessionId);
    },
    /** False when the token belongs to no session. */
    endByRefreshToken(unit: Unit, refreshToken: string): boolean {
      const token = store.findRefreshToken(digestOf(refreshToken));
      if (token) store.delete(unit, token.sessionId);
      return token !== undefined;
    },
    endAll: store.deleteOfUser,
  };
}
