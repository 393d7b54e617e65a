import { Elysia, t } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import { Identity, Name } from "../../kernel/http/schema.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { ApiError } from "../../protocol/errors.ts";
import { NetworkProfile, PlaygroundCredentials, PlaygroundMode } from "../../protocol/playground.ts";
import type { PlaygroundService } from "./playground.ts";

/** Any other name could belong to an attacker who made it resolve to this machine (DNS rebinding). */
const LOOPBACK_HOST = /^(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/i;

/** Routes for the playground's page on the machine that runs `stoa dev`; other servers answer 404. */
export const playgroundRoutes = (
  { guards }: Http,
  { write }: Runtime,
  { playground }: { playground: PlaygroundService },
) =>
  new Elysia({ prefix: "/v1/playground", detail: { hide: true } })
    // The hook is not scoped, because a scoped one would apply to every route that the application adds afterwards.
    .derive(({ request }) => {
      playground.requireOpen();
      if (!LOOPBACK_HOST.test(request.headers.get("host") ?? "")) throw new ApiError("SVC_ORIGIN_NOT_ALLOWED");
      return {};
    })
    .use(guards.ownPage)
    .get("", () => ({ available: true }), { response: { 200: t.Object({ available: t.Boolean() }) } })
    .post(
      "/join",
      async ({ body, info }) => playground.sign(await write((unit) => playground.join(unit, body)), info.publicUrl),
      {
        body: t.Object({ room: Name, identity: t.Optional(Identity), mode: PlaygroundMode }),
        response: { 200: PlaygroundCredentials },
      },
    )
    .post(
      "/stream",
      async ({ body }) => {
        const { publicId: streamId, status } = await write((unit) =>
          playground.moveStream(unit, body.streamId, body.action),
        );
        return { streamId, status };
      },
      {
        body: t.Object({ streamId: t.String(), action: t.Union([t.Literal("start"), t.Literal("end")]) }),
        response: { 200: t.Object({ streamId: t.String(), status: t.String() }) },
      },
    )
    .post(
      "/impair",
      async ({ body, set }) => {
        await playground.setNetwork(body.roomId, body.identity, body.profile);
        set.status = 204;
      },
      { body: t.Object({ roomId: t.String(), identity: Identity, profile: NetworkProfile }) },
    );
