import { randomBytes } from "node:crypto";
import type { Unit } from "../../kernel/db/writer.ts";
import type { SessionCaller } from "../../kernel/http/callers.ts";
import { NEWEST } from "../../kernel/http/serving/pages.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { DAY_MS, iso } from "../../kernel/time/clock.ts";
import { ApiError } from "../../protocol/errors.ts";
import type { SecondFactorService } from "./second-factor/second-factor.service.ts";
import { type RefreshTokenRow, type SessionRow, sessionStore } from "./session.store.ts";
import { presentUser, type UserService } from "./user.service.ts";
import type { UserRow } from "./user.store.ts";

const ACCESS_TOKEN_SECONDS = 3600;
export const REFRESH_TOKEN_SECONDS = 30 * 86_400;
/** The same token is sent twice by two tabs that wake up together, or by a client that lost the response. */
const ROTATION_GRACE_MS = 20_000;
/** One token for every hour of a month; the limit applies to a client that renews in a loop. */
const MAX_ROTATED_KEPT = 720;
/** The number of sessions with which a new session is compared. */
const MAX_COMPARED = 100;
const NEW_ACCOUNT_MS = DAY_MS;
const JUST_SIGNED_IN_MS = 600_000;

/** The origin of a sign-in, as shown to the owner of the account in the list of sessions. */
export type Client = { ip: string; userAgent: string | null };

/** The response to a sign-in, except for the refresh token, which is sent only in a cookie. */
export type SignIn = {
  user: ReturnType<typeof presentUser>;
  accessToken: string;
  expiresIn: number;
  secondFactor: MissingFactor;
  refreshToken: string;
};

type StartedSession = { session: SessionRow; refreshToken: string };

export type SessionService = ReturnType<typeof sessionService>;

/** The step that a sign-in still requires: to present a second factor, or to set one up. */
type MissingFactor = "verify" | "setup" | null;

type SessionDeps = { users: UserService; factors: Pick<SecondFactorService, "has" | "isRequired">; notify: Notify };
/** Called for a sign-in from an unknown client. */
type Notify = (userId: string, client: Client) => void;

export function sessionService({ db, ids, jwt, keyring, now }: Runtime, { users, factors, notify }: SessionDeps) {
  const store = sessionStore(db);
  const digestOf = (refreshToken: string) => keyring.digest("refresh-token", refreshToken);

  function find(refreshToken: string): RefreshTokenRow | null {
    const digests = keyring.acceptedDigests("refresh-token", refreshToken);
    return digests.flatMap((digest) => store.findRefreshToken(digest) ?? [])[0] ?? null;
  }

  function issueRefreshToken(unit: Unit, sessionId: string): { refreshToken: string; digest: string } {
    const refreshToken = randomBytes(32).toString("base64url");
    const digest = digestOf(refreshToken);
    store.insertRefreshToken(unit, { digest, sessionId, rotatedAt: null, successor: null, usedAt: null });
    return { refreshToken, digest };
  }

  /**
   * The token to rotate: the token that was sent or, shortly after its rotation, the last of its successors if none of
   * them was used. Null means that two clients have the token.
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

  /**
   * The account's last factor may have been removed since the session was verified; where a factor is required, one
   * has to be set up again.
   */
  function missingFactor({ userId, verifiedAt }: SessionRow): MissingFactor {
    if (!factors.has(userId)) return factors.isRequired ? "setup" : null;
    return verifiedAt === null ? "verify" : null;
  }

  function notifyIfNew(unit: Unit, userId: string, client: Client): void {
    const known = store.list(userId, now(), NEWEST, MAX_COMPARED);
    const isKnown = known.some(({ ipAddress, userAgent }) => ipAddress === client.ip && userAgent === client.userAgent);
    // The first sign-in of a new account is the one that created it, or the one that followed the link in its mail.
    const isNewAccount = known.length === 0 && now() - users.get(userId).createdAt < NEW_ACCOUNT_MS;
    if (!isKnown && !isNewAccount) unit.afterCommit(() => notify(userId, client));
  }

  return {
    start(unit: Unit, userId: string, client: Client, isVerified = false): StartedSession {
      const at = now();
      store.deleteExpired(unit, at);
      notifyIfNew(unit, userId, client);
      const session: SessionRow = {
        id: ids.uuid(),
        userId,
        ipAddress: client.ip,
        userAgent: client.userAgent,
        createdAt: at,
        refreshedAt: at,
        verifiedAt: isVerified ? at : null,
        expiresAt: at + REFRESH_TOKEN_SECONDS * 1000,
      };
      store.insert(unit, session);
      return { session, refreshToken: issueRefreshToken(unit, session.id).refreshToken };
    },

    /**
     * Null for an invalid token. A token that two clients have was stolen, so its session ends. This must be committed,
     * so the method does not throw.
     */
    rotate(unit: Unit, refreshToken: string): (StartedSession & { user: UserRow }) | null {
      const at = now();
      const token = find(refreshToken);
      const session = token && store.findUnexpired(token.sessionId, at);
      if (!token || !session) return null;
      const current = rotatable(token, at);
      if (current === null) {
        store.delete(unit, session.id);
        return null;
      }
      const issued = issueRefreshToken(unit, session.id);
      store.markUsed(unit, token.digest, at);
      store.markRotated(unit, current.digest, at, issued.digest);
      store.pruneRotated(unit, session.id, MAX_ROTATED_KEPT);
      store.extend(unit, session.id, at, at + REFRESH_TOKEN_SECONDS * 1000);
      return { session, user: users.get(session.userId), refreshToken: issued.refreshToken };
    },

    async signIn(user: UserRow, { session, refreshToken }: StartedSession): Promise<SignIn> {
      const claims = { sub: user.id, sid: session.id };
      const accessToken = await jwt.sign("session", ids.uuid(), claims, now() + ACCESS_TOKEN_SECONDS * 1000);
      const secondFactor = missingFactor(session);
      return { user: presentUser(user), accessToken, expiresIn: ACCESS_TOKEN_SECONDS, secondFactor, refreshToken };
    },

    /** Verifies the token and looks up its session, so that the end of a session takes effect at once. */
    async verify(token: string): Promise<SessionCaller> {
      const { sid } = await jwt.verify("session", token);
      const session = typeof sid === "string" ? store.findUnexpired(sid, now()) : undefined;
      if (!session) throw new ApiError("SVC_TOKEN_REVOKED");
      const { id: userId, email, isOperator } = users.get(session.userId);
      return {
        kind: "session",
        sessionId: session.id,
        userId,
        email,
        isOperator,
        missingFactor: missingFactor(session),
      };
    },

    /**
     * Ends the session and starts a new one in its place, because the session is worth more than before, or because a stolen token
     * of it must end. `isVerified` says that a second factor was presented or set up.
     */
    replace(unit: Unit, sessionId: string, isVerified: boolean): StartedSession & { user: UserRow } {
      const at = now();
      const before = store.findUnexpired(sessionId, at);
      if (!before) throw new ApiError("SVC_TOKEN_REVOKED");
      store.delete(unit, sessionId);
      const verifiedAt = isVerified ? at : before.verifiedAt;
      const session: SessionRow = { ...before, id: ids.uuid(), refreshedAt: at, verifiedAt };
      store.insert(unit, session);
      const { refreshToken } = issueRefreshToken(unit, session.id);
      return { session, user: users.get(session.userId), refreshToken };
    },

    /** Throws for a session that has ended since its request began, as when the password was changed meanwhile. */
    requireOpen(sessionId: string): void {
      if (!store.findUnexpired(sessionId, now())) throw new ApiError("SVC_TOKEN_REVOKED");
    },

    /** Whether the session began, or was verified by a second factor, a few minutes ago. */
    hasJustSignedIn(sessionId: string): boolean {
      const session = store.findUnexpired(sessionId, now());
      return session !== undefined && now() - (session.verifiedAt ?? session.createdAt) < JUST_SIGNED_IN_MS;
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
    /** False when the token does not belong to a session. */
    endByRefreshToken(unit: Unit, refreshToken: string): boolean {
      const token = find(refreshToken);
      if (token) store.delete(unit, token.sessionId);
      return token !== null;
    },
    endAll: store.deleteOfUser,
  };
}
