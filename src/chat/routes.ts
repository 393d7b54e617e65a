import { Elysia } from "elysia";
import type { Http } from "../kernel/http/http.ts";
import type { Runtime } from "../runtime.ts";
import { attachmentRoutes } from "./attachment.routes.ts";
import type { Attachments } from "./attachments.ts";
import { chatRoutes } from "./chat.routes.ts";
import { searchRoutes } from "./search.routes.ts";
import type { SearchService } from "./search.service.ts";
import { storageRoutes } from "./storage.routes.ts";

type Services = Parameters<typeof chatRoutes>[2] & { attachments: Attachments; search: SearchService };

/** Conversations and everything in them. */
export const chatApiRoutes = (http: Http, runtime: Runtime, services: Services) =>
  new Elysia()
    .use(chatRoutes(http, runtime, services))
    .use(attachmentRoutes(http, services))
    .use(storageRoutes(http, runtime, services))
    .use(searchRoutes(http, services));
