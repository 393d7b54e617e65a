import { Elysia } from "elysia";
import { ENVIRONMENTS, type Environment, type ProjectRole } from "../../protocol/enums.ts";
import { ApiError, type ErrorCode, invalid } from "../../protocol/errors.ts";
import { PERMISSIONS, type Permission } from "../../protocol/permissions.ts";
import { bearerOf } from "./bearer.ts";
import type { ApiKeyCaller, ChatTokenCaller, NodeCaller, RtcTokenCaller, SessionCaller } from "./callers.ts";
import { type OriginPolicy, originAllowed, originRefused } from "./origins.ts";
import type { RequestInfo } from "./request-info.ts";

/** The features' functions for verifying credentials. Each throws the appropriate 401. */
type Verifiers = {
  apiKey(key: string): ApiKeyCaller;
  session(token: string): Promise<SessionCaller>;
  chatToken(token: string): Promise<ChatTokenCaller>;
  /** Throws SVC_RATE_LIMITED when this user has sent too many requests. */
  chatRequest(caller: ChatTokenCaller): void;
  rtcToken(token: string): Promise<RtcTokenCaller>;
  /** Accepts an expired token too, because it may still end its own session. */
  rtcTokenAnyAge(token: string): Promise<RtcTokenCaller>;
  /** Verifies the secret that media nodes share, or the secret of one node. */
  node(secret: string): NodeCaller;
  originPolicy(projectId: string): OriginPolicy;
  /** The role of a user in a project; null for a user that is not a member. */
  roleIn(projectId: string, userId: string): ProjectRole | null;
  isArchived(projectId: string): boolean;
};

/**
 * Plugins that put `caller` and `info` into the context. They are scoped `derive`s, which run before the body is read:
 * a client without a credential gets 401, gets no information about the body, and only its header is parsed.
 */
export function createGuards(deps: Verifiers & { infoOf: (request: Request) => RequestInfo }) {
  const { infoOf } = deps;

  // A plugin that mentions the context's `headers` makes the framework copy all headers on every later route.
  const credentialIn = (request: Request, taken: string, takesKeys = false): string => {
    const credential = bearerOf(request);
    if (credential === null)
      throw new ApiError("SVC_AUTH_ERROR", `Send the header Authorization: Bearer with ${taken}.`);
    if (credential.startsWith("svk_") && !takesKeys)
      throw new ApiError("SVC_AUTH_ERROR", `This route takes ${taken}, not an API key.`);
    return credential;
  };

  const requireAllowedOrigin = (projectId: string, info: RequestInfo) => {
    if (info.foreignOrigin !== null && !originAllowed(info.foreignOrigin, deps.originPolicy(projectId))) {
      throw originRefused(info.foreignOrigin);
    }
  };

  const requireOwnPage = ({ foreignOrigin, publicUrl, ownHost }: RequestInfo) => {
    if (foreignOrigin === null) return;
    if (!ownHost) {
      const hint = `If ${publicUrl} is this server's own address, start it with PUBLIC_URL=${publicUrl}.`;
      throw new ApiError(
        "SVC_ORIGIN_NOT_ALLOWED",
        `The page ${foreignOrigin.slice(0, 256)} is not one of this server's pages. ${hint}`,
      );
    }
    throw new ApiError("SVC_ORIGIN_NOT_ALLOWED", `Only the server's own pages may do this. They are at ${publicUrl}.`);
  };

  /**
   * Until its second factor is presented, a session can only present it; until one is set up, it can only manage its
   * account.
   */
  const requireFactor = ({ missingFactor }: SessionCaller, path: string) => {
    if (missingFactor === null) return;
    const allowed = missingFactor === "verify" ? "/v1/auth/second-factor/" : "/v1/auth/";
    if (path.startsWith(allowed) || path === "/v1/auth/me") return;
    const sentence = "This server requires a second factor. Set up a passkey or one-time codes in your account.";
    throw new ApiError("SVC_SECOND_FACTOR_REQUIRED", missingFactor === "setup" ? sentence : undefined);
  };

  const signedIn = async (request: Request) => {
    const info = infoOf(request);
    const token = credentialIn(request, "the access token of a dashboard session");
    requireOwnPage(info);
    const caller = await deps.session(token);
    requireFactor(caller, new URL(request.url).pathname);
    return { caller, info };
  };

  const rtcTokenGuard = (name: string, verify: Verifiers["rtcToken"]) =>
    new Elysia({ name }).derive(
      { as: "scoped" },
      accepts(["rtcToken"], async ({ request }) => {
        const info = infoOf(request);
        const caller = await verify(credentialIn(request, "an RTC token"));
        requireAllowedOrigin(caller.projectId, info);
        return { caller, info };
      }),
    );

  return {
    open: new Elysia({ name: "guard:open" }).derive({ as: "scoped" }, ({ request }) => ({ info: infoOf(request) })),

    /** Routes of the sign-in pages: no credential is required, but requests must come from this server's own pages. */
    ownPage: new Elysia({ name: "guard:own-page" }).derive(
      { as: "scoped" },
      throwsErrors(["SVC_ORIGIN_NOT_ALLOWED"], ({ request }) => {
        const info = infoOf(request);
        requireOwnPage(info);
        return { info };
      }),
    ),

    apiKey: new Elysia({ name: "guard:api-key" }).derive(
      { as: "scoped" },
      accepts(["apiKey"], ({ request }) => {
        const info = infoOf(request);
        const caller = deps.apiKey(credentialIn(request, "an API key", true));
        requireAllowedOrigin(caller.projectId, info);
        return { caller, info };
      }),
    ),

    /** Chat routes: an API key acts as a backend, a chat token as one user. */
    chat: new Elysia({ name: "guard:chat" }).derive(
      { as: "scoped" },
      throwsErrors(
        ["SVC_RATE_LIMITED"],
        accepts(["apiKey", "chatToken"], async ({ request }) => {
          const info = infoOf(request);
          const credential = credentialIn(request, "an API key or a chat token", true);
          const caller: ApiKeyCaller | ChatTokenCaller = credential.startsWith("svk_")
            ? deps.apiKey(credential)
            : await deps.chatToken(credential);
          requireAllowedOrigin(caller.projectId, info);
          if (caller.kind === "chatToken") deps.chatRequest(caller);
          return { caller, info };
        }),
      ),
    ),

    rtcToken: rtcTokenGuard("guard:rtc-token", deps.rtcToken),
    rtcTokenAnyAge: rtcTokenGuard("guard:rtc-token-any-age", deps.rtcTokenAnyAge),

    node: new Elysia({ name: "guard:node" }).derive(
      { as: "scoped" },
      accepts(["sfuSecret"], ({ request }) => {
        const caller = deps.node(credentialIn(request, "the secret of a media node"));
        return { caller, info: infoOf(request) };
      }),
    ),

    session: new Elysia({ name: "guard:session" }).derive(
      { as: "scoped" },
      accepts(["session"], async ({ request }) => {
        return signedIn(request);
      }),
    ),

    operator: new Elysia({ name: "guard:operator" }).derive(
      { as: "scoped" },
      accepts(["session"], async ({ request }) => {
        const session = await signedIn(request);
        if (!session.caller.isOperator) throw new ApiError("SVC_PERMISSION_DENIED");
        return session;
      }),
    ),

    /** `/v1/projects/:projectId/…`: only members of the project; others get 404. */
    member: new Elysia({ name: "guard:member" }).derive(
      { as: "scoped" },
      throwsErrors(
        ["SVC_PROJECT_NOT_FOUND", "SVC_VALIDATION_FAILED"],
        accepts(["session"], async ({ request, params }) => {
          const session = await signedIn(request);
          const { projectId = "" } = params as { projectId?: string };
          const role = deps.roleIn(projectId, session.caller.userId);
          if (role === null) throw new ApiError("SVC_PROJECT_NOT_FOUND");
          const archived = deps.isArchived(projectId);
          return { ...session, role, projectId, archived, environment: environmentOf(request) };
        }),
      ),
    ),
  };
}

/** The kinds of credentials, which are also the names of the security schemes in the reference. */
export type CredentialKind = "apiKey" | "session" | "chatToken" | "rtcToken" | "sfuSecret";

/** Marks a guard with the credentials it accepts, for the reference. */
function accepts<Derive extends object>(credentials: CredentialKind[], derive: Derive): Derive {
  return Object.assign(derive, { credentials });
}

/** Marks a guard with its own errors, besides those of the credentials it accepts. */
function throwsErrors<Derive extends object>(errors: ErrorCode[], derive: Derive): Derive {
  return Object.assign(derive, { errors });
}

type Marked = { transform?: unknown };
type Hook = ((context: object) => unknown) & {
  credentials?: CredentialKind[];
  errors?: ErrorCode[];
  permission?: Permission;
};
type Marks = { fn: Hook }[];

/** The credentials that a route's guard accepts; none for an open route. */
export function credentialsOf(hooks: Marked): CredentialKind[] {
  return ((hooks.transform ?? []) as Marks).flatMap(({ fn }) => fn.credentials ?? []);
}

type Renewed = { role?: ProjectRole; archived?: boolean };
export type Renew = (request: Request, params: unknown) => Promise<Renewed>;

/**
 * Repeats the guard and the permission check of a route; null for an open route. Returns the role that a member has
 * now.
 */
export function renewalOf(hooks: Marked): Renew | null {
  const all = ((hooks.transform ?? []) as Marks).map(({ fn }) => fn);
  const guards = all.filter((fn) => fn.credentials !== undefined);
  const permits = all.filter((fn) => fn.permission !== undefined);
  if (guards.length === 0) return null;
  return async (request, params) => {
    const renewed: Renewed = {};
    for (const guard of guards) Object.assign(renewed, await guard({ request, params }));
    for (const permitted of permits) permitted(renewed);
    return renewed;
  };
}

export function guardErrorsOf(hooks: Marked): ErrorCode[] {
  return ((hooks.transform ?? []) as Marks).flatMap(({ fn }) => fn.errors ?? []);
}

export type Guards = ReturnType<typeof createGuards>;

// A plugin that mentions the context's `query` makes the framework parse the URL of every request on all routes.
function environmentOf(request: Request): Environment {
  const environment = new URL(request.url).searchParams.get("environment");
  if (environment === null) return "DEVELOPMENT";
  if (!(ENVIRONMENTS as readonly string[]).includes(environment)) {
    throw invalid("environment", `must be one of ${ENVIRONMENTS.join(", ")}`);
  }
  return environment as Environment;
}

/**
 * The permission is checked in a route's `transform`, so that the check runs before validation and, listed first,
 * before the rate limit.
 */
export function permit(permission: Permission): (context: { role: ProjectRole; archived: boolean }) => void {
  const changes = !permission.endsWith(":read") && permission !== "project:archive";
  const check = ({ role, archived }: { role: ProjectRole; archived: boolean }): void => {
    if (!PERMISSIONS[role].includes(permission)) throw new ApiError("SVC_PERMISSION_DENIED");
    if (archived && changes) throw new ApiError("SVC_CONFLICT", "The project is archived.");
  };
  return Object.assign(check, { permission });
}
