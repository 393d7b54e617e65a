import type { TSchema } from "@sinclair/typebox";
import type { AnyElysia } from "elysia";
import { BunAdapter } from "elysia/adapter/bun";
import { invalid } from "../../protocol/errors.ts";
import { type ReadBody, readBodies, UPLOAD_PATH } from "./body.ts";
import { credentialsOf } from "./guards.ts";

type Hooks = { parse?: { fn: unknown }[]; body?: unknown; query?: TSchema; transform?: { fn: unknown }[] };
type Route = { method: string; path: string; hooks: Hooks };

const { composeHandler } = BunAdapter;

/**
 * The framework's reading of bodies, without the reading: told of no parser it opens the stream of a body, which copies
 * all of it, before any hook; told that there is no body it validates none.
 */
export const UNREAD_BODIES = {
  ...BunAdapter,
  composeHandler: { ...composeHandler, parser: { ...composeHandler.parser, json: () => "" } },
} satisfies typeof BunAdapter;

/**
 * Puts what looks at the content of a request behind the guard and the limiter of its route. The framework would read
 * and parse a body first: a stranger without a credential then costs as much as the largest body takes to parse.
 */
export function deferBodyParsing(app: AnyElysia, read: ReadBody): void {
  for (const { method, path, hooks } of app.router.history as unknown as Route[]) {
    hooks.parse = method === "GET" ? undefined : [{ fn: "json" }];
    const last: { fn: unknown }[] = [];
    const names = Object.keys(hooks.query?.properties ?? {});
    if (names.length > 0) last.push({ fn: refuseRepeated(names) });
    if (readsBody(method, path, hooks)) last.push({ fn: readBodies(read) });
    if (last.length > 0) hooks.transform = [...(hooks.transform ?? []), ...last];
  }
}

/** Nobody asked for the body of an open route without a schema, and nothing stands before it that would count it. */
function readsBody(method: string, path: string, hooks: Hooks): boolean {
  if (!["POST", "PUT", "PATCH", "DELETE"].includes(method) || path.startsWith(UPLOAD_PATH)) return false;
  return hooks.body !== undefined || credentialsOf(hooks).length > 0;
}

/** Of a name given twice the framework takes one; which of them was meant, nobody knows. */
const refuseRepeated = (names: readonly string[]) =>
  function refuseRepeatedNames({ request: { url } }: { request: Request }): void {
    const start = url.indexOf("?");
    if (start === -1 || !url.includes("&", start)) return;
    const given = new URLSearchParams(url.slice(start));
    const repeated = names.find((name) => given.getAll(name).length > 1);
    if (repeated !== undefined) throw invalid(repeated, "must be given once");
  };
