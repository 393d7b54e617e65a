import { afterAll, beforeAll, expect, test } from "bun:test";
import type * as Sdk from "../../../web/sdk/index.ts";
import { waitForFrames } from "../../e2e/sdk/page-api.ts";
import { got, joinLivekit, sees } from "./harness/livekit-page.ts";
import { openStage, type Stage, WAIT_MS } from "./harness/stage.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
}, 180_000);
afterAll(() => stage.close());

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
    const answer = await livekit.evaluate(() => {
      // The SDK gives up after seven or fifteen seconds, which a busy machine may take: it is asked again then, and only then.
      const isLate = ({ code }: { code?: number }) => code === 1501 || code === 1502;
      const ask = (): Promise<string> =>
        window.livekit.localParticipant
          .performRpc({ destinationIdentity: "stan", method: "double", payload: "ab" })
          .catch((error: { code?: number }) => (isLate(error) ? ask() : Promise.reject(error)));
      return ask();
    });
    expect(answer).toBe("abab");
    for (const page of [stoa, livekit]) await page.context().close();
  },
  4 * WAIT_MS,
);
