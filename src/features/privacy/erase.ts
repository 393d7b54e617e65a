import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Attachments } from "../chat/attachments/attachments.ts";
import type { ChatService } from "../chat/chat.ts";
import type { ConversationRow } from "../chat/store/conversation.table.ts";
import type { Places } from "../recordings/places/places.ts";
import { createContactEraser } from "./erase-contacts.ts";
import type { Holdings } from "./holdings.ts";
import { isNamed, type Person, withoutName } from "./person.ts";
import { CHANGES_AT_ONCE, CONVERSATIONS_AT_ONCE, EVENTS_AT_ONCE, pause, ROWS_AT_ONCE, walk } from "./steps.ts";
import type { Traces } from "./store/traces.ts";

type EraseDeps = { traces: Traces; holdings: Holdings; chat: ChatService; attachments: Attachments; places: Places };

export type Eraser = ReturnType<typeof createEraser>;

/**
 * Deletes what is held about a person, in units so small that nobody's commit waits for long. Everything may be done
 * again: what a crash cut off is found by the next pass.
 */
export function createEraser(runtime: Runtime, { traces, holdings, chat, attachments, places }: EraseDeps) {
  const { now, write } = runtime;
  const { chat: chatTraces, contacts, media, queues, recordings } = traces;

  /** One unit of work for each few of them. */
  async function inUnits<Row>(rows: Row[], change: (unit: Unit, row: Row) => void): Promise<void> {
    for (let at = 0; at < rows.length; at += CHANGES_AT_ONCE) {
      const few = rows.slice(at, at + CHANGES_AT_ONCE);
      await write((unit) => {
        for (const row of few) change(unit, row);
      });
      await pause();
    }
  }

  async function eachPage<Row>(pages: AsyncGenerator<Row[]>, change: (unit: Unit, row: Row) => void): Promise<void> {
    for await (const rows of pages) await inUnits(rows, change);
  }

  const contactEraser = createContactEraser(runtime, { contacts, chat, inUnits });

  async function inConversation(conversation: ConversationRow, userId: string): Promise<void> {
    const { id } = conversation;
    const member = chatTraces.member(id, userId);
    const readState = chatTraces.readState(id, userId);
    if (member || readState) {
      await write((unit) => {
        if (member) chat.members.erase(unit, conversation, member);
        chatTraces.removeReadState(unit, id, userId);
      });
    }
    for (;;) {
      // Erased ones have no sender any more, so the next page is always the first.
      const page = chatTraces.sent(id, userId, 0, CHANGES_AT_ONCE);
      if (page.length === 0) break;
      await inUnits(page, (unit, message) => chat.messages.erase(unit, conversation, message));
    }
    await files(conversation, userId);
    await contactEraser.inConversation(conversation, userId);
    if (chatTraces.hasDeleted(id, userId)) await write((unit) => chatTraces.undoDeleter(unit, id, userId));
  }

  /** What their own messages showed went with them; the rest was never sent, or is shown by others. */
  async function files(conversation: ConversationRow, userId: string): Promise<void> {
    const uploaded = chatTraces.uploaded(conversation.id, userId);
    if (uploaded.length === 0) return;
    if (uploaded.some(({ messageCount }) => messageCount > 0)) {
      for (;;) {
        const shown = chatTraces.showing(conversation.id, userId, CHANGES_AT_ONCE);
        if (shown.length === 0) break;
        await inUnits(shown, (unit, row) => {
          const at = now();
          chatTraces.takeAttachment(unit, row.id, at);
          const message = chat.messages.show(conversation, { ...row, attachment: null, updatedAt: at });
          chat.log.record(unit, conversation, "message.updated", at, row.publicId, { message });
        });
      }
    }
    await inUnits(uploaded, (unit, attachment) => attachments.erase(unit, attachment));
  }

  /** The log keeps every number; where it says who, it no longer does. */
  async function events({ id }: ConversationRow, userId: string): Promise<void> {
    for (let after = 0; ; ) {
      const stretch = chatTraces.events(id, userId, after, EVENTS_AT_ONCE);
      if (!stretch) return;
      await inUnits(stretch.naming, (unit, { seq, detail }) => {
        chatTraces.rewriteEvent(unit, id, seq, JSON.stringify(withoutName(JSON.parse(detail), userId)));
      });
      after = stretch.until;
      await pause();
    }
  }

  async function reactions(person: Person): Promise<void> {
    const pages = walk(queues, "message_reactions", (after, until) => chatTraces.reactions(person, after, until));
    await eachPage(pages, (unit, { conversationId, messageId, emoji }) => {
      const conversation = chat.conversations.find(conversationId);
      const message = chat.messages.store.find(messageId);
      if (conversation && message) chat.reactions.erase(unit, conversation, message, person.userId, emoji);
    });
  }

  async function calls(person: Person): Promise<void> {
    for (let after = { startedAt: -1, id: "" }; ; ) {
      const found = media.calls(person, after, EVENTS_AT_ONCE);
      if (!found) return;
      await inUnits(found.visits, media.removeVisit);
      after = found.until;
      await pause();
    }
  }

  /** Wherever the files lie; with them the film of everybody, which shows them, too. */
  async function recordedTracks(person: Person): Promise<void> {
    for (const track of recordings.tracks(person)) {
      const files = [track, ...recordings.composed(track.recordingId)];
      await places.remove(files, (unit) => recordings.removeTrack(unit, track));
    }
    for (let after = ""; ; ) {
      const page = recordings.recordings(person, after, CONVERSATIONS_AT_ONCE);
      for (const recordingId of page) {
        await inUnits(recordings.events(recordingId, person.userId), (unit, event) => {
          const data = event.data === null ? null : JSON.stringify(withoutName(JSON.parse(event.data), person.userId));
          recordings.rewriteEvent(unit, event, person.userId, data);
        });
        await pause();
      }
      after = page.at(-1) ?? after;
      if (page.length < CONVERSATIONS_AT_ONCE) return;
    }
  }

  async function webhooks(person: Person): Promise<void> {
    const { userId } = person;
    const pages = walk(queues, "webhook_events", (after, until) => queues.events(person, after, until));
    await eachPage(pages, (unit, { id, type, body }) => {
      const event = JSON.parse(body) as { data: { message?: { senderId?: unknown } } };
      const theirWords = type.startsWith("message.") && event.data.message?.senderId === userId;
      if (theirWords) queues.removeEvent(unit, id);
      else if (isNamed(event, userId)) queues.rewriteEvent(unit, id, JSON.stringify(withoutName(event, userId)));
    });
  }

  /** Answers kept for repeated requests. Whose project one belongs to, only what it names can tell. */
  async function keptAnswers(person: Person): Promise<void> {
    for (let after = ""; ; ) {
      const page = queues.answers(after, ROWS_AT_ONCE);
      const theirs = page.filter(({ body }) => {
        const answer = JSON.parse(body) as { id?: unknown; conversationId?: unknown };
        if (!isNamed(answer, person.userId)) return false;
        const owner = queues.ownerOf(String(answer.conversationId ?? answer.id));
        return owner?.projectId === person.projectId && owner.environment === person.environment;
      });
      await inUnits(theirs, (unit, { id }) => queues.removeAnswer(unit, id));
      after = page.at(-1)?.id ?? after;
      if (page.length < ROWS_AT_ONCE) return;
      await pause();
    }
  }

  return {
    /** Nothing they hold opens a door any more, and whoever is inside goes. */
    async closeDoors(person: Person, roomIds: string[], announceRemoval: (unit: Unit, roomId: string) => void) {
      await write((unit) => {
        chat.tokens.revokeUser(unit, person, person.userId);
        chatTraces.forgetTokens(unit, person, now());
        for (const { id } of media.tokens(person)) media.removeToken(unit, id);
        media.forgetPermissions(unit, person);
        for (const roomId of roomIds) announceRemoval(unit, roomId);
      });
    },

    /** Records of connections, which somebody who is still going away adds to. */
    async connections(person: Person): Promise<void> {
      await eachPage(
        walk(queues, "chat_connections", (after, until) => chatTraces.connections(person, after, until)),
        (unit, { id }) => chatTraces.removeConnection(unit, id),
      );
      await eachPage(
        walk(queues, "rtc_connections", (after, until) => media.connections(person, after, until)),
        (unit, { id }) => media.removeConnection(unit, id),
      );
      await calls(person);
      await recordedTracks(person);
      await eachPage(
        walk(queues, "usage_sessions", (after, until) => media.sessions(person, after, until)),
        (unit, { id }) => media.forgetSession(unit, id),
      );
    },

    async content(person: Person): Promise<void> {
      await reactions(person);
      for await (const conversation of holdings.conversations(person)) {
        await inConversation(conversation, person.userId);
        await events(conversation, person.userId);
      }
      await contactEraser.everywhere(person);
      await write((unit) => media.forgetStreams(unit, person));
    },

    /** Last: what is deleted is announced, and waits here to be sent. */
    async queued(person: Person): Promise<void> {
      await webhooks(person);
      await keptAnswers(person);
    },
  };
}
