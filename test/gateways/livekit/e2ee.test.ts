import { afterAll, beforeAll, expect, test } from "bun:test";
import type * as Sdk from "../../../web/sdk/index.ts";
import { waitForFrames } from "../../e2e/sdk/page-api.ts";
import { got, hears, joinLivekit, sees } from "./harness/livekit-page.ts";
import { openStage, type Stage, WAIT_MS } from "./harness/stage.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
}, 180_000);
afterAll(() => stage.close());

test(
  "livekit-client's encrypted video, audio and data arrive with the same key, and nothing does with another",
  async () => {
    const [ann, ben, eve] = [
      await stage.page("livekit-client"),
      await stage.page("livekit-client"),
      await stage.page("livekit-client"),
    ];
    const join = async (page: typeof ann, identity: string, key: string, publish: boolean) =>
      joinLivekit(page, stage.wsUrl, await stage.token("sealed", identity), { publish, key });
    await join(ann, "ann", "ours", true);
    await join(ben, "ben", "ours", false);
    await join(eve, "eve", "another", false);
    await Promise.all([sees(ben, "ann"), hears(ben, "ann")]);
    await ann.evaluate(() =>
      window.livekit.localParticipant.publishData(new TextEncoder().encode("sealed"), { reliable: true, topic: "t" }),
    );
    await got(ben, "ann t sealed");
    expect(await ben.evaluate(() => window.livekit.remoteParticipants.get("ann").isEncrypted)).toBe(true);

    // The participant was sent everything, and could decrypt nothing.
    await eve.waitForFunction(
      async () => {
        const [publication] = [...window.livekit.remoteParticipants.get("ann").videoTrackPublications.values()];
        const stats = await publication?.track?.receiver?.getStats();
        return [...(stats?.values() ?? [])].some(
          ({ type, framesReceived = 0 }: { type: string; framesReceived?: number }) =>
            type === "inbound-rtp" && framesReceived > 15,
        );
      },
      undefined,
      { timeout: WAIT_MS },
    );
    const shown = await eve.evaluate(() => {
      const video = document.getElementById("ann-camera") as HTMLVideoElement | null;
      return { frames: video?.getVideoPlaybackQuality().totalVideoFrames ?? 0, texts: window.texts };
    });
    expect(shown).toEqual({ frames: 0, texts: [] });
    for (const page of [ann, ben, eve]) await page.context().close();
  },
  4 * WAIT_MS,
);

test(
  "livekit-client and the SDK of Stoa see each other's encrypted video and read each other's data with the same passphrase",
  async () => {
    const { id } = await stage.stoa.rooms.create({ name: "sealed-both", encrypted: true });
    const [stoa, livekit] = [await stage.page("stoa"), await stage.page("livekit-client")];
    const { endpoint, token } = await stage.stoa.rtcTokens.mint(id, {
      participantIdentity: "stan",
      permissions: { publish: true, publishData: true },
    });
    await stoa.evaluate(
      async ({ endpoint, token, url }) => {
        const { connect } = (await import(`${url}/sdk.js`)) as typeof Sdk;
        const room = await connect(endpoint, token, { encryption: { passphrase: "ours" } });
        room.on("trackSubscribed", (track, { identity }) => {
          const element = document.body.appendChild(track.attach());
          element.id = `${identity}-${track.source}`;
        });
        window.texts = [];
        room.on("dataReceived", ({ from, topic, payload }) => window.texts.push(`${from} ${topic} ${payload}`));
        room.onRequest("double", (payload) => payload + payload);
        Object.assign(window, { stan: room });
        await room.localParticipant.enableCamera({ width: 640, height: 360, frameRate: 15 });
      },
      { endpoint, token, url: stage.wsUrl.replace(/^ws/, "http") },
    );
    await joinLivekit(livekit, stage.wsUrl, await stage.token("sealed-both", "liv"), { publish: true, key: "ours" });
    await sees(livekit, "stan");
    await waitForFrames(stoa, "liv-camera", 10, WAIT_MS);
    await livekit.evaluate(() =>
      window.livekit.localParticipant.publishData(new TextEncoder().encode("from liv"), { reliable: true, topic: "t" }),
    );
    await got(stoa, "liv t from liv");
    await stoa.evaluate(() => (window as unknown as { stan: Sdk.Room }).stan.sendData("from stan", { topic: "t" }));
    await got(livekit, "stan t from stan");
    const answer = await livekit.evaluate(() =>
      window.livekit.localParticipant.performRpc({ destinationIdentity: "stan", method: "double", payload: "ab" }),
    );
    expect(answer).toBe("abab");
    for (const page of [stoa, livekit]) await page.context().close();
  },
  4 * WAIT_MS,
);
