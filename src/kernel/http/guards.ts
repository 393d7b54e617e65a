import { Elysia } from "elysia";
import { ENVIRONMENTS, type Environment, type ProjectRole } from "../../protocol/enums.ts";
import { ApiError, type ErrorCode, invalid } from "../../protocol/errors.ts";
import { PERMISSIONS, type Permission } from "../../protocol/permissions.ts";
import type { ApiKeyCaller, ChatTokenCaller, NodeCaller, RtcTokenCaller, SessionCaller } from "./callers.ts";
import { type OriginPolicy, originAllowed, originRefused } from "./origins.ts";
import type { RequestInfo } from "./request-info.ts";

/** How features answer "whose credential is this?". Each throws the 401 that fits. */
export type Verifiers = {
  apiKey(key: string): ApiKeyCaller;
  session(token: string): Promise<SessionCaller>;
  chatToken(token: string): Promise<ChatTokenCaller>;
  /** Throws when this user has asked too often: SVC_RATE_LIMITED. */
  chatRequest(caller: ChatTokenCaller): void;
  rtcToken(token: string): Promise<RtcTokenCaller>;
  /** Also one that is over, to end what it began. */
  rtcTokenAnyAge(token: string): Promise<RtcTokenCaller>;
  /** The secret that media nodes share, or one of a single node. */
  node(secret: string): NodeCaller;
  originPolicy(projectId: string): OriginPolicy;
  /** Role of a user in a project; null for a stranger, to whom the project does not exist. */
  roleIn(projectId: string, userId: string): ProjectRole | null;
  isArchived(projectId: string): boolean;
};

export type GuardDeps = Verifiers & { infoOf: (request: Request) => RequestInfo };

const BEARER = /^Bearer [\x21-\x7e]+$/i;

/**
 * Plugins that put `caller` and `info` into the context. They are scoped `derive`s, which run before the body is read:
 * whoever holds no credential gets 401, learns nothing about the body, and costs no more than a header.
 */
export function createGuards(deps: GuardDeps) {
  const { infoOf } = deps;

  // Not from the context's `headers`: a single plugin that names them has all headers copied on every later route.
  const bearer = (request: Request): string => {
    const header = request.headers.get("authorization");
    if (header === null || !BEARER.test(header)) throw new ApiError("SVC_AUTH_ERROR");
    return header.slice("Bearer ".length);
  };

  const judgeOrigin = (projectId: string, info: RequestInfo) => {
    if (info.foreignOrigin !== null && !originAllowed(info.foreignOrigin, deps.originPolicy(projectId))) {
      throw originRefused(info.foreignOrigin);
    }
  };

  const requireOwnPage = ({ foreignOrigin, publicUrl, ownHost }: RequestInfo) => {
    if (foreignOrigin === null) return;
    if (!ownHost) {
      const cure = `If ${publicUrl} is this server's own address, start it with PUBLIC_URL=${publicUrl}.`;
      throw new ApiError("SVC_ORIGIN_NOT_ALLOWED", `The page ${foreignOrigin.slice(0, 256)} is a stranger's. ${cure}`);
    }
    throw new ApiError("SVC_ORIGIN_NOT_ALLOWED", `Only the server's own pages may do this. They are at ${publicUrl}.`);
  };

  const signedIn = async (request: Request) => {
    const info = infoOf(request);
    const token = bearer(request);
    requireOwnPage(info);
    return { caller: await deps.session(token), info };
  };

  return {
    /** Routes that take no credential. */
    open: new Elysia({ name: "guard:open" }).derive({ as: "scoped" }, ({ request }) => ({ info: infoOf(request) })),

    /** Routes of the sign-in pages: no credential yet, but only from our own pages. Their limiter precedes the body. */
    ownPage: new Elysia({ name: "guard:own-page" }).derive(
      { as: "scoped" },
      answers(["SVC_ORIGIN_NOT_ALLOWED"], ({ request }) => {
        const info = infoOf(request);
        requireOwnPage(info);
        return { info };
      }),
    ),

    apiKey: new Elysia({ name: "guard:api-key" }).derive(
      { as: "scoped" },
      takes(["apiKey"], ({ request }) => {
        const info = infoOf(request);
        const caller = deps.apiKey(bearer(request));
        judgeOrigin(caller.projectId, info);
        return { caller, info };
      }),
    ),

    /** Chat routes: an API key acts as a server, a chat token as one user. */
    chat: new Elysia({ name: "guard:chat" }).derive(
      { as: "scoped" },
      answers(
        ["SVC_RATE_LIMITED"],
        takes(["apiKey", "chatToken"], async ({ request }) => {
          const info = infoOf(request);
          const credential = bearer(request);
          const caller: ApiKeyCaller | ChatTokenCaller = credential.startsWith("svk_")
            ? deps.apiKey(credential)
            : await deps.chatToken(credential);
          judgeOrigin(caller.projectId, info);
          if (caller.kind === "chatToken") deps.chatRequest(caller);
          return { caller, info };
        }),
      ),
    ),

    rtcToken: new Elysia({ name: "guard:rtc-token" }).derive(
      { as: "scoped" },
      takes(["rtcToken"], async ({ request }) => {
        const info = infoOf(request);
        const caller = await deps.rtcToken(bearer(request));
        judgeOrigin(caller.projectId, info);
        return { caller, info };
      }),
    ),

    rtcTokenAnyAge: new Elysia({ name: "guard:rtc-token-any-age" }).derive(
      { as: "scoped" },
      takes(["rtcToken"], async ({ request }) => {
        const info = infoOf(request);
        const caller = await deps.rtcTokenAnyAge(bearer(request));
        judgeOrigin(caller.projectId, info);
        return { caller, info };
      }),
    ),

    node: new Elysia({ name: "guard:node" }).derive(
      { as: "scoped" },
      takes(["sfuSecret"], ({ request }) => {
        const caller = deps.node(bearer(request));
        return { caller, info: infoOf(request) };
      }),
    ),

    session: new Elysia({ name: "guard:session" }).derive(
      { as: "scoped" },
      takes(["session"], async ({ request }) => {
        return signedIn(request);
      }),
    ),

    operator: new Elysia({ name: "guard:operator" }).derive(
      { as: "scoped" },
      takes(["session"], async ({ request }) => {
        const asking = await signedIn(request);
        if (!asking.caller.isOperator) throw new ApiError("SVC_PERMISSION_DENIED");
        return asking;
      }),
    ),

    /** `/v1/projects/:projectId/…`: a member of that project; anyone else finds nothing there. */
    member: new Elysia({ name: "guard:member" }).derive(
      { as: "scoped" },
      answers(
        ["SVC_PROJECT_NOT_FOUND", "SVC_VALIDATION_FAILED"],
        takes(["session"], async ({ request, params }) => {
          const asking = await signedIn(request);
          const { projectId = "" } = params as { projectId?: string };
          const role = deps.roleIn(projectId, asking.caller.userId);
          if (role === null) throw new ApiError("SVC_PROJECT_NOT_FOUND");
          const archived = deps.isArchived(projectId);
          return { ...asking, role, projectId, archived, environment: environmentOf(request) };
        }),
      ),
    ),
  };
}

/** The kinds of credential; the reference names its security schemes by them. */
export type CredentialKind = "apiKey" | "session" | "chatToken" | "rtcToken" | "sfuSecret";

/** Marks a guard with what it takes, so that the reference can say it of every route behind the guard. */
function takes<Derive extends object>(credentials: CredentialKind[], derive: Derive): Derive {
  return Object.assign(derive, { credentials });
}

/** Marks a guard with the errors that are its own, besides those of the credentials it takes. */
export function answers<Derive extends object>(errors: ErrorCode[], derive: Derive): Derive {
  return Object.assign(derive, { errors });
}

type Marked = { transform?: unknown };
type Marks = { fn: { credentials?: CredentialKind[]; errors?: ErrorCode[] } }[];

/** What a route's guard takes: one of these, or nothing for an open route. */
export function credentialsOf(hooks: Marked): CredentialKind[] {
  return ((hooks.transform ?? []) as Marks).flatMap(({ fn }) => fn.credentials ?? []);
}

export function guardErrorsOf(hooks: Marked): ErrorCode[] {
  return ((hooks.transform ?? []) as Marks).flatMap(({ fn }) => fn.errors ?? []);
}

export type Guards = ReturnType<typeof createGuards>;

// Not from the context's `query`: a plugin that names it has the address of every request taken apart, on all routes.
function environmentOf(request: Request): Environment {
  const given = new URL(request.url).searchParams.get("environment");
  if (given === null) return "DEVELOPMENT";
  if (!(ENVIRONMENTS as readonly string[]).includes(given)) {
    throw invalid("environment", `must be one of ${ENVIRONMENTS.join(", ")}`);
  }
  return given as Environment;
}

/** A route's `transform`, so that it runs before validation and, listed first, before the limiter. */
export function permit(permission: Permission): (context: { role: ProjectRole; archived: boolean }) => void {
  const changes = !permission.endsWith(":read") && permission !== "project:archive";
  return ({ role, archived }) => {
    if (!PERMISSIONS[role].includes(permission)) throw new ApiError("SVC_PERMISSION_DENIED");
    if (archived && changes) throw new ApiError("SVC_CONFLICT", "The project is archived.");
  };
}
