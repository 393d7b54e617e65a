import { afterAll, beforeAll, expect, test } from "bun:test";
import { joinChat, joinRoom } from "../sdk/page-api.ts";
import { openStage, type SitePage, type Stage } from "../sdk/stage.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
}, 180_000);
afterAll(() => stage?.close());

/** Resolves when ten more frames of the participant's camera have been decoded. */
async function videoPlays(page: SitePage, identity: string): Promise<void> {
  const selector = `#${identity}-camera`;
  const frames = (query: string) =>
    document.querySelector<HTMLVideoElement>(query)?.getVideoPlaybackQuality().totalVideoFrames ?? 0;
  await page.waitForFunction(frames, selector);
  const before = await page.evaluate(frames, selector);
  await page.waitForFunction(
    ([query, least]) =>
      (document.querySelector<HTMLVideoElement>(query)?.getVideoPlaybackQuality().totalVideoFrames ?? 0) >= least,
    [selector, before + 10] as const,
  );
}

test("two participants call, chat and are recorded, and the replay shows the recording and the chat", async () => {
  const { stoa } = stage;
  const room = await stoa.rooms.create({ name: "journey" });
  const conversation = await stoa.conversations.create({ name: "journey-chat", roomId: room.id });
  await stoa.conversations.addMember(conversation.id, { userId: "ada" });
  await stoa.conversations.addMember(conversation.id, { userId: "ben" });
  const recording = await stoa.recordings.start(room.id, { name: "Journey" });

  const [ada, ben] = [await stage.page(), await stage.page()];
  await joinRoom(ada, await stage.rtc(room.id, "ada"), ["camera", "microphone"], 360);
  await joinRoom(ben, await stage.rtc(room.id, "ben"), ["camera", "microphone"], 360);
  await Promise.all([videoPlays(ada, "ben"), videoPlays(ben, "ada")]);
  expect(await ada.evaluate(() => window.room.recording)).toBe(true);

  await joinChat(ada, await stage.chat("ada"), conversation.id);
  await joinChat(ben, await stage.chat("ben"), conversation.id);
  await ada.evaluate(() => window.conversation.send("Can you hear me?"));
  await ben.waitForFunction(() => window.heard.includes("Can you hear me?"));
  await ben.evaluate(() => window.conversation.send("Yes."));
  await ada.waitForFunction(() => window.heard.includes("Yes."));

  const { status, files } = await stoa.recordings.stop(recording.id);
  expect(status).toBe("READY");
  expect(files.map(({ identity, kind }) => `${identity} ${kind}`).sort()).toEqual(
    ["ada", "ben"].flatMap((identity) => [`${identity} audio`, `${identity} video`]),
  );
  expect(files.every(({ bytes, durationMs }) => bytes > 0 && durationMs > 0)).toBe(true);
  await ada.evaluate(() => window.room.close());
  await ben.waitForFunction(() => window.seen.includes("left ada left"));

  const { url } = await stoa.recordings.mintViewToken(recording.id);
  const replay = await stage.page();
  await replay.goto(url);
  await replay.getByRole("button", { name: "Play" }).click();
  await replay.getByText("Can you hear me?").waitFor();
  expect([...ada.errors, ...ben.errors, ...replay.errors]).toEqual([]);
}, 180_000);
