import type { Elysia } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { authRoutes } from "./auth.routes.ts";
import { type MeDeps, meRoutes } from "./me.routes.ts";
import { oauthRoutes } from "./oauth/oauth.routes.ts";
import type { OAuthService } from "./oauth/oauth.service.ts";
import { recoveryRoutes } from "./recovery.routes.ts";

/** Signing up, in and out, and one's own account. */
export const accountRoutes =
  (http: Http, runtime: Runtime, services: MeDeps & { oauth: OAuthService }) => (app: Elysia) =>
    app
      .use(authRoutes(http, services))
      .use(recoveryRoutes(http, services.recovery))
      .use(oauthRoutes(http, services.oauth))
      .use(meRoutes(http, runtime, services));
