import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { got, happened, hears, joinLivekit, sees } from "./harness/livekit-page.ts";
import { type LivekitPackage, openStage, type Stage, WAIT_MS } from "./harness/stage.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
}, 180_000);
afterAll(() => stage.close());

const closing = async (...pages: Page[]) => {
  for (const page of pages) await page.context().close();
};

/** Two of LiveKit's clients in a room: each sees and hears the other. */
async function pairIn(room: string, script: LivekitPackage): Promise<[Page, Page]> {
  const [ann, ben] = [await stage.page(script), await stage.page(script)];
  const options = { name: "Ann Ö.", attributes: { team: "red" }, metadata: "m" };
  await joinLivekit(ann, stage.wsUrl, await stage.token(room, "ann", options));
  await joinLivekit(ben, stage.wsUrl, await stage.token(room, "ben"));
  await Promise.all([sees(ann, "ben"), sees(ben, "ann"), hears(ann, "ben"), hears(ben, "ann")]);
  return [ann, ben];
}

test(
  "livekit-client on one connection exchanges media, names, data and mutes with another livekit-client and our SDK",
  async () => {
    const own = await stage.withStoa("one", "own");
    const [ann, ben] = await pairIn("one", "livekit-client");
    await Promise.all([sees(ann, "own"), hears(ann, "own"), sees(own, "ann")]);
    const known = await ben.evaluate(() => {
      const { name, attributes, metadata, permissions } = window.livekit.remoteParticipants.get("ann");
      return { name, attributes, metadata, canPublish: permissions.canPublish };
    });
    expect(known).toEqual({ name: "Ann Ö.", attributes: { team: "red" }, metadata: "m", canPublish: true });
    expect(await own.evaluate(() => window.room.participants.get("ann")?.name ?? null)).toBe("Ann Ö.");

    await ann.evaluate(async () => {
      const bytes = (text: string) => new TextEncoder().encode(text);
      const { localParticipant: me } = window.livekit;
      await me.publishData(bytes("to all"), { reliable: true, topic: "t" });
      await me.publishData(bytes("to own"), { reliable: true, destinationIdentities: ["own"] });
      await me.publishData(bytes("the end"), { reliable: true, topic: "t" });
    });
    await Promise.all([got(ben, "ann t the end"), own.waitForFunction(() => window.seen.includes("data ann t 7"))]);
    expect(await ben.evaluate(() => window.texts)).toEqual(["ann t to all", "ann t the end"]);
    expect(await own.evaluate(() => window.seen.filter((seen) => seen.startsWith("data")))).toHaveLength(3);
    await own.evaluate(() => window.room.sendData("hello", { topic: "t" }));
    await Promise.all([got(ann, "own t hello"), got(ben, "own t hello")]);

    await ann.evaluate(() => window.livekit.localParticipant.setMicrophoneEnabled(false));
    await happened(ben, "muted ann microphone");
    await own.waitForFunction(() => window.seen.includes("muted ann microphone"));
    const live = await stage.stoa.rooms.list();
    expect(live.find(({ name }) => name === "one")?.participantCount).toBe(3);
    await ann.evaluate(() => window.livekit.disconnect());
    await Promise.all([happened(ben, "left ann"), own.waitForFunction(() => window.seen.includes("left ann left"))]);
    await closing(own, ann, ben);
  },
  3 * WAIT_MS,
);

test(
  "livekit-client 2.15 on two connections is seen and heard by another one, and counts as one participant",
  async () => {
    const pages = await pairIn("two", "livekit-client-two-connections");
    const live = await stage.stoa.rooms.list();
    expect(live.find(({ name }) => name === "two")?.participantCount).toBe(2);
    await closing(...pages);
  },
  3 * WAIT_MS,
);
