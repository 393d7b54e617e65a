import { MAX_REPLAYED_EVENTS } from "../../../protocol/chat.ts";
import type { ChatEvent } from "../../../protocol/chat-events.ts";
import type { EventLog } from "../event-log.ts";
import type { ConversationRow } from "../store/conversation.table.ts";

type Recovery = { recovered: boolean; events: ChatEvent[] };

/** A replay must not itself make its reader a slow one. */
const MAX_REPLAYED_CHARACTERS = 512 * 1024;

const NOTHING_MISSED: Recovery = { recovered: true, events: [] };
const TOO_MUCH_MISSED: Recovery = { recovered: false, events: [] };

/** What a client that has seen events up to `since` has missed; or that it has to read the history again. */
export function recover(
  log: EventLog,
  conversation: ConversationRow,
  since: number | undefined,
  sameEpoch: boolean,
): Recovery {
  const { lastSeq, logStartSeq } = conversation;
  if (since === undefined) return NOTHING_MISSED;
  const replayable = sameEpoch && since <= lastSeq && since >= logStartSeq && lastSeq - since <= MAX_REPLAYED_EVENTS;
  if (!replayable) return TOO_MUCH_MISSED;
  if (since === lastSeq) return NOTHING_MISSED;
  const events = log.replay(conversation, since, MAX_REPLAYED_EVENTS);
  const fitting = JSON.stringify(events).length <= MAX_REPLAYED_CHARACTERS;
  return fitting ? { recovered: true, events } : TOO_MUCH_MISSED;
}
