import { Elysia } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { livekitAgentRoutes } from "./agents/agent.routes.ts";
import { livekitRtcRoutes } from "./door/rtc.routes.ts";
import type { LivekitClients } from "./livekit-clients.ts";
import { twirpRoutes } from "./server-api/twirp.routes.ts";

/** At the addresses that LiveKit's SDKs know; none of them exists while LIVEKIT_CLIENTS is off. */
export const livekitRoutes = (http: Http, { log }: Runtime, { livekitClients }: { livekitClients: LivekitClients }) => {
  const { isOpen, door, agents, services, mayTry } = livekitClients;
  const routes = new Elysia();
  if (!isOpen) return routes;
  return routes
    .use(livekitRtcRoutes(http, { door, log, mayTry }))
    .use(livekitAgentRoutes(http, { door, agents, log, mayTry }))
    .use(twirpRoutes(http, { readToken: door.readToken, services, log }));
};
