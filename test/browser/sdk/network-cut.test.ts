import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { hearing, joinChat, joinRoom, moreFrames, shownTexts } from "./page-api.ts";
import { openStage, type SitePage, type Stage } from "./stage.ts";

let stage: Stage;
let anna: SitePage;
let ben: SitePage;
let roomId: string;
beforeAll(async () => {
  stage = await openStage({ CHAT_SEND_RATE_LIMIT: 1000 });
  ({ id: roomId } = await stage.stoa.rooms.create({ name: "cut" }));
  await stage.stoa.conversations.create({ name: "cut", members: [{ userId: "anna" }, { userId: "ben" }] });
  [anna, ben] = await Promise.all([stage.page(), stage.page()]);
  await joinChat(anna, await stage.chat("anna"), "cut");
  await joinChat(ben, await stage.chat("ben"), "cut");
  await joinRoom(anna, await stage.rtc(roomId, "anna"), ["camera", "microphone"]);
  await joinRoom(ben, await stage.rtc(roomId, "ben"), ["camera", "microphone"]);
  await bothSee();
}, 90_000);
afterAll(() => stage.close());
afterEach(() => stage.network.heal());

async function bothSee(timeoutMs = 30_000): Promise<void> {
  await Promise.all([
    moreFrames(anna, "ben-camera", 10, timeoutMs),
    moreFrames(ben, "anna-camera", 10, timeoutMs),
    hearing(anna, timeoutMs),
    hearing(ben, timeoutMs),
  ]);
}

/** Packets of both are lost at the media server, or no longer. */
async function media(profile: "offline" | "none"): Promise<void> {
  for (const identity of ["anna", "ben"]) {
    await fetch(`${stage.server.url}/v1/playground/impair`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ roomId, identity, profile }),
    });
  }
}

let said = 0;
/** Both write while nobody can be sure that anything arrives. */
async function say(count: number): Promise<void> {
  const first = said;
  said += count;
  for (const page of [anna, ben]) {
    await page.evaluate(
      ([first, count]) => {
        for (let n = first; n < first + count; n++) {
          void window.conversation.send(`${window.chat.userId} ${n}`);
        }
      },
      [first, count] as const,
    );
  }
}

/** Everything that was ever said is there once, in the order of its sender, and both show the same. */
async function nothingLost(): Promise<void> {
  for (const page of [anna, ben]) {
    await page.waitForFunction(
      (count) => window.heard.length >= count && window.conversation.messages.every(({ status }) => status === "sent"),
      2 * said,
      { timeout: 30_000, polling: 100 },
    );
  }
  const expected = Array.from({ length: said }, (_, n) => n);
  for (const page of [anna, ben]) {
    const heard = await page.evaluate(() => window.heard);
    expect(heard).toHaveLength(2 * said);
    for (const who of ["anna", "ben"]) {
      const own = heard.filter((text) => text.startsWith(who)).map((text) => Number(text.split(" ")[1]));
      expect(own).toEqual(expected);
    }
  }
  expect(await shownTexts(anna)).toEqual(await shownTexts(ben));
}

const elements = (page: SitePage) => page.evaluate(() => document.querySelectorAll("video").length);

describe("[6] a call and a chat come back by themselves", () => {
  test("after 5 seconds without any packet", async () => {
    stage.network.silence();
    await media("offline");
    await say(3);
    await Bun.sleep(5_000);
    await media("none");
    stage.network.heal();
    await bothSee();
    await nothingLost();
    expect(await anna.evaluate(() => window.seen.filter((line) => line.startsWith("left")))).toEqual([]);
  }, 60_000);

  test("after 25 seconds without any packet: the session is resumed", async () => {
    stage.network.silence();
    await media("offline");
    await say(3);
    await Bun.sleep(25_000);
    await media("none");
    stage.network.heal();
    await bothSee(60_000);
    await nothingLost();
    expect(await anna.evaluate(() => window.states)).toContain("RECONNECTING");
    expect([await elements(anna), await elements(ben)]).toEqual([1, 1]);
  }, 120_000);

  test("after longer than the server keeps anybody, as 90 seconds are: both join anew, and are published again", async () => {
    await anna.evaluate(() => {
      window.seen = [];
    });
    // Connections that break count from the first moment; 20 seconds later the server has given both up.
    stage.network.reset();
    await say(3);
    const gone = async () => (await stage.stoa.rooms.get(roomId)).participantCount === 0;
    for (let n = 0; n < 300 && !(await gone()); n++) await Bun.sleep(100);
    expect(await gone()).toBe(true);
    await say(3);
    stage.network.heal();
    await bothSee(60_000);
    await nothingLost();
    expect([await elements(anna), await elements(ben)]).toEqual([1, 1]);
  }, 120_000);

  test("after the server's process was ended and started again", async () => {
    const restarting = stage.server.restart("SIGTERM");
    await say(3);
    await restarting;
    await bothSee(60_000);
    await nothingLost();
  }, 120_000);

  test("after the server was killed in the middle of everything", async () => {
    await say(2);
    const restarting = stage.server.restart("SIGKILL");
    await say(3);
    await restarting;
    await bothSee(60_000);
    await nothingLost();
    expect([await elements(anna), await elements(ben)]).toEqual([1, 1]);
    expect([...anna.errors, ...ben.errors]).toEqual([]);
  }, 120_000);
});
