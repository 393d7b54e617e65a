/** Fills conversations of a server with senders and readers through its public API, and measures delivery. */
import { createApi } from "./api.ts";
import { type ChatFigures, ChatMeasure } from "./chat-measure.ts";
import { ChatMember } from "./chat-member.ts";
import { causeOf, Tally, within } from "./figures.ts";

type ChatLoad = {
  url: string;
  apiKey: string;
  conversations: number;
  senders: number;
  readers: number;
  /** Messages a second from each sender. */
  rate: number;
  durationSeconds: number;
};

export type ChatReport = ChatFigures & {
  wanted: number;
  joined: number;
  /** The number of failed joins, by error code. */
  refused: Record<string, number>;
};

const JOIN_TIMEOUT_MS = 15_000;

type Group = { room: string; senders: ChatMember[]; readers: ChatMember[] };

export async function runChatLoad(load: ChatLoad, progress: (line: string) => void): Promise<ChatReport> {
  const { url, apiKey, conversations, senders, readers, rate, durationSeconds } = load;
  const api = createApi(url, apiKey);
  const run = crypto.randomUUID();
  const measure = new ChatMeasure(run);
  const refused = new Tally();
  const groups: Group[] = [];
  const joined = () => groups.reduce((total, group) => total + group.senders.length + group.readers.length, 0);

  async function join(room: string, userId: string, onMessage?: (text: string, seq: number) => void) {
    try {
      const { token } = await api("POST", "/v1/chat/tokens", { userId });
      return [await within(JOIN_TIMEOUT_MS, ChatMember.join(url, String(token), room, onMessage))];
    } catch (error) {
      refused.add(causeOf(error));
      return [];
    }
  }

  async function fill(index: number): Promise<void> {
    // Rate limits apply per user, so every member of every run uses a new user id.
    const names = (role: string, count: number) =>
      Array.from({ length: count }, (_, n) => `load-${run}-${index}-${role}-${n}`);
    const [writing, reading] = [names("sender", senders), names("reader", readers)];
    const { id } = await api("POST", "/v1/chat/conversations", {
      name: `load-test-${run}-${index}`,
      members: [...writing, ...reading].map((userId) => ({ userId })),
      // A conversation cannot be deleted, but its messages can expire.
      retentionDays: 1,
    });
    const group: Group = { room: String(id), senders: [], readers: [] };
    groups.push(group);
    for (const userId of reading) group.readers.push(...(await join(group.room, userId, measure.reader())));
    for (const userId of writing) group.senders.push(...(await join(group.room, userId)));
  }

  try {
    for (let index = 0; index < conversations; index++) {
      await fill(index);
      progress(`conversation ${index + 1} of ${conversations}: ${joined()} joined`);
    }
    const timers = groups.flatMap(({ room, senders, readers }) =>
      senders.map((member) => {
        const post = (text: string) => member.request("message.send", { room, text, clientMessageId: text });
        return setInterval(() => measure.send(readers.length, post), 1000 / rate);
      }),
    );
    for (let second = 1; second <= durationSeconds; second++) {
      await Bun.sleep(1_000);
      progress(`${second} of ${durationSeconds} s: ${measure.summary}`);
    }
    for (const timer of timers) clearInterval(timer);
    await measure.settled();
    const wanted = conversations * (senders + readers);
    return { wanted, joined: joined(), refused: refused.counts, ...measure.figures() };
  } finally {
    for (const member of groups.flatMap(({ senders, readers }) => [...senders, ...readers])) member.close();
    for (const { room } of groups) {
      await api("PATCH", `/v1/chat/conversations/${room}`, { status: "ARCHIVED" }).catch(() => {});
    }
  }
}
