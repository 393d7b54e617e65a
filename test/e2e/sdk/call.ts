import { expect } from "bun:test";
import { joinChat, joinRoom, messageTexts, receivesAudio, waitForFrames } from "./page-api.ts";
import type { Scripted } from "./scripted.ts";
import type { Stage } from "./stage.ts";

/** Two pages in a call and a chat, on their own network. */
export type Call = {
  /** Drops all packets between the pages and the server, of sockets and media. */
  cut(): Promise<void>;
  heal(): Promise<void>;
  /** Makes both pages send messages, even while the network is cut. */
  say(count: number): Promise<void>;
  bothSeeAndHear(timeoutMs?: number): Promise<void>;
  /** Checks that both pages show every message once and in the order of its sender. */
  nothingLost(): Promise<void>;
  /** The number of tokens of this kind that the pages have requested since they joined. */
  renewals(kind: TokenKind): number;
};

const NAMES = ["anna", "ben"] as const;
const MEDIA = ["camera", "microphone"] as const;
/** The video is small, because several calls share the cores of one machine. */
const HEIGHT = 180;

export type CallOptions = { ttlSeconds?: number };
type TokenKind = "rtc" | "chat";
type Renewing = Scripted & {
  exposeFunction?: (name: string, run: (kind: TokenKind) => Promise<string>) => Promise<unknown>;
};

export async function openCall(
  stage: Stage,
  name: string,
  pages: readonly [Renewing, Renewing],
  { ttlSeconds = 3600 }: CallOptions = {},
): Promise<Call> {
  const network = await stage.openNetwork();
  const { id: roomId } = await stage.stoa.rooms.create({ name });
  await stage.stoa.conversations.create({ name, members: NAMES.map((userId) => ({ userId })) });
  let said = 0;
  const renewals = { rtc: 0, chat: 0 };
  const mint = {
    rtc: (who: string) => stage.rtc(roomId, who, undefined, { ttlSeconds, network }),
    chat: (who: string) => stage.chat(who, { ttlSeconds, network }),
  };
  for (const [index, page] of pages.entries()) {
    const who = NAMES[index] ?? "";
    await page.exposeFunction?.("freshToken", async (kind) => {
      renewals[kind] += 1;
      return (await mint[kind](who)).token;
    });
    await joinChat(page, await mint.chat(who), name);
    await joinRoom(page, await mint.rtc(who), [...MEDIA], HEIGHT);
  }

  const impair = (profile: "offline" | "none") =>
    Promise.all(
      NAMES.map((identity) =>
        fetch(`${stage.server.url}/v1/playground/impair`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ roomId, identity, profile }),
        }),
      ),
    );

  return {
    async cut() {
      network.silence();
      await impair("offline");
    },
    async heal() {
      await impair("none");
      network.heal();
    },
    async say(count) {
      const first = said;
      said += count;
      for (const page of pages) await page.evaluate(write, [first, count] as const);
    },
    async bothSeeAndHear(timeoutMs = 60_000) {
      const [anna, ben] = pages;
      await Promise.all([
        waitForFrames(anna, "ben-camera", 10, timeoutMs),
        waitForFrames(ben, "anna-camera", 10, timeoutMs),
        receivesAudio(anna, timeoutMs),
        receivesAudio(ben, timeoutMs),
      ]);
      // A leftover element of a lost track would make this two.
      for (const page of pages) expect(await page.evaluate(videos, undefined)).toBe(1);
    },
    async nothingLost() {
      for (const page of pages) {
        await page.waitForFunction(allSent, NAMES.length * said, { timeout: 60_000, polling: 100 });
        const heard = await page.evaluate(() => window.heard, undefined);
        expect(heard).toHaveLength(NAMES.length * said);
        for (const who of NAMES) {
          const own = heard.filter((text) => text.startsWith(who)).map((text) => Number(text.split(" ")[1]));
          expect(own).toEqual(Array.from({ length: said }, (_, n) => n));
        }
      }
      expect(await messageTexts(pages[0])).toEqual(await messageTexts(pages[1]));
    },
    renewals: (kind) => renewals[kind],
  };
}

function write([first, count]: readonly [number, number]): void {
  for (let n = first; n < first + count; n++) void window.conversation.send(`${window.chat.userId} ${n}`);
}

const allSent = (count: number) =>
  window.heard.length >= count && window.conversation.messages.every(({ status }) => status === "sent");

const videos = () => document.querySelectorAll("video").length;
