import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { type CallNote, callText, metadataOf, noteOf } from "../chat/calls/call-message.ts";
import type { ChatService } from "../chat/chat.ts";
import { withoutMention } from "../chat/messages/mentions.ts";
import type { ConversationRow } from "../chat/store/conversation.table.ts";
import type { MessageRow } from "../chat/store/message.table.ts";
import { ERASED, type Person } from "./person.ts";
import { EVENTS_AT_ONCE, pause } from "./steps.ts";
import type { ContactTraces } from "./store/contact-traces.store.ts";

type InUnits = <Row>(rows: Row[], change: (unit: Unit, row: Row) => void) => Promise<void>;
type ContactDeps = { contacts: ContactTraces; chat: ChatService; inUnits: InUnits };

/** Takes a person out of what others did: mentions, calls, rings, blocks and reports. */
export function createContactEraser({ now }: Runtime, { contacts, chat, inUnits }: ContactDeps) {
  async function mentions(conversation: ConversationRow, userId: string): Promise<void> {
    for (let from = 0; ; ) {
      const stretch = contacts.mentioning(conversation.id, userId, from, EVENTS_AT_ONCE);
      if (!stretch) {
        if (from > 0) await inUnits([userId], (unit) => contacts.forgetMentions(unit, conversation.id, userId));
        return;
      }
      await inUnits(stretch.found, (unit, row) => {
        const left = (JSON.parse(row.mentions ?? "[]") as string[]).filter((one) => one !== userId);
        const text = row.text === null ? null : withoutMention(row.text, userId, ERASED);
        const mentions = left.length === 0 ? null : JSON.stringify(left);
        chat.posting.change(unit, conversation, { ...row, text, mentions, updatedAt: now() }, now());
      });
      from = stretch.until;
      await pause();
    }
  }

  async function calls(conversation: ConversationRow, userId: string): Promise<void> {
    for (;;) {
      const page = contacts.callNotes(conversation.id, userId);
      const named = page.flatMap((row) => {
        const note = noteOf(row.metadata);
        const without = note && withoutPerson(note, userId);
        return without && JSON.stringify(without) !== JSON.stringify(note) ? [{ row, note: without }] : [];
      });
      if (named.length === 0) return;
      await inUnits(named, (unit, { row, note }) => {
        const changed: MessageRow = { ...row, text: callText(note), metadata: metadataOf(note), updatedAt: now() };
        chat.posting.change(unit, conversation, changed, now());
      });
    }
  }

  return {
    async inConversation(conversation: ConversationRow, userId: string): Promise<void> {
      await mentions(conversation, userId);
      await calls(conversation, userId);
      const settings = [contacts.setting(conversation.id, userId)].filter((row) => row !== null);
      await inUnits(settings, (unit) => contacts.forgetSetting(unit, conversation.id, userId));
      for (;;) {
        const found = contacts.reports(conversation.id, userId);
        if (found.length === 0) return;
        await inUnits(found, (unit, report) => contacts.removeReport(unit, report, userId));
      }
    },

    async everywhere(person: Person): Promise<void> {
      await inUnits(contacts.blocks(person), contacts.removeBlock);
      await inUnits(contacts.subscriptions(person), contacts.unsubscribe);
      for (let after = ""; ; ) {
        const stretch = contacts.rings(person, after, EVENTS_AT_ONCE);
        if (!stretch) return;
        await inUnits(stretch.own, (unit, { id }) => contacts.removeFromRing(unit, id, person.userId));
        after = stretch.until;
        await pause();
      }
    },
  };
}

function withoutPerson(note: CallNote, userId: string): CallNote {
  const replaced = (names: string[]) => names.map((name) => (name === userId ? ERASED : name));
  return {
    ...note,
    callerId: note.callerId === userId ? null : note.callerId,
    participants: replaced(note.participants),
    missed: note.missed?.filter((name) => name !== userId) ?? null,
  };
}
