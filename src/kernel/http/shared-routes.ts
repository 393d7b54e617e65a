import { type AnyElysia, type DocumentDecoration, Elysia, t } from "elysia";
import type { Environment } from "../../protocol/enums.ts";
import type { ErrorCode } from "../../protocol/errors.ts";
import { PERMISSIONS, type Permission } from "../../protocol/permissions.ts";
import type { Tenant } from "../tenant.ts";
import { authorOf, authorOfKey } from "./callers.ts";
import { permit } from "./guards.ts";
import type { Http } from "./http.ts";
import type { RateLimit } from "./rate-limit.ts";
import { documented } from "./reference/docs.ts";
import { EnvironmentQuery } from "./schema.ts";

/** Where a record is looked up by its id: with an API key in its environment, for a member in both. */
export type RecordScope = { projectId: string; environment?: Environment };

type RouteOptions = { description?: string; rateLimit?: ReturnType<RateLimit> };

/** The callers of a table of routes: backends, or members of the project. */
type Callers = {
  /** The value for the callers of this table. */
  pick<K, M>(forKeys: K, forMembers: M): K | M;
  /** A member names the environment in the query; an API key belongs to one. */
  environmentQuery: typeof EnvironmentQuery;
  /** The query of a route that has no parameters of its own. */
  inEnvironment: { query?: ReturnType<typeof t.Object<typeof EnvironmentQuery>> };
  /** A route's documentation with its errors, and the permission that members need. */
  route(
    permission: Permission,
    summary: string,
    errors?: ErrorCode[],
    options?: RouteOptions,
  ): { detail: DocumentDecoration };
};

const KEYS: Callers = {
  pick: (forKeys) => forKeys,
  environmentQuery: {} as typeof EnvironmentQuery,
  inEnvironment: {},
  route: (_permission, summary, errors, { description, rateLimit } = {}) => ({
    ...documented(summary, errors, description),
    ...(rateLimit && { transform: rateLimit }),
  }),
};

/** The documentation of a route for members of a project only, with their permission. */
export const memberRoute: Callers["route"] = (permission, summary, errors = [], { description, rateLimit } = {}) => {
  const denied: ErrorCode[] = PERMISSIONS.VIEWER.includes(permission) ? [] : ["SVC_PERMISSION_DENIED"];
  return {
    ...documented(summary, ["SVC_PROJECT_NOT_FOUND", ...denied, ...errors], description),
    transform: rateLimit ? [permit(permission), rateLimit] : permit(permission),
  };
};

const MEMBERS: Callers = {
  pick: (_forKeys, forMembers) => forMembers,
  environmentQuery: EnvironmentQuery,
  inEnvironment: { query: t.Object(EnvironmentQuery) },
  route: memberRoute,
};

const forKeys = <const Path extends string>({ guards }: Http, prefix: Path, tag: string) =>
  new Elysia({ prefix, tags: [tag] }).use(guards.apiKey).derive(({ caller, info }) => ({
    tenant: caller as Tenant,
    scope: caller as RecordScope,
    author: authorOfKey({ caller, info }),
    keyId: caller.keyId as string | undefined,
  }));

const forMembers = <const Path extends string>({ guards }: Http, prefix: Path, tag: string) =>
  new Elysia({ prefix, tags: [tag] }).use(guards.member).derive(({ caller, info, projectId, environment }) => ({
    tenant: { projectId, environment },
    scope: { projectId },
    author: authorOf({ caller, info, environment }),
    keyId: undefined,
  })) as unknown as ReturnType<typeof forKeys<Path>>;

/**
 * Declares routes once for two kinds of callers: backends with an API key, below `/v1`, and members of the project with
 * a dashboard session, below `/v1/projects/:projectId`.
 */
export function sharedRoutes<const Path extends string, Routes extends AnyElysia>(
  http: Http,
  { prefix, tag, memberTag = `${tag}: dashboard` }: { prefix: Path; tag: string; memberTag?: string },
  table: (app: ReturnType<typeof forKeys<Path>>, callers: Callers) => Routes,
) {
  return new Elysia()
    .use(new Elysia({ prefix: "/v1/projects/:projectId" }).use(table(forMembers(http, prefix, memberTag), MEMBERS)))
    .use(new Elysia({ prefix: "/v1" }).use(table(forKeys(http, prefix, tag), KEYS)));
}
