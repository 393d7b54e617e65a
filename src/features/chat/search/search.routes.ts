import { Elysia, t } from "elysia";
import type { Http } from "../../../kernel/http/http.ts";
import { documented } from "../../../kernel/http/reference/docs.ts";
import { NEWEST_BY_NUMBER, page, pageQuery } from "../../../kernel/http/serving/pages.ts";
import { Message } from "../../../protocol/chat-records.ts";
import type { ChatService } from "../chat.ts";
import type { SearchService } from "./search.service.ts";

export const searchRoutes = (
  { guards }: Http,
  { chat: { access, budgets, messages }, search }: { chat: ChatService; search: SearchService },
) =>
  new Elysia({ tags: ["chat"] }).use(guards.chat).get(
    "/v1/chat/conversations/:room/search",
    async (context) => {
      const { caller, params, query } = context;
      access.conversation(caller, params.room, "chat:read");
      budgets.search(caller);
      await search.catchUp();
      // The caller may have been removed while the index was brought up to date.
      const { conversation } = access.conversation(caller, params.room, "chat:read");
      return page(context, query, {
        name: "search",
        start: NEWEST_BY_NUMBER,
        read: ([beforeSeq], limit) => search.find(conversation.id, query.q, beforeSeq, limit),
        position: ({ seq }) => [seq],
        show: (row) => messages.present(conversation, row),
      });
    },
    {
      ...documented(
        "Messages that hold every word of `q`, newest first",
        ["SVC_CONVERSATION_NOT_FOUND", "SVC_INVALID_CURSOR", "SVC_RATE_LIMITED"],
        "The last word may be the beginning of one. Letters match regardless of case and accents; names of attached files count as text.",
      ),
      query: t.Object({ ...pageQuery, q: t.String({ minLength: 1, maxLength: 256 }) }),
      response: { 200: t.Array(Message) },
    },
  );
