import type { Elysia } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { attachmentRoutes } from "./attachments/attachment.routes.ts";
import type { Attachments } from "./attachments/attachments.ts";
import { storageRoutes } from "./attachments/storage.routes.ts";
import { chatRoutes } from "./rest/chat.routes.ts";
import { searchRoutes } from "./rest/search.routes.ts";
import type { SearchService } from "./search.service.ts";

type Services = Parameters<typeof chatRoutes>[2] & { attachments: Attachments; search: SearchService };

/** Conversations and everything in them. */
export const chatApiRoutes = (http: Http, runtime: Runtime, services: Services) => (app: Elysia) =>
  app
    .use(chatRoutes(http, runtime, services))
    .use(attachmentRoutes(http, services))
    .use(storageRoutes(http, runtime, services))
    .use(searchRoutes(http, services));
