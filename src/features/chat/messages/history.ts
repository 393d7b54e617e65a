import { decodeCursor } from "../../../kernel/http/cursor.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import type { MessagePage } from "../../../protocol/chat-records.ts";
import { ApiError, invalid } from "../../../protocol/errors.ts";
import type { ConversationRow } from "../conversations/conversation.table.ts";
import { emptyAsNull } from "../input.ts";
import { MESSAGE_CURSOR } from "../present.ts";
import type { ChatStores } from "../stores.ts";
import type { MessageService } from "./message.service.ts";

type HistoryRequest = {
  limit?: number;
  before?: string;
  after?: string;
  threadRootId?: string;
  senderId?: string;
  includeDeleted?: boolean;
};

/**
 * A page of messages, newest first in both directions. `nextCursor` continues in the same direction; `previousCursor`
 * always leads to newer messages, so that a client can later fetch messages that were sent since.
 */
export function historyPage(
  { store, present }: MessageService,
  conversation: ConversationRow,
  request: HistoryRequest,
  maxLimit: number,
): MessagePage {
  const { limit = maxLimit, includeDeleted = false } = request;
  if (limit > maxLimit) throw invalid("limit", `must be a whole number from 1 to ${maxLimit}`);
  const before = emptyAsNull(request.before);
  const after = emptyAsNull(request.after);
  if (before !== null && after !== null) throw invalid("after", "cannot be combined with before");

  const cursor = before ?? after;
  const direction = after === null ? "older" : "newer";
  const rows = store.history({
    conversationId: conversation.id,
    from: cursor === null ? null : messageSeqOf(cursor),
    direction,
    senderId: emptyAsNull(request.senderId) ?? undefined,
    threadRootId: emptyAsNull(request.threadRootId) ?? undefined,
    includeDeleted,
    limit: limit + 1,
  });
  const hasMore = rows.length > limit;
  const data = rows.slice(0, limit).map((row) => present(conversation, row));
  if (direction === "newer") data.reverse();

  const newest = data[0]?.cursor ?? null;
  const oldest = data.at(-1)?.cursor ?? null;
  return {
    data,
    nextCursor: hasMore ? (direction === "older" ? oldest : newest) : null,
    previousCursor: newest ?? cursor,
    hasMore,
  };
}

function messageSeqOf(cursor: string): number {
  const [seq] = decodeCursor<[number]>(MESSAGE_CURSOR, cursor, [0]);
  if (!Number.isSafeInteger(seq)) throw new ApiError("SVC_INVALID_CURSOR");
  return seq;
}

/** A chat message in the timeline of a call. */
type RoomMessage = { seq: number; messageId: string; senderId: string | null; text: string | null; at: number };

type MessageRange = { afterSeq: number; limit: number; characters: number };

/** The limits for the messages of a call in one response; further messages are in the conversation. */
const WHOLE_CALL: MessageRange = { afterSeq: 0, limit: 10_000, characters: 1024 * 1024 };
const ROWS_PER_QUERY = 200;

/** The messages of a room's conversation in a span of time, without messages of type event, in order. */
export function createRoomMessages({ conversations, messages }: ChatStores) {
  return (tenant: Tenant, roomId: string, from: number, to: number, range = WHOLE_CALL): RoomMessage[] => {
    const conversation = conversations.resolve(tenant, roomId);
    if (!conversation) return [];
    const found: RoomMessage[] = [];
    let { afterSeq } = range;
    for (let characters = 0; found.length < range.limit; ) {
      const limit = Math.min(ROWS_PER_QUERY, range.limit - found.length);
      const rows = messages.sentBetween(conversation, from, to, { afterSeq, limit });
      for (const { seq, publicId: messageId, senderId, text, createdAt: at } of rows) {
        found.push({ seq, messageId, senderId, text, at });
        afterSeq = seq;
        characters += text?.length ?? 0;
        if (characters >= range.characters) return found;
      }
      if (rows.length < limit) break;
    }
    return found;
  };
}
