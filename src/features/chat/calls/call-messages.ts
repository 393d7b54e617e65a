import { iso } from "../../../kernel/clock.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import type { WebhookEvent } from "../../webhooks/events.ts";
import type { ConversationStore } from "../conversations/conversation.store.ts";
import type { ConversationRow } from "../conversations/conversation.table.ts";
import type { MemberStore } from "../conversations/member.store.ts";
import type { MessageStore } from "../messages/message.store.ts";
import type { MessageRow } from "../messages/message.table.ts";
import type { Posting } from "../messages/posting.ts";
import { type CallNote, callText, metadataOf, NAMES_KEPT, noteOf } from "./call-message.ts";
import type { RingService } from "./ring.service.ts";

type CallFact = Extract<WebhookEvent, { type: "call.started" | "call.participant_joined" | "call.ended" }>;

type CallMessagesDeps = {
  conversations: ConversationStore;
  members: MemberStore;
  messages: MessageStore;
  posting: Posting;
  rings: RingService;
  /** The room of a live stream, where an audience of thousands comes and goes: nobody misses a call there. */
  isStage: (roomId: string) => boolean;
};

/**
 * A conversation that is attached to a room tells of its calls: one message for each, changed as people join and when it
 * ends. It is written in the transaction of the call's own record, so that neither is ever there without the other.
 */
export function keepCallMessages({ bus, ids }: Runtime, deps: CallMessagesDeps): void {
  const { conversations, members, messages, posting, rings, isStage } = deps;

  bus.inTransaction("webhook", ["call.started", "call.participant_joined", "call.ended"], heard);

  function heard(unit: Unit, fact: CallFact): void {
    const { roomId, callId } = fact.data;
    const conversation = conversations.resolve(fact, roomId);
    // Rings are of a conversation that is attached to the room: without one there is nothing to tell, and none to end.
    if (!conversation) return;
    if (fact.type === "call.participant_joined") rings.joined(unit, roomId, fact.data.identity);
    // Archived: nothing is written to it any more, the end of a call included.
    if (conversation.status === "ACTIVE" && !isStage(roomId)) note(unit, conversation, callId, fact);
    if (fact.type === "call.ended") rings.callEnded(unit, roomId);
  }

  function note(unit: Unit, conversation: ConversationRow, callId: string, fact: CallFact): void {
    const known = messages.findByClientId(conversation.id, null, callId);
    // Deleted by a moderator, or aged away: it does not come back.
    if (known && known.deletedAt !== null) return;
    const before = (known && noteOf(known.metadata)) ?? begun(callId, fact);
    const after = next(before, conversation, fact);
    if (!known && fact.type !== "call.ended") post(unit, conversation, fact.at, callId, after);
    else if (known) change(unit, conversation, known, fact.at, after);
  }

  function next(before: CallNote, conversation: ConversationRow, fact: CallFact): CallNote {
    switch (fact.type) {
      case "call.started":
        return { ...before, callerId: rings.callerIn(fact.data.roomId) };
      case "call.participant_joined": {
        const { identity } = fact.data;
        if (before.participants.includes(identity)) return before;
        const participants = [...before.participants, identity].slice(0, NAMES_KEPT);
        return { ...before, participants, participantCount: before.participantCount + 1 };
      }
      case "call.ended": {
        const { endedAt, durationMs, participantCount } = fact.data;
        const missed = missedBy(conversation, before.participants, participantCount);
        return { ...before, status: "ENDED", endedAt, durationMs, participantCount, missed };
      }
    }
  }

  /** Null where there are more than a message can name. */
  function missedBy({ id, memberCount }: ConversationRow, participants: string[], count: number): string[] | null {
    if (memberCount > NAMES_KEPT || count > NAMES_KEPT) return null;
    const present = new Set(participants);
    return members
      .list(id, "ACTIVE", null, NAMES_KEPT)
      .map(({ userId }) => userId)
      .filter((userId) => !present.has(userId));
  }

  function post(unit: Unit, conversation: ConversationRow, at: number, key: string, call: CallNote): void {
    posting.post(unit, conversation, at, {
      ...{ publicId: ids.publicId("message"), senderId: null, type: "event", text: callText(call) },
      ...{ replyTo: null, threadRootId: null, clientMessageId: key, attachment: null },
      ...{ metadata: metadataOf(call), mentions: null },
    });
  }

  function change(unit: Unit, conversation: ConversationRow, row: MessageRow, at: number, call: CallNote): void {
    const changed = { ...row, text: callText(call), metadata: metadataOf(call), updatedAt: at };
    if (changed.metadata !== row.metadata) posting.change(unit, conversation, changed, at);
  }

  function begun(callId: string, fact: CallFact): CallNote {
    const startedAt = "startedAt" in fact.data ? fact.data.startedAt : iso(fact.at);
    return {
      ...{ callId, ringId: null, roomId: fact.data.roomId, status: "LIVE", callerId: null, startedAt, endedAt: null },
      ...{ durationMs: null, participants: [], participantCount: 0, missed: [] },
    };
  }

  // Nobody came, and there was no call that could tell of it.
  rings.onMissed((unit, ring) => {
    const conversation = conversations.find(ring.conversationId);
    if (conversation?.status !== "ACTIVE") return;
    const at = ring.endedAt ?? ring.startedAt;
    post(unit, conversation, at, ring.publicId, {
      ...{ callId: null, ringId: ring.publicId, roomId: ring.roomId, status: "MISSED", callerId: ring.callerUserId },
      ...{ startedAt: iso(ring.startedAt), endedAt: iso(at), durationMs: null, participants: [], participantCount: 0 },
      missed: ring.missed,
    });
  });
}
