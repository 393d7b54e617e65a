import { Elysia } from "elysia";
import type { Http } from "../../../kernel/http/http.ts";
import { type OriginPolicy, originAllowed } from "../../../kernel/http/origins.ts";
import { documented } from "../../../kernel/http/reference/docs.ts";
import type { RequestInfo } from "../../../kernel/http/request-info.ts";
import { frameErrorOf } from "../../../kernel/socket/frame-error.ts";
import { socketCredential } from "../../../kernel/socket/sockets.ts";
import { CHAT_CLOSE_CODES } from "../../../protocol/close-codes.ts";
import { ApiError } from "../../../protocol/errors.ts";
import type { ChatService } from "../chat.ts";
import type { Authentication } from "./chat-sockets.ts";

type ChatSocketDeps = { chat: ChatService; originPolicy: (projectId: string) => OriginPolicy };

export const chatSocketRoutes = ({ infoOf, sockets }: Http, { chat, originPolicy }: ChatSocketDeps) => {
  async function admit(token: string | null, info: RequestInfo): Promise<Authentication> {
    try {
      chat.budgets.connect(info.ip);
    } catch (failure) {
      // The frame says when to retry; without it, rejected clients would reconnect at any time.
      const error = frameErrorOf(failure) ?? undefined;
      return { refused: CHAT_CLOSE_CODES.tooManyConnections, reason: "too many connections", error };
    }
    try {
      const caller = await chat.tokens.verify(token ?? "");
      if (originAllowed(info.foreignOrigin, originPolicy(caller.projectId))) return { caller };
      return { refused: CHAT_CLOSE_CODES.forbidden, reason: "origin not allowed" };
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      return error.code === "SVC_TOKEN_EXPIRED"
        ? { refused: CHAT_CLOSE_CODES.tokenExpired, reason: "token expired" }
        : { refused: CHAT_CLOSE_CODES.unauthorized, reason: "bad token" };
    }
  }

  return new Elysia({ tags: ["chat"] }).get(
    "/v1/chat/ws",
    async ({ request, server }) => {
      const info = infoOf(request);
      if (request.headers.get("upgrade")?.toLowerCase() !== "websocket") throw notASocket();
      const { token, headers } = socketCredential(request);
      const authentication = await admit(token, info);
      const accepted = sockets.accept(server, request, headers, (socket) =>
        chat.sockets.opened(socket, authentication, info),
      );
      if (!accepted) throw notASocket();
    },
    documented(
      "The chat socket",
      ["SVC_VALIDATION_FAILED"],
      "A WebSocket; its frames are described in the protocol. A refused client is accepted first and then closed with a code.",
    ),
  );
};

function notASocket(): ApiError {
  return new ApiError("SVC_VALIDATION_FAILED", "Connect to this address with a WebSocket.");
}
