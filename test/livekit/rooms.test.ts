import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { joinRoom } from "../browser/sdk/page-api.ts";
import { got, happened, hears, joinLivekit, sees } from "./livekit-page.ts";
import { type LivekitPackage, openStage, type Stage, WAIT_MS } from "./stage.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
}, 180_000);
afterAll(() => stage.close());

const closing = async (...pages: Page[]) => {
  for (const page of pages) await page.context().close();
};

/** Somebody with our own SDK in the room of that name. */
async function withStoa(room: string, identity: string): Promise<Page> {
  const found = (await stage.stoa.rooms.list()).find(({ name }) => name === room);
  const { id } = found ?? (await stage.stoa.rooms.create({ name: room }));
  const permissions = { publish: true, publishData: true, updateMetadata: true };
  const token = await stage.stoa.rtcTokens.mint(id, { participantIdentity: identity, permissions, name: "Own" });
  const page = await stage.page("stoa");
  await joinRoom(page, token, ["camera", "microphone"], 360);
  return page;
}

const WAYS: [string, LivekitPackage, object][] = [
  ["livekit-client on one connection", "livekit-client", {}],
  ["livekit-client on two connections", "livekit-client", { singlePeerConnection: false }],
  ["livekit-client 2.15, which knows only two", "livekit-client-two-connections", {}],
];

test.each(WAYS)(
  "%s: sees, hears and is seen by its like and by our own SDK",
  async (name, script, room) => {
    const lobby = name.replaceAll(/\W+/g, "-");
    const own = await withStoa(lobby, "own");
    const [ann, ben] = [await stage.page(script), await stage.page(script)];
    const options = { name: "Ann Ö.", attributes: { team: "red" }, metadata: "m" };
    await joinLivekit(ann, stage.wsUrl, await stage.token(lobby, "ann", options), { room });
    await joinLivekit(ben, stage.wsUrl, await stage.token(lobby, "ben"), { room });

    await Promise.all([sees(ann, "ben"), sees(ben, "ann"), hears(ann, "ben"), hears(ben, "ann")]);
    await Promise.all([sees(ann, "own"), hears(ann, "own"), sees(own, "ann"), sees(own, "ben")]);
    const known = await ben.evaluate(() => {
      const { name, attributes, metadata, permissions } = window.livekit.remoteParticipants.get("ann");
      return { name, attributes, metadata, canPublish: permissions.canPublish };
    });
    expect(known).toEqual({ name: "Ann Ö.", attributes: { team: "red" }, metadata: "m", canPublish: true });
    expect(await own.evaluate(() => window.room.participants.get("ann")?.name ?? null)).toBe("Ann Ö.");

    // Data between all, and to one of them only.
    await ann.evaluate(async () => {
      const bytes = (text: string) => new TextEncoder().encode(text);
      await window.livekit.localParticipant.publishData(bytes("to all"), { reliable: true, topic: "t" });
      await window.livekit.localParticipant.publishData(bytes("to own"), {
        reliable: true,
        destinationIdentities: ["own"],
      });
      await window.livekit.localParticipant.publishData(bytes("the end"), { reliable: true, topic: "t" });
    });
    await Promise.all([got(ben, "ann t the end"), own.waitForFunction(() => window.seen.includes("data ann t 7"))]);
    expect(await ben.evaluate(() => window.texts)).toEqual(["ann t to all", "ann t the end"]);
    expect(await own.evaluate(() => window.seen.filter((seen) => seen.startsWith("data")))).toHaveLength(3);
    await own.evaluate(() => window.room.sendData("hello", { topic: "t" }));
    await Promise.all([got(ann, "own t hello"), got(ben, "own t hello")]);

    // Mute, unmute, unpublish and publish again, seen by both kinds.
    await ann.evaluate(() => window.livekit.localParticipant.setMicrophoneEnabled(false));
    await Promise.all([
      happened(ben, "muted ann microphone"),
      own.waitForFunction(() => window.seen.includes("muted ann microphone")),
    ]);
    await ann.evaluate(() => window.livekit.localParticipant.setMicrophoneEnabled(true));
    await happened(ben, "unmuted ann microphone");
    await ann.evaluate(async () => {
      const [camera] = [...window.livekit.localParticipant.videoTrackPublications.values()];
      await window.livekit.localParticipant.unpublishTrack(camera.track);
    });
    await happened(ben, "unpublished ann camera");
    await own.waitForFunction(() => document.getElementById("ann-camera") === null);
    await ann.evaluate(() => window.livekit.localParticipant.setCameraEnabled(true));
    await Promise.all([sees(ben, "ann"), sees(own, "ann")]);

    // One of each, whatever their connections; then they go.
    const live = await stage.stoa.rooms.list();
    expect(live.find(({ name }) => name === lobby)?.participantCount).toBe(3);
    await ann.evaluate(() => window.livekit.disconnect());
    await Promise.all([happened(ben, "left ann"), own.waitForFunction(() => window.seen.includes("left ann left"))]);
    await closing(own, ann, ben);
  },
  4 * WAIT_MS,
);
