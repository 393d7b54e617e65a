import { iso } from "../../kernel/clock.ts";
import type { AttachmentRow } from "../chat/attachments/attachment.table.ts";
import type { ChatService } from "../chat/chat.ts";
import type { ConversationRow } from "../chat/store/conversation.table.ts";
import type { Person } from "./person.ts";
import { CONVERSATIONS_AT_ONCE, EVENTS_AT_ONCE, pause, ROWS_AT_ONCE, walk } from "./steps.ts";
import type { Traces } from "./store/traces.ts";

export const KINDS = [
  "messages",
  "memberships",
  "reactions",
  "readStates",
  "attachments",
  "mentions",
  "rings",
  "blocks",
  "reports",
  "pushSubscriptions",
  "notificationSettings",
  "chatConnections",
  "connections",
  "calls",
  "recordedTracks",
  "mediaSessions",
  "liveStreams",
  "tokens",
] as const;
export type Kind = (typeof KINDS)[number];

type Rows = AsyncGenerator<object[]>;

export type Holdings = ReturnType<typeof createHoldings>;

/** Everything that is held about a person, kind by kind, in pages that nobody else has to wait for. */
export function createHoldings(traces: Traces, chat: Pick<ChatService, "messages" | "members">) {
  const { chat: chatTraces, contacts, media, queues, recordings } = traces;

  async function* conversations(person: Person): AsyncGenerator<ConversationRow> {
    for (let after = ""; ; ) {
      const page = chatTraces.conversations(person, after, CONVERSATIONS_AT_ONCE);
      yield* page;
      after = page.at(-1)?.id ?? "";
      if (page.length < CONVERSATIONS_AT_ONCE) return;
      await pause();
    }
  }

  async function* perConversation(person: Person, rowsOf: (conversation: ConversationRow) => object[]): Rows {
    for await (const conversation of conversations(person)) {
      const rows = rowsOf(conversation);
      if (rows.length > 0) yield rows;
    }
  }

  async function* sent(person: Person): Rows {
    for await (const conversation of conversations(person)) {
      for (let after = 0; ; ) {
        const page = chatTraces.sent(conversation.id, person.userId, after, ROWS_AT_ONCE);
        if (page.length > 0) yield page.map((row) => chat.messages.show(conversation, row));
        after = page.at(-1)?.seq ?? after;
        if (page.length < ROWS_AT_ONCE) break;
        await pause();
      }
    }
  }

  async function* calls(person: Person): Rows {
    for (let after = { startedAt: -1, id: "" }; ; ) {
      const found = media.calls(person, after, EVENTS_AT_ONCE);
      if (!found) return;
      yield found.visits.map(({ callId: _, callPublicId, sessionId: __, verdict, ...visit }) => ({
        callId: callPublicId,
        ...shown(visit),
        verdict: verdict === null ? null : JSON.parse(verdict),
      }));
      after = found.until;
      await pause();
    }
  }

  async function* mentions(person: Person): Rows {
    for await (const conversation of conversations(person)) {
      for (let from = 0; ; ) {
        const stretch = contacts.mentioning(conversation.id, person.userId, from, EVENTS_AT_ONCE);
        if (!stretch) break;
        if (stretch.found.length > 0) {
          yield stretch.found.map(({ publicId, createdAt }) => ({
            ...{ conversationId: conversation.publicId, messageId: publicId, at: iso(createdAt) },
          }));
        }
        from = stretch.until;
        await pause();
      }
    }
  }

  async function* rings(person: Person): Rows {
    for (let after = ""; ; ) {
      const stretch = contacts.rings(person, after, EVENTS_AT_ONCE);
      if (!stretch) return;
      // What others said in it is not theirs; that somebody rang them is.
      yield stretch.own.map(({ publicId, roomId, callerUserId, status, member, startedAt, endedAt }) => ({
        ...{ ringId: publicId, roomId, rang: callerUserId === person.userId, status, answer: member },
        ...{ startedAt: iso(startedAt), endedAt: iso(endedAt) },
      }));
      after = stretch.until;
      await pause();
    }
  }

  const kinds: Record<Kind, (person: Person) => Rows> = {
    messages: sent,
    memberships: (person) =>
      perConversation(person, ({ id, publicId }) => {
        const row = chatTraces.member(id, person.userId);
        return row ? [{ conversationId: publicId, ...chat.members.show(row) }] : [];
      }),
    reactions: (person) =>
      walk(queues, "message_reactions", (after, until) =>
        chatTraces
          .reactions(person, after, until)
          .map(({ messageId, emoji, createdAt }) => ({ messageId, emoji, createdAt: iso(createdAt) })),
      ),
    readStates: (person) =>
      perConversation(person, ({ id, publicId }) => {
        const row = chatTraces.readState(id, person.userId);
        return row ? [{ ...shown(row), conversationId: publicId }] : [];
      }),
    attachments: (person) =>
      perConversation(person, ({ id, publicId }) =>
        chatTraces.uploaded(id, person.userId).map((row) => ({ ...shownFile(row), conversationId: publicId })),
      ),
    mentions,
    rings,
    // Whom they blocked; who blocked them is the others' to know.
    blocks: async function* (person) {
      yield contacts
        .blocks(person)
        .filter(({ userId }) => userId === person.userId)
        .map(({ blockedUserId, createdAt }) => ({ blockedUserId, createdAt: iso(createdAt) }));
    },
    reports: (person) =>
      perConversation(person, ({ id, publicId }) =>
        contacts
          .reports(id, person.userId)
          .filter(({ reporterUserId }) => reporterUserId === person.userId)
          .map((row) => ({
            ...{ reportId: row.publicId, conversationId: publicId, messageId: row.messageId, reason: row.reason },
            ...{ note: row.noteText, status: row.status, createdAt: iso(row.createdAt) },
          })),
      ),
    pushSubscriptions: async function* (person) {
      yield contacts
        .subscriptions(person)
        .map(({ publicId, endpoint, createdAt }) => ({ id: publicId, endpoint, createdAt: iso(createdAt) }));
    },
    notificationSettings: (person) =>
      perConversation(person, ({ id, publicId }) => {
        const row = contacts.setting(id, person.userId);
        return row ? [{ conversationId: publicId, level: row.level, mutedUntil: iso(row.mutedUntil) }] : [];
      }),
    chatConnections: (person) =>
      walk(queues, "chat_connections", (after, until) => chatTraces.connections(person, after, until).map(shown)),
    connections: (person) =>
      walk(queues, "rtc_connections", (after, until) => media.connections(person, after, until).map(shown)),
    calls,
    recordedTracks: async function* (person) {
      yield recordings
        .tracks(person)
        .map(({ recordingId: _, recordingPublicId, ...track }) => ({ recordingId: recordingPublicId, ...track }));
    },
    mediaSessions: (person) =>
      walk(queues, "usage_sessions", (after, until) => media.sessions(person, after, until).map(shown)),
    liveStreams: async function* (person) {
      yield media.streams(person).map(({ at, ...role }) => ({ ...role, at: iso(at) }));
    },
    tokens: async function* (person) {
      yield media.tokens(person).map(({ id, roomId }) => ({ tokenId: id, roomId }));
    },
  };

  /** Counted by the index: somebody may have written a hundred thousand. */
  async function countSent(person: Person): Promise<number> {
    let count = 0;
    for await (const { id } of conversations(person)) count += chatTraces.countSent(id, person.userId);
    return count;
  }

  return {
    conversations,
    pages: (kind: Kind, person: Person): Rows => kinds[kind](person),

    async count(kind: Kind, person: Person): Promise<number> {
      if (kind === "messages") return countSent(person);
      let count = 0;
      for await (const page of kinds[kind](person)) count += page.length;
      return count;
    },
  };
}

/** A row as JSON shows it: times as text, nothing of how it is stored. */
function shown(row: object): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(row)
      .filter(([name]) => name !== "projectId" && name !== "environment")
      .map(([name, value]) => [name, name.endsWith("At") && typeof value === "number" ? iso(value) : value]),
  );
}

function shownFile({ publicId, filename, mimeType, size, sha256, status, metadata, createdAt }: AttachmentRow) {
  const parsed = metadata === null ? null : JSON.parse(metadata);
  return { id: publicId, filename, mimeType, size, sha256, status, metadata: parsed, createdAt: iso(createdAt) };
}
