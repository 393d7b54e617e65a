import type { Elysia } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import type { OriginPolicy } from "../../kernel/http/origins.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { attachmentRoutes } from "./attachments/attachment.routes.ts";
import type { Attachments } from "./attachments/attachments.ts";
import { storageRoutes } from "./attachments/storage.routes.ts";
import { ringRoutes } from "./calls/ring.routes.ts";
import type { ChatService } from "./chat.ts";
import { activityRoutes } from "./conversations/activity.routes.ts";
import { conversationRoutes } from "./conversations/conversation.routes.ts";
import { chatDashboardRoutes } from "./dashboard.routes.ts";
import { messageRoutes } from "./messages/message.routes.ts";
import { reactionRoutes } from "./messages/reaction.routes.ts";
import { moderationDashboardRoutes, moderationRoutes } from "./moderation/moderation.routes.ts";
import { searchRoutes } from "./search/search.routes.ts";
import type { SearchService } from "./search/search.service.ts";
import { chatSocketRoutes } from "./socket/socket.routes.ts";
import { chatTokenRoutes } from "./tokens/token.routes.ts";

type Services = {
  chat: ChatService;
  attachments: Attachments;
  search: SearchService;
  projects: { originPolicy: (projectId: string) => OriginPolicy };
};

/** All routes of chat, in the order of the reference. */
export const chatRoutes =
  (http: Http, runtime: Runtime, { chat, attachments, search, projects }: Services) =>
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
      .use(chatSocketRoutes(http, { chat, originPolicy: projects.originPolicy }))
      .use(attachmentRoutes(http, { chat, attachments }))
      .use(storageRoutes(http, runtime, attachments))
      .use(searchRoutes(http, { chat, search }));
