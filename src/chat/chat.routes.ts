import { Elysia } from "elysia";
import type { Http } from "../kernel/http/http.ts";
import type { Runtime } from "../runtime.ts";
import type { ChatService } from "./chat.service.ts";
import { conversationRoutes } from "./conversation.routes.ts";
import { messageRoutes } from "./message.routes.ts";
import { chatTokenRoutes } from "./token.routes.ts";

/** All routes of chat, in the order of the spec. */
export const chatRoutes = (http: Http, runtime: Runtime, { chat }: { chat: ChatService }) =>
  new Elysia()
    .use(conversationRoutes(http, runtime, chat))
    .use(messageRoutes(http, runtime, chat))
    .use(chatTokenRoutes(http, runtime, chat));
