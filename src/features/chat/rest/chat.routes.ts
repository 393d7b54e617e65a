import type { Elysia } from "elysia";
import type { Http } from "../../../kernel/http/http.ts";
import type { OriginPolicy } from "../../../kernel/http/origins.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { ringRoutes } from "../calls/ring.routes.ts";
import type { ChatService } from "../chat.ts";
import { moderationDashboardRoutes } from "../moderation/moderation.dashboard-routes.ts";
import { moderationRoutes } from "../moderation/moderation.routes.ts";
import { chatSocketRoutes } from "../socket/socket.routes.ts";
import { activityRoutes } from "./activity.routes.ts";
import { chatDashboardRoutes } from "./chat.dashboard-routes.ts";
import { conversationRoutes } from "./conversation.routes.ts";
import { messageRoutes } from "./message.routes.ts";
import { reactionRoutes } from "./reaction.routes.ts";
import { chatTokenRoutes } from "./token.routes.ts";

type Deps = { chat: ChatService; projects: { originPolicy: (projectId: string) => OriginPolicy } };

/** All routes of chat, in the order of the spec. */
export const chatRoutes =
  (http: Http, runtime: Runtime, { chat, projects }: Deps) =>
  (app: Elysia) =>
    app
      .use(conversationRoutes(http, runtime, chat))
      .use(messageRoutes(http, runtime, chat))
      .use(activityRoutes(http, chat))
      .use(reactionRoutes(http, runtime, chat))
      .use(ringRoutes(http, runtime, chat))
      .use(moderationRoutes(http, runtime, chat))
      .use(chatTokenRoutes(http, runtime, chat))
      .use(chatDashboardRoutes(http, runtime, chat))
      .use(moderationDashboardRoutes(http, runtime, chat))
      .use(chatSocketRoutes(http, { chat, originPolicy: projects.originPolicy }));
