import type { Unit } from "../../../kernel/db/writer.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { iso } from "../../../kernel/time/clock.ts";
import type { WebhookEvent } from "../../webhooks/events.ts";
import type { ConversationRow } from "../conversations/conversation.table.ts";
import type { MessageRow } from "../messages/message.table.ts";
import type { Posting } from "../messages/posting.ts";
import type { ChatStores } from "../stores.ts";
import { type CallNote, callNoteMetadata, callText, MAX_NAMES, parseCallNote } from "./call-note.ts";
import type { RingService } from "./ring.service.ts";

type CallEvent = Extract<WebhookEvent, { type: "call.started" | "call.participant_joined" | "call.ended" }>;

type CallMessagesDeps = {
  stores: ChatStores;
  posting: Posting;
  rings: RingService;
  /** Live streams get no call messages: their viewers come and go in thousands. */
  isLiveStreamRoom: (roomId: string) => boolean;
};

/**
 * Keeps a message for each call in the conversation of its room, updated as participants join and when the call ends.
 * If other messages were sent during the call, its end is a separate message after them. The message is written in the
 * transaction of the call's own record, so that neither exists without the other.
 */
export function keepCallMessages({ bus, ids }: Runtime, deps: CallMessagesDeps): void {
  const { posting, rings, isLiveStreamRoom } = deps;
  const { conversations, members, messages } = deps.stores;

  bus.inTransaction("webhook", ["call.started", "call.participant_joined", "call.ended"], onCallEvent);

  function onCallEvent(unit: Unit, event: CallEvent): void {
    const { roomId, callId } = event.data;
    const conversation = conversations.resolve(event, roomId);
    if (!conversation) return;
    if (event.type === "call.participant_joined") rings.joined(unit, roomId, event.data.identity);
    if (conversation.status === "ACTIVE" && !isLiveStreamRoom(roomId)) updateMessage(unit, conversation, callId, event);
    if (event.type === "call.ended") rings.callEnded(unit, roomId);
  }

  function updateMessage(unit: Unit, conversation: ConversationRow, callId: string, event: CallEvent): void {
    const known = messages.findByClientId(conversation.id, null, callId);
    // A message that a moderator deleted is not restored.
    if (known && known.deletedAt !== null) return;
    const before = (known && parseCallNote(known.metadata)) ?? newNote(callId, event);
    const after = nextNote(before, conversation, event);
    if (!known && event.type !== "call.ended") post(unit, conversation, event.at, callId, after);
    else if (known && after.status === "ENDED" && conversation.lastOrdinal > known.ordinal) {
      // Other messages were sent since the call began: its end is a new message after them, and the first one stays.
      change(unit, conversation, known, event.at, after, known.text);
      post(unit, conversation, event.at, `${callId}-ended`, after);
    } else if (known) change(unit, conversation, known, event.at, after);
  }

  function nextNote(before: CallNote, conversation: ConversationRow, event: CallEvent): CallNote {
    switch (event.type) {
      case "call.started":
        return { ...before, callerId: rings.callerIn(event.data.roomId) };
      case "call.participant_joined": {
        const { identity } = event.data;
        if (before.participants.includes(identity)) return before;
        const participants = [...before.participants, identity].slice(0, MAX_NAMES);
        return { ...before, participants, participantCount: before.participantCount + 1 };
      }
      case "call.ended": {
        const { endedAt, durationMs, participantCount } = event.data;
        const missed = missedBy(conversation, before.participants, participantCount);
        return { ...before, status: "ENDED", endedAt, durationMs, participantCount, missed };
      }
    }
  }

  /** Null when there are too many members to list. */
  function missedBy({ id, memberCount }: ConversationRow, participants: string[], count: number): string[] | null {
    if (memberCount > MAX_NAMES || count > MAX_NAMES) return null;
    const present = new Set(participants);
    return members
      .list(id, "ACTIVE", null, MAX_NAMES)
      .map(({ userId }) => userId)
      .filter((userId) => !present.has(userId));
  }

  const textOf = ({ id }: ConversationRow, call: CallNote) => callText(call, (userId) => members.nameOf(id, userId));

  function post(unit: Unit, conversation: ConversationRow, at: number, key: string, call: CallNote): void {
    posting.post(unit, conversation, at, {
      publicId: ids.publicId("message"),
      senderId: null,
      type: "event",
      text: textOf(conversation, call),
      replyTo: null,
      threadRootId: null,
      clientMessageId: key,
      attachment: null,
      metadata: callNoteMetadata(call),
      mentions: null,
    });
  }

  function change(
    unit: Unit,
    conversation: ConversationRow,
    row: MessageRow,
    at: number,
    call: CallNote,
    text: string | null = textOf(conversation, call),
  ): void {
    const changed = { ...row, text, metadata: callNoteMetadata(call), updatedAt: at };
    if (changed.metadata !== row.metadata) posting.change(unit, conversation, changed, at);
  }

  function newNote(callId: string, event: CallEvent): CallNote {
    const startedAt = "startedAt" in event.data ? event.data.startedAt : iso(event.at);
    return {
      callId,
      ringId: null,
      roomId: event.data.roomId,
      status: "LIVE",
      callerId: null,
      startedAt,
      endedAt: null,
      durationMs: null,
      participants: [],
      participantCount: 0,
      missed: [],
    };
  }

  rings.onMissed((unit, ring) => {
    const conversation = conversations.find(ring.conversationId);
    if (conversation?.status !== "ACTIVE") return;
    const at = ring.endedAt ?? ring.startedAt;
    post(unit, conversation, at, ring.publicId, {
      callId: null,
      ringId: ring.publicId,
      roomId: ring.roomId,
      status: "MISSED",
      callerId: ring.callerUserId,
      startedAt: iso(ring.startedAt),
      endedAt: iso(at),
      durationMs: null,
      participants: [],
      participantCount: 0,
      missed: ring.missed,
    });
  });
}
