import { Elysia } from "elysia";
import type { Http } from "../../../kernel/http/http.ts";
import type { SocketServer } from "../../../kernel/socket/sockets.ts";
import { readBearer } from "../door/join-request.ts";
import type { RtcDeps } from "../door/rtc.routes.ts";
import { plainRefusal, socketExpected } from "../door/rtc.routes.ts";
import { TokenRefused } from "../refused.ts";
import type { Agents } from "./agents.ts";

/** Where workers wait for jobs, with a token that has the `agent` grant. */
export const livekitAgentRoutes = (http: Http, { door, agents, log, mayTry }: RtcDeps & { agents: Agents }) =>
  new Elysia().get(
    "/agent",
    async ({ request, server, set }) => {
      try {
        mayTry("connect", http.infoOf(request).ip);
        const bearer = readBearer(request);
        if (bearer === null) throw new TokenRefused("no token was given");
        const token = await door.readToken(bearer);
        if (token.grant.agent !== true) throw new TokenRefused("the token has no agent grant");
        const accepted = http.sockets.accept(server as SocketServer | null, request, {}, (socket) =>
          agents.connect(socket, token.key),
        );
        return accepted ? undefined : socketExpected(set);
      } catch (error) {
        return plainRefusal(error, set, log);
      }
    },
    { detail: { hide: true } },
  );
