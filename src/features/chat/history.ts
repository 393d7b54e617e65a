import { decodeCursor } from "../../kernel/cursor.ts";
import type { MessagePage } from "../../protocol/chat-records.ts";
import { ApiError, invalid } from "../../protocol/errors.ts";
import { given } from "./limits.ts";
import type { MessageService } from "./message.service.ts";
import { MESSAGE_CURSOR } from "./show.ts";
import type { ConversationRow } from "./store/conversation.table.ts";

export const EVENT_CURSOR = "e";

type HistoryAsked = {
  limit?: number;
  before?: string;
  after?: string;
  threadRootId?: string;
  senderId?: string;
  includeDeleted?: boolean;
};

/**
 * A page of messages, newest first in both directions. `nextCursor` goes on in the direction walked; `previousCursor`
 * always leads to newer messages, so that a client can come back for what was sent since.
 */
export function historyPage(
  { store, show }: MessageService,
  conversation: ConversationRow,
  asked: HistoryAsked,
  maxLimit: number,
): MessagePage {
  const { limit = maxLimit, includeDeleted = false } = asked;
  if (limit > maxLimit) throw invalid("limit", `must be a whole number from 1 to ${maxLimit}`);
  const before = given(asked.before);
  const after = given(asked.after);
  if (before !== null && after !== null) throw invalid("after", "cannot be combined with before");

  const cursor = before ?? after;
  const direction = after === null ? "older" : "newer";
  const rows = store.history({
    conversationId: conversation.id,
    from: cursor === null ? null : seqOf(cursor),
    direction,
    senderId: given(asked.senderId) ?? undefined,
    threadRootId: given(asked.threadRootId) ?? undefined,
    includeDeleted,
    limit: limit + 1,
  });
  const hasMore = rows.length > limit;
  const shown = rows.slice(0, limit).map((row) => show(conversation, row));
  if (direction === "newer") shown.reverse();

  const newest = shown[0]?.cursor ?? null;
  const oldest = shown.at(-1)?.cursor ?? null;
  return {
    data: shown,
    nextCursor: hasMore ? (direction === "older" ? oldest : newest) : null,
    previousCursor: newest ?? cursor,
    hasMore,
  };
}

function seqOf(cursor: string): number {
  const [seq] = decodeCursor(MESSAGE_CURSOR, cursor, ["number"]);
  if (!Number.isSafeInteger(seq)) throw new ApiError("SVC_INVALID_CURSOR");
  return Number(seq);
}

/** Events are asked for by the `seq` that a client saw last, or by the cursor of the page before. */
export function eventSeqOf(after: string | undefined): number {
  const text = given(after);
  if (text === null) return 0;
  if (/^\d{1,15}$/.test(text)) return Number(text);
  const [seq] = decodeCursor(EVENT_CURSOR, text, ["number"]);
  return Number(seq);
}
