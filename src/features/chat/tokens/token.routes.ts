import { Elysia } from "elysia";
import { authorOfKey } from "../../../kernel/http/callers.ts";
import type { Http } from "../../../kernel/http/http.ts";
import { documented } from "../../../kernel/http/reference/docs.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { ChatToken } from "../../../protocol/chat-records.ts";
import { requireServer } from "../access.ts";
import { MintChatToken } from "../chat.schema.ts";
import type { ChatService } from "../chat.ts";

export const chatTokenRoutes = ({ guards, idempotency }: Http, { write }: Runtime, { tokens }: ChatService) =>
  new Elysia({ prefix: "/v1/chat/tokens", tags: ["chat"] })
    .use(guards.chat)
    .post(
      "",
      (context) => {
        const caller = requireServer(context.caller, "manages chat tokens");
        return idempotency.mint(context, async () => {
          const grant = await write((unit) => tokens.mint(unit, caller, context.body));
          return tokens.sign(grant, context.info.publicUrl);
        });
      },
      {
        ...documented("Mint a chat token for one user", [
          "SVC_PERMISSION_DENIED",
          "SVC_CONVERSATION_NOT_FOUND",
          "SVC_IDEMPOTENCY_KEY_REUSED",
          "SVC_IDEMPOTENCY_IN_PROGRESS",
        ]),
        body: MintChatToken,
        response: { 201: ChatToken },
      },
    )
    .delete(
      "/:tokenId",
      async ({ caller, params, info, set }) => {
        const server = requireServer(caller, "manages chat tokens");
        const author = authorOfKey({ caller: server, info });
        await write((unit) => tokens.revoke(unit, server, params.tokenId, author));
        set.status = 204;
      },
      documented("Revoke a chat token; its sockets and push subscriptions end", [
        "SVC_PERMISSION_DENIED",
        "SVC_CHAT_TOKEN_NOT_FOUND",
      ]),
    );
